import { numbersOf } from '../../api/domain/cpuset.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { integerOf } from '../../api/domain/scalar-value.ts'
import { memoryDemand } from '../../api/launcher-memory.ts'
import { memoryOfNodes } from '../defaults/memory.ts'
import { numberOf } from '../defaults/reading.ts'
import { duplicate, forbidden, invalid, missingCapability, notFound, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

/** In KiB: libvirt stores bytes in 63 bits. */
const maxMemory = 9_007_199_254_740_991n

/** QEMU allocates memory in steps of 1 MiB; libvirt rounds up to them. */
const stepKiB = 1024n

const roundedUp = (kibibytes: bigint): bigint => ((kibibytes + stepKiB - 1n) / stepKiB) * stepKiB

const amount = (size: { readonly value?: number | string } | undefined): bigint => integerOf(size?.value) ?? 0n

const memoryGiven: Rule = {
  id: 'memory',
  description: 'A VM must have memory: in `memory`, or in the NUMA nodes of the guest.',
  *check({ domain: { memory, cpu } }) {
    if (amount(memory) > 0n) return
    if ((cpu?.numa?.cells ?? []).some((cell) => (integerOf(cell.memory) ?? 0n) > 0n)) return
    const message = 'must be more than 0: the memory of the guest'
    const suggestion = 'e.g. {unit: GiB, value: 2}'
    yield memory?.value === undefined
      ? required('spec.domain.memory', message, suggestion)
      : invalid('spec.domain.memory.value', memory.value, message, suggestion)
  },
  example: example({ memory: { unit: 'MiB', value: 0 } }, { memory: { unit: 'MiB', value: 64 } }),
}

/** Every amount of memory of a domain in KiB, with its path. */
const amountsOf = ({ memory, maxMemory, currentMemory, cpu, devices }: Domain): [string, bigint][] => [
  ['memory.value', amount(memory)],
  ['currentMemory.value', amount(currentMemory)],
  ['maxMemory.value', amount(maxMemory)],
  ...(cpu?.numa?.cells ?? []).map((cell, index): [string, bigint] => [
    `cpu.numa.cells[${index}].memory`,
    integerOf(cell.memory) ?? 0n,
  ]),
  ...(devices?.memories ?? []).map(({ target }, index): [string, bigint] => [
    `devices.memories[${index}].target.size.value`,
    amount(target?.size),
  ]),
]

const isPart = (path: string): boolean => path.startsWith('cpu.numa') || path.startsWith('devices.memories')

/** The part of enforced memory that may be added by rounding up NUMA nodes and memory devices in units such as GB. */
const mostRoundedUp = 64n

/** `memory` alone does not decide how much a guest has: libvirt replaces it by the sum. */
const memoryEnforced: Rule = {
  id: 'memory-enforced',
  description: 'If a preset enforces `memory`, the NUMA nodes and memory devices of the guest must have exactly that.',
  about: ['cells'],
  *check({ domain, isEnforced }) {
    const sum = memoryOfNodes(domain)
    if (sum === 0n || isEnforced?.('spec.domain.memory.value') !== true) return
    const enforced = amount(domain.memory)
    const parts = amountsOf(domain).flatMap(([path, size]) => (isPart(path) ? [size] : []))
    // Each amount in another unit is rounded up to KiB.
    const isAlike = (sum >= enforced && sum < enforced + BigInt(parts.length)) || sum === roundedUp(enforced)
    // Then libvirt rounds each up to MiB, which must not make many small ones more than that.
    const made = parts.reduce((total, size) => total + roundedUp(size), 0n)
    if (isAlike && made - roundedUp(enforced) <= enforced / mostRoundedUp) return
    const given = isAlike ? `${made} KiB, because each is rounded up to whole MiB` : `${sum} KiB`
    const message = `must have, with the memory devices, the ${enforced} KiB of memory that a preset enforces; they have ${given}`
    yield forbidden('spec.domain.cpu.numa.cells', undefined, message)
  },
  example: example(
    { memory: { unit: 'GiB', value: 1 }, cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 2, unit: 'GiB' }] } } },
    { memory: { unit: 'GiB', value: 2 }, cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 2, unit: 'GiB' }] } } },
  ),
}

