import { createOwners, firstOutside, numbersOf, rangesOf } from '../../api/domain/cpuset.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { duplicate, forbidden, invalid, missingCapability, notFound, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const cells = (...more: { id: number; cpus?: string }[]) => ({
  vcpu: { value: 2 },
  cpu: { numa: { cells: more.map((cell) => ({ memory: 512, unit: 'MiB', ...cell })) } },
})

const numaCells: Rule = {
  id: 'numa-cells',
  description:
    'NUMA nodes of the guest must be numbered from 0 without a gap; each must have memory and its own, existing CPUs.',
  about: ['cells'],
  *check({ domain: { cpu, vcpu } }) {
    const cells = cpu?.numa?.cells ?? []
    const field = 'spec.domain.cpu.numa.cells'
    const ids = new Map<number, number>()
    const owners = createOwners()
    const count = numberOf(vcpu?.value) ?? 1
    for (const [index, cell] of cells.entries()) {
      const id = numberOf(cell.id) ?? index
      const other = ids.get(id)
      if (other !== undefined) yield duplicate(`${field}[${index}].id`, id, `is already the id of ${field}[${other}]`)
      else if (id >= cells.length) {
        const message = `must be from 0 to ${cells.length - 1}: the ids of ${cells.length} nodes must have no gap`
        yield invalid(`${field}[${index}].id`, id, message)
      }
      ids.set(id, index)
      if (cell.memory === undefined)
        yield required(`${field}[${index}].memory`, 'must be set: the memory of the NUMA node')
      const cpus = rangesOf(cell.cpus, count + 1)
      const shared = owners.find(cpus)
      if (shared !== undefined) {
        const message = `CPU ${shared.number} is already in ${field}[${shared.owner}]`
        yield invalid(`${field}[${index}].cpus`, cell.cpus, message)
      } else owners.set(cpus, index)
      const beyond = firstOutside(cpus, count < 1 ? [] : [{ first: 0, last: count - 1 }])
      if (beyond !== undefined) {
        yield notFound(`${field}[${index}].cpus`, cell.cpus, `the VM has no CPU ${beyond}, only 0 to ${count - 1}`)
      }
    }
  },
  example: example(
    cells({ id: 1, cpus: '0' }, { id: 2, cpus: '1' }),
    cells({ id: 0, cpus: '0' }, { id: 1, cpus: '1' }),
  ),
}

/** The distance from a node to itself in ACPI. */
const localDistance = 10

const numaDistances: Rule = {
  id: 'numa-distances',
  description: 'A distance must be to an existing NUMA node: 10 to the node itself, more to any other node.',
  about: ['distances'],
  *check({ domain: { cpu } }) {
    const cells = cpu?.numa?.cells ?? []
    for (const [index, cell] of cells.entries()) {
      const own = numberOf(cell.id) ?? index
      for (const [place, { id, value }] of (cell.distances?.siblings ?? []).entries()) {
        const at = `spec.domain.cpu.numa.cells[${index}].distances.siblings[${place}]`
        const other = numberOf(id)
        const distance = numberOf(value)
        if (other === undefined) yield required(`${at}.id`, 'must be set: the other NUMA node')
        else if (other >= cells.length)
          yield notFound(`${at}.id`, other, `the guest has NUMA nodes 0 to ${cells.length - 1} only`)
        else if (distance !== undefined && (other === own) !== (distance === localDistance)) {
          const message = other === own ? 'must be 10 for the node itself' : 'must be more than 10 for another node'
          yield invalid(`${at}.value`, distance, message)
        }
      }
    }
  },
  example: example(
    {
      cpu: {
        numa: {
          cells: [
            { id: 0, cpus: '0', memory: 1, unit: 'GiB', distances: { siblings: [{ id: 2, value: 20 }] } },
            { id: 1, memory: 1, unit: 'GiB' },
          ],
        },
      },
    },
    {
      cpu: {
        numa: {
          cells: [
            { id: 0, cpus: '0', memory: 1, unit: 'GiB', distances: { siblings: [{ id: 1, value: 20 }] } },
            { id: 1, memory: 1, unit: 'GiB' },
          ],
        },
      },
    },
  ),
}

