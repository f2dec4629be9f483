import { backedMemory, pageName } from '../../api/huge-pages.ts'
import { invalid } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const hugePages: Rule = {
  id: 'huge-pages',
  description: 'Memory in huge pages must be a multiple of their size: the pod requests whole pages.',
  about: ['hugepages', 'pagesize'],
  *check({ domain, isInPod }) {
    if (isInPod !== true) return
    for (const { field, bytes, pageBytes } of backedMemory(domain)) {
      if (pageBytes === undefined || bytes % pageBytes === 0n) continue
      const [below, above] = [bytes / pageBytes, bytes / pageBytes + 1n].map((count) => (count * pageBytes) / mebibyte)
      const message = `is ${bytes} bytes, and must be a multiple of the size of its huge pages, ${pageName(pageBytes)}`
      const suggestion = below === 0n ? `${above} MiB` : `${below} MiB or ${above} MiB`
      yield invalid(`spec.domain.${field}`, bytes.toString(), message, suggestion)
    }
  },
  example: example(
    { memory: { unit: 'MiB', value: 65 }, memoryBacking: { hugepages: {} } },
    { memory: { unit: 'MiB', value: 66 }, memoryBacking: { hugepages: {} } },
  ),
}

const mebibyte = 2n ** 20n