const memorySize: Rule = {
  id: 'memory-size',
  description: 'Memory, rounded up to whole MiB, must be less than 8 EiB, the most that libvirt supports.',
  *check({ domain }) {
    for (const [path, size] of amountsOf(domain)) {
      if (roundedUp(size) > maxMemory) {
        yield invalid(`spec.domain.${path}`, String(size), 'must be less than 8 EiB after rounding up to whole MiB')
      }
    }
  },
  example: example({ memory: { unit: 'KiB', value: '9007199254740991' } }, { memory: { unit: 'TiB', value: 1 } }),
}

/** Kubernetes stores bytes in 63 bits. */
const mostBytes = 2n ** 63n

const memoryDemandRule: Rule = {
  id: 'memory-demand',
  description: 'All memory that QEMU can allocate must be less than 8 EiB, the most that Kubernetes supports.',
  *check({ domain }) {
    const { guest, qemu, launcher } = memoryDemand(domain)
    const total = guest + qemu + launcher
    if (total < mostBytes) return
    const message = `must be less: with NUMA nodes, devices and caches QEMU can allocate ${total} bytes; the limit is 8 EiB`
    yield invalid('spec.domain.memory.value', domain.memory?.value, message)
  },
  example: example(
    {
      cpu: {
        numa: {
          cells: [
            { id: 0, cpus: '0', memory: 7, unit: 'EiB' },
            { id: 1, memory: 1, unit: 'EiB' },
          ],
        },
      },
    },
    {
      cpu: {
        numa: {
          cells: [
            { id: 0, cpus: '0', memory: 6, unit: 'EiB' },
            { id: 1, memory: 1, unit: 'EiB' },
          ],
        },
      },
    },
  ),
}

const maxMemoryRule: Rule = {
  id: 'max-memory',
  description: '`maxMemory` must not be less than `memory`, and requires a NUMA node of the guest.',
  about: ['maxMemory'],
  *check({ domain }) {
    const { maxMemory, cpu, memory } = domain
    if (!maxMemory) return
    const most = amount(maxMemory)
    if (most === 0n) {
      yield required(
        'spec.domain.maxMemory.value',
        'must be set together with slots: the most memory that the guest can get',
      )
      return
    }
    if (most < amount(memory)) {
      yield invalid('spec.domain.maxMemory.value', maxMemory.value, 'must not be less than memory')
    }
    if ((cpu?.numa?.cells?.length ?? 0) === 0) {
      const message = 'must be set with maxMemory: plugged memory belongs to a NUMA node of the guest'
      yield required('spec.domain.cpu.numa.cells', message, 'e.g. one cell with id 0, all cpus and all memory')
    }
  },
  example: example(
    { maxMemory: { unit: 'MiB', value: 2, slots: 1 } },
    {
      maxMemory: { unit: 'GiB', value: 2, slots: 1 },
      cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } },
    },
  ),
}

