import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { readDomain } from '../api/domain/xml.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { fillDefaults } from '../completion/defaults/defaults.ts'
import { seed } from './seed.ts'

/**
 * How many domains per second get libvirt's defaults, compared with a `structuredClone` of the result in the same run:
 * the shortest VM, one with 20 devices on q35, one with 400 (which would show quadratic cost), and the largest of
 * LIBVIRT_CORPUS, if it is set.
 *
 *     npm run -s bench:completion
 */
const letters = 'abcdefghijklmnopqrstuvwxyz'
const diskName = (index: number): string =>
  `vd${index < 26 ? '' : letters.charAt(Math.floor(index / 26) - 1)}${letters.charAt(index % 26)}`

const onQ35 = (disks: number, interfaces: number): Domain => ({
  ...seed,
  os: { type: { os: 'hvm', machine: 'q35' } },
  devices: {
    disks: Array.from({ length: disks }, (_, index) => ({
      source: { file: `/disks/${index}.qcow2` },
      driver: { type: 'qcow2' as const },
      target: { dev: diskName(index) },
    })),
    interfaces: Array.from({ length: interfaces }, () => ({ type: 'user' as const, model: { type: 'virtio' } })),
    serials: [{}],
    graphics: [{ type: 'vnc' }],
    rngs: [{ model: 'virtio', backend: { model: 'random', value: '/dev/urandom' } }],
    inputs: [{ type: 'tablet' }],
  },
})

const largest = (folder: string): Domain => {
  const path = join(folder, 'complete')
  const domains = readdirSync(path)
    .filter((file) => file.endsWith('.in.xml'))
    .map((file) => readDomain(readFileSync(join(path, file))))
    .flatMap((read) => ('domain' in read ? [read.domain] : []))
  return domains.reduce((one, other) => (JSON.stringify(one).length < JSON.stringify(other).length ? other : one), {})
}

const perSecond = (work: () => unknown): number => {
  for (let index = 0; index < 200; index += 1) work()
  const begin = performance.now()
  let count = 0
  while (performance.now() - begin < 1000) {
    for (let index = 0; index < 10; index += 1) work()
    count += 10
  }
  return (count / (performance.now() - begin)) * 1000
}

const corpus = process.env['LIBVIRT_CORPUS']
const subjects: [string, Domain][] = [
  ['seed', seed],
  ['q35, 20 devices', onQ35(8, 8)],
  ['q35, 200 devices', onQ35(98, 98)],
  ['q35, 400 devices', onQ35(198, 198)],
  ...(corpus !== undefined && existsSync(corpus)
    ? [['largest of the corpus', largest(corpus)] as [string, Domain]]
    : []),
]
for (const [name, domain] of subjects) {
  const context = { capabilities: bundledCapabilities, entropy: { uid: 'bench' }, isNew: true }
  const result = fillDefaults(domain, context).domain
  const clones = perSecond(() => structuredClone(result))
  const completions = perSecond(() => fillDefaults(domain, context))
  const times = (clones / completions).toFixed(1)
  process.stdout.write(
    `${`${name}: ${completions.toFixed(0)}/s; structuredClone ${clones.toFixed(0)}/s; ${times} times as long`}\n`,
  )
}