const numatune: Rule = {
  id: 'numatune',
  description:
    '`numatune` must bind memory to existing NUMA nodes of the host; each `memnodes` item must name an existing cell of the guest, each once.',
  about: ['numatune'],
  *check({ domain: { numatune, cpu }, capabilities: { host } }) {
    if (!numatune) return
    const field = 'spec.domain.numatune'
    const cells = cpu?.numa?.cells?.length ?? 0
    const { memory, memnodes = [] } = numatune
    if (memory && memory.placement !== 'auto' && memory.nodeset === undefined) {
      yield required(`${field}.memory.nodeset`, 'must be set for static placement')
    }
    yield* missingNodes(memory?.nodeset, `${field}.memory.nodeset`, host?.numaNodes)
    const isAuto = memory?.placement === 'auto'
    if (isAuto && memnodes.length > 0) {
      yield forbidden(
        `${field}.memnodes`,
        undefined,
        'must not be set with memory.placement auto, where numad places the memory',
      )
    }
    const seen = new Set<number>()
    for (const [index, { cellid, mode, nodeset }] of memnodes.entries()) {
      const at = `${field}.memnodes[${index}]`
      const id = numberOf(cellid)
      if (id === undefined) yield required(`${at}.cellid`, 'must be set: the NUMA node of the guest')
      else if (seen.has(id)) yield duplicate(`${at}.cellid`, id, 'is already bound by another item of memnodes')
      else if (id >= cells) yield notFound(`${at}.cellid`, id, 'cpu.numa has no cell with this id')
      if (id !== undefined) seen.add(id)
      if (nodeset === undefined) yield required(`${at}.nodeset`, 'must be set')
      yield* missingNodes(nodeset, `${at}.nodeset`, host?.numaNodes)
      const [isHere, isThere] = [(mode ?? 'strict') === 'restrictive', (memory?.mode ?? 'strict') === 'restrictive']
      if (isHere && !isThere) {
        yield invalid(
          `${field}.memory.mode`,
          memory?.mode ?? 'strict',
          `must be restrictive, like the mode of memnodes[${index}]`,
        )
      }
      if (isThere && !isHere)
        yield invalid(`${at}.mode`, mode ?? 'strict', 'must be restrictive, like the mode of memory')
    }
  },
  example: example(
    { ...cells({ id: 0, cpus: '0-1' }), numatune: { memnodes: [{ cellid: 2, nodeset: '0' }] } },
    { ...cells({ id: 0, cpus: '0-1' }), numatune: { memnodes: [{ cellid: 0, nodeset: '0' }] } },
  ),
}

function* missingNodes(nodeset: string | undefined, field: string, count: number | undefined): Iterable<Finding> {
  if (count === undefined) return
  // The numbers ascend, so one that is too large is among the first ones.
  const missing = numbersOf(nodeset, count + 1).find((node) => node >= count)
  if (missing === undefined) return
  const message = `the node has no NUMA node ${missing}, only 0 to ${count - 1}`
  yield missingCapability(`NUMA node ${missing}`, notFound(field, nodeset, message))
}

type Interconnects = NonNullable<NonNullable<NonNullable<Domain['cpu']>['numa']>['interconnects']>

const numaInterconnects: Rule = {
  id: 'numa-interconnects',
  description:
    'Latencies and bandwidths must be between existing NUMA nodes, start at a node with CPUs, and be listed once; cache levels must be unique, from 1 to 3.',
  about: ['interconnects', 'caches'],
  *check({ domain: { cpu } }) {
    const cells = cpu?.numa?.cells ?? []
    const { latencies = [], bandwidths = [] }: Interconnects = cpu?.numa?.interconnects ?? {}
    for (const [key, links] of Object.entries({ latencies, bandwidths })) {
      const seen = new Set<string>()
      for (const [index, { initiator, target, cache, type }] of links.entries()) {
        const at = `spec.domain.cpu.numa.interconnects.${key}[${index}]`
        for (const [end, id] of Object.entries({ initiator, target })) {
          const number = numberOf(id)
          if (number !== undefined && number >= cells.length)
            yield notFound(`${at}.${end}`, number, `the guest has NUMA nodes 0 to ${cells.length - 1} only`)
        }
        const cell = (id: typeof target) => cells.find((one, place) => (numberOf(one.id) ?? place) === numberOf(id))
        if (cell(initiator) && cell(initiator)?.cpus === undefined)
          yield invalid(
            `${at}.initiator`,
            initiator,
            'is a NUMA node without CPUs, which cannot initiate memory access',
          )
        const level = numberOf(cache)
        const levels = (cell(target)?.caches ?? []).map((one) => numberOf(one.level))
        if (level !== undefined && cell(target) && !levels.includes(level))
          yield notFound(`${at}.cache`, level, `NUMA node ${target} has no cache of this level`)
        const name = [initiator, target, cache, type].join(' ')
        if (seen.has(name))
          yield duplicate(at, undefined, 'repeats an item with the same initiator, target, cache and type')
        seen.add(name)
      }
    }
    for (const [index, { caches = [] }] of cells.entries()) {
      const seen = new Set<number>()
      for (const [place, { level }] of caches.entries()) {
        const number = numberOf(level)
        const at = `spec.domain.cpu.numa.cells[${index}].caches[${place}].level`
        if (number === undefined) continue
        if (number < 1 || number > 3) yield invalid(at, number, 'must be from 1 to 3')
        if (seen.has(number)) yield duplicate(at, number, 'is listed more than once')
        seen.add(number)
      }
    }
  },
  example: example(linked(1), linked(0)),
}

function linked(target: number): Domain {
  const latencies = [{ initiator: 0, target, type: 'access' as const, value: 5 }]
  return { cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }], interconnects: { latencies } } } }
}

export const numaRules: readonly Rule[] = [numaCells, numaDistances, numatune, numaInterconnects]