const memoryBacking: Rule = {
  id: 'memory-backing',
  description:
    'Huge pages must have a size, name existing NUMA nodes of the guest, each once, and must not be anonymous memory.',
  about: ['hugepages'],
  *check({ domain: { memoryBacking, cpu } }) {
    const cells = Math.max(1, cpu?.numa?.cells?.length ?? 0)
    const field = 'spec.domain.memoryBacking'
    if (!memoryBacking?.hugepages) return
    if (memoryBacking.source?.type === 'anonymous') {
      yield forbidden(
        `${field}.source.type`,
        'anonymous',
        'anonymous memory does not support huge pages',
        'did you mean "memfd"?',
      )
    }
    if (memoryBacking.allocation?.mode === 'ondemand')
      yield forbidden(
        `${field}.allocation.mode`,
        'ondemand',
        'is not supported with huge pages, which are allocated at the start',
      )
    const owners = new Map<number, number>()
    let general: number | undefined
    for (const [index, page] of (memoryBacking.hugepages.pages ?? []).entries()) {
      const nodes = numbersOf(page.nodeset, cells + 1)
      const shared = nodes.find((node) => owners.has(node))
      if (shared !== undefined) {
        yield duplicate(
          `${field}.hugepages.pages[${index}].nodeset`,
          page.nodeset,
          `node ${shared} is already in pages[${owners.get(shared)}]`,
        )
      }
      for (const node of nodes) owners.set(node, index)
      if (page.nodeset === undefined && general !== undefined) {
        yield required(
          `${field}.hugepages.pages[${index}].nodeset`,
          `must be set: pages[${general}] already applies to all other nodes`,
        )
      }
      if (page.nodeset === undefined) general ??= index
      const at = `${field}.hugepages.pages[${index}]`
      if ((numberOf(page.size) ?? 0) === 0) yield required(`${at}.size`, 'must be set: the size of the pages')
      const missing = nodes.find((node) => node >= cells)
      if (missing !== undefined) yield notFound(`${at}.nodeset`, page.nodeset, `cpu.numa has no cell ${missing}`)
    }
  },
  example: example(
    { memoryBacking: { hugepages: { pages: [{ size: 2, unit: 'MiB', nodeset: '1' }] } } },
    { memoryBacking: { hugepages: { pages: [{ size: 2, unit: 'MiB', nodeset: '0' }] } } },
  ),
}

/** Apart from the others, because it is checked for each kind of node, and sets of nodes take long to parse. */
const hugePageSize: Rule = {
  id: 'huge-page-size',
  description: 'Huge pages must have a size that the node supports.',
  about: ['hugepages'],
  *check({ domain: { memoryBacking }, capabilities: { host } }) {
    const sizes = host?.pageSizes
    if (sizes === undefined) return
    for (const [index, { size }] of (memoryBacking?.hugepages?.pages ?? []).entries()) {
      const kibibytes = numberOf(size) ?? 0
      if (kibibytes === 0 || sizes.includes(kibibytes)) continue
      const at = `spec.domain.memoryBacking.hugepages.pages[${index}].size`
      const message = `must be a page size that the node supports: ${sizes.join(', ')} KiB`
      yield missingCapability(`pages of ${kibibytes} KiB`, invalid(at, `${kibibytes} KiB`, message))
    }
  },
  example: example(
    { memoryBacking: { hugepages: { pages: [{ size: 5, unit: 'MiB' }] } } },
    { memoryBacking: { hugepages: { pages: [{ size: 2, unit: 'MiB' }] } } },
  ),
}

const memoryTune: Rule = {
  id: 'memory-tune',
  description: 'QEMU does not support `minGuarantee`; each device of the node can have one weight.',
  about: ['memtune', 'blkiotune'],
  *check({ domain: { memtune, blkiotune } }) {
    if (amount(memtune?.minGuarantee) > 0n)
      yield unsupported('spec.domain.memtune.minGuarantee', undefined, 'is not supported by QEMU', 'use softLimit')
    const seen = new Set<string>()
    for (const [index, { path }] of (blkiotune?.devices ?? []).entries()) {
      if (path === undefined) continue
      if (seen.has(path))
        yield duplicate(`spec.domain.blkiotune.devices[${index}].path`, path, 'is listed more than once')
      seen.add(path)
    }
  },
  example: example(
    { memtune: { minGuarantee: { unit: 'MiB', value: 64 } } },
    { memtune: { softLimit: { unit: 'MiB', value: 64 } } },
  ),
}

export const memoryRules: readonly Rule[] = [
  memoryGiven,
  memoryEnforced,
  memorySize,
  memoryDemandRule,
  maxMemoryRule,
  memoryBacking,
  hugePageSize,
  memoryTune,
]
