import { expect, it } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { hugePageDemand, pageName } from './huge-pages.ts'

const demanded = (domain: Domain) =>
  Object.fromEntries([...hugePageDemand(domain)].map(([page, bytes]) => [pageName(page), bytes / 2n ** 20n]))

const memory = { unit: 'GiB', value: 2 }
const cells = [0, 1, 2].map((id) => ({ id, cpus: String(id), memory: 1, unit: 'GiB' }))
const pages = [
  { size: 2, unit: 'MiB', nodeset: '0,2' },
  { size: 1, unit: 'GiB' },
]
const dimm = (model: 'dimm' | 'nvdimm', source = {}) => ({
  model,
  source,
  target: { node: 1, size: { unit: 'MiB', value: 512 } },
})

it.each<[string, Domain, object]>([
  ['is not backed by them', { memory }, {}],
  ['does not state the size', { memory, memoryBacking: { hugepages: {} } }, { '2Mi': 2048n }],
  ['states the size', { memory, memoryBacking: { hugepages: { pages: [{ size: '1048576' }] } } }, { '1Gi': 2048n }],
  ['states normal pages', { memory, memoryBacking: { hugepages: { pages: [{ size: 4, unit: 'KiB' }] } } }, {}],
  [
    'and pages are a byte too small, which libvirt rounds up',
    {
      memory: { unit: 'bytes', value: 2 ** 31 - 1 },
      memoryBacking: { hugepages: { pages: [{ size: 2 ** 21 - 1, unit: 'bytes' }] } },
    },
    { '2Mi': 2048n },
  ],
  [
    'states pages of less than 1 MiB, as other architectures have',
    { memory, memoryBacking: { hugepages: { pages: [{ size: 64 }] } } },
    { '64Ki': 2048n },
  ],
  [
    'states pages of its only node',
    { memory, memoryBacking: { hugepages: { pages: pages.slice(0, 1) } } },
    { '2Mi': 2048n },
  ],
  [
    'has pages for its NUMA nodes',
    { memory, cpu: { numa: { cells } }, memoryBacking: { hugepages: { pages } } },
    { '2Mi': 2048n, '1Gi': 1024n },
  ],
  [
    'has pages for some NUMA nodes',
    { memory, cpu: { numa: { cells } }, memoryBacking: { hugepages: { pages: pages.slice(0, 1) } } },
    { '2Mi': 2048n },
  ],
  [
    'has modules: one with the pages of its node, one with others, and a file',
    {
      cpu: { numa: { cells } },
      memoryBacking: { hugepages: { pages } },
      devices: { memories: [dimm('dimm'), dimm('dimm', { pagesize: { unit: 'MiB', value: 2 } }), dimm('nvdimm')] },
    },
    { '2Mi': 2048n + 512n, '1Gi': 1024n + 512n },
  ],
])('counts the huge pages of a guest whose memory %s', (_, domain, expected) => {
  expect(demanded(domain)).toEqual(expected)
})
