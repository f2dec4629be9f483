import { canonicalCpuset, restOf } from '../../api/domain/cpuset.ts'
import { maxVcpus } from '../../api/domain/limits.ts'
import { exactNumber } from '../../api/domain/scalar-value.ts'
import { memoryOfDevices, totalMemory } from './memory.ts'
import { numberOf } from './reading.ts'
import { appendTo, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'

export const numaCellId: Rule = {
  name: 'numa-cell-id',
  description: 'NUMA nodes are numbered in the order of the list; the unit of their memory is KiB.',
  apply: ({ cpu }) =>
    (cpu?.numa?.cells ?? []).map((cell, index) =>
      fill(cell, {
        id: index,
        ...(cell.memory === undefined ? {} : { unit: 'KiB' }),
      }),
    ),
}

export const hotplugCell: Rule = {
  name: 'numa-hotplug-cell',
  description:
    'A new VM with `maxMemory` has a NUMA node: if it has none, one is added with all virtual CPUs and the memory that is not on memory devices.',
  apply: (domain, { isNew }) => {
    const { cpu, maxMemory, vcpu } = domain
    if (isNew !== true || maxMemory === undefined || cpu?.numa?.cells?.length) return []
    const own = totalMemory(domain) - memoryOfDevices(domain)
    if (own <= 0n) return []
    const cpus = canonicalCpuset(`0-${(numberOf(vcpu?.value) ?? 1) - 1}`)
    return [
      fill(domain, { cpu: { numa: { cells: [{ id: 0, cpus, memory: exactNumber(own), unit: 'KiB' }] } } }),
      ...list(domain, 'memories').flatMap((one): Addition[] =>
        isOnNode(one) ? [fill(one, { target: { node: 0 } })] : [],
      ),
    ]
  },
}

/** virtio-pmem devices and SGX enclaves are on no NUMA node. */
const isOnNode = ({ model }: DeviceOf<'memories'>): boolean =>
  model === 'dimm' || model === 'nvdimm' || model === 'virtio-mem'

/** ACPI's distance from a NUMA node to itself. */
const localDistance = 10

export const numaDistance: Rule = {
  name: 'numa-distance',
  description:
    'The distance between two NUMA nodes is the same in both directions, and 10 from each node to itself, unless set.',
  apply: ({ cpu }) => {
    const cells = cpu?.numa?.cells ?? []
    const distances = new Map<number, Map<number, number>>()
    const add = (from: number, to: number, value: number): void => {
      const known = distances.get(from) ?? new Map<number, number>([[from, localDistance]])
      distances.set(from, known.has(to) ? known : known.set(to, value))
    }
    const stated = cells.flatMap((cell, index) =>
      (cell.distances?.siblings ?? []).flatMap(({ id, value }) => {
        const [from, to, far] = [numberOf(cell.id) ?? index, numberOf(id), numberOf(value)]
        return to === undefined || far === undefined ? [] : [{ from, to, far }]
      }),
    )
    for (const { from, to, far } of stated) add(from, to, far)
    for (const { from, to, far } of stated) add(to, from, far)
    return cells.flatMap((cell, index): Addition[] => {
      const known = distances.get(numberOf(cell.id) ?? index)
      if (!known) return []
      const siblings = [...known].toSorted(([a], [b]) => a - b).map(([id, value]) => ({ id, value }))
      const present = cell.distances
      if (!present?.siblings) return [fill(cell, { distances: { siblings } })]
      const named = new Set(present.siblings.map(({ id }) => numberOf(id)))
      return siblings.filter(({ id }) => !named.has(id)).map((sibling) => appendTo(present, 'siblings', sibling))
    })
  },
}

export const numaCpus: Rule = {
  name: 'numa-cpus',
  description: 'Virtual CPUs that no NUMA node lists belong to the first, if that one lists none.',
  apply: ({ cpu, vcpu }) => {
    const [first, ...others] = cpu?.numa?.cells ?? []
    if (!first || first.cpus !== undefined) return []
    const count = numberOf(vcpu?.value) ?? 1
    // No machine has more; the rule about virtual CPUs reports it.
    if (count > maxVcpus) return []
    const cpus = restOf(
      count,
      others.map((cell) => cell.cpus ?? ''),
    )
    return cpus === '' ? [] : [fill(first, { cpus })]
  },
}
