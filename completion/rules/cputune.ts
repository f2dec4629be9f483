import {
  cpusetText,
  createOwners,
  firstOutside,
  rangesBelow,
  rangesOf,
  rangesOfNumbers,
  type Range,
} from '../../api/domain/cpuset.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { duplicate, forbidden, invalid, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

/** The limits of the kernel, in microseconds. */
const minPeriod = 1000
const maxPeriod = 1_000_000
const maxQuota = 17_592_186_044_415

const cputuneLimits: Rule = {
  id: 'cputune-limits',
  description:
    'Periods must be between 1000 and 1000000 microseconds, quotas at least 1000 microseconds, or negative for no limit.',
  about: ['cputune'],
  *check({ domain: { cputune } }) {
    if (!cputune) return
    for (const key of ['period', 'globalPeriod', 'emulatorPeriod', 'iothreadPeriod'] as const) {
      const value = numberOf(cputune[key])
      if (value !== undefined && (value < minPeriod || value > maxPeriod)) {
        yield invalid(`spec.domain.cputune.${key}`, value, `must be between ${minPeriod} and ${maxPeriod} microseconds`)
      }
    }
    for (const key of ['quota', 'globalQuota', 'emulatorQuota', 'iothreadQuota'] as const) {
      const value = numberOf(cputune[key]) ?? 0
      if (value > 0 && (value < minPeriod || value > maxQuota)) {
        const message = `must be between ${minPeriod} and ${maxQuota} microseconds, or negative for no limit`
        yield invalid(`spec.domain.cputune.${key}`, value, message)
      }
    }
  },
  example: example({ cputune: { period: 999 } }, { cputune: { period: 1000 } }),
}

/** The ids of the I/O threads: those in `iothreadids`, then the lowest free numbers up to the count in `iothreads`. */
export const iothreadIds = ({ iothreads, iothreadids }: Domain): ReadonlySet<number> => {
  const ids = new Set((iothreadids?.iothreads ?? []).flatMap(({ id }) => numberOf(id) ?? []))
  const count = Math.min(numberOf(iothreads) ?? 0, 65_536)
  for (let id = 1; ids.size < count; id += 1) ids.add(id)
  return ids
}

const cputunePins: Rule = {
  id: 'cputune-threads',
  description:
    'CPUs and I/O threads that are pinned or scheduled must exist and be listed once; real-time schedulers require a priority.',
  about: ['cputune'],
  *check({ domain }) {
    const { cputune, vcpu } = domain
    if (!cputune) return
    const field = 'spec.domain.cputune'
    const threads = iothreadIds(domain)
    const existing = rangesOfNumbers([...threads])
    const count = numberOf(vcpu?.value) ?? 1
    if (isRealtime(cputune.emulatorsched) && cputune.emulatorsched?.priority === undefined)
      yield required(`${field}.emulatorsched.priority`, `must be set for scheduler ${cputune.emulatorsched?.scheduler}`)
    yield* needlessPriority(cputune.emulatorsched, `${field}.emulatorsched`)
    yield* pins(cputune.vcpupins ?? [], `${field}.vcpupins`, 'vcpu')
    yield* pins(cputune.iothreadpins ?? [], `${field}.iothreadpins`, 'iothread')
    for (const [index, { iothread }] of (cputune.iothreadpins ?? []).entries()) {
      const id = numberOf(iothread)
      if (id !== undefined && !threads.has(id)) yield invalid(`${field}.iothreadpins[${index}].iothread`, id, noThread)
    }
    yield* schedules(
      cputune.vcpuscheds ?? [],
      `${field}.vcpuscheds`,
      'vcpus',
      (ids) => firstOutside(ids, count < 1 ? [] : [{ first: 0, last: count - 1 }]),
      `the VM has CPUs 0 to ${count - 1}`,
    )
    yield* schedules(
      cputune.iothreadscheds ?? [],
      `${field}.iothreadscheds`,
      'iothreads',
      (ids) => firstOutside(ids, existing),
      noThread,
    )
  },
  example: example(
    { iothreads: 1, cputune: { iothreadscheds: [{ iothreads: '2', scheduler: 'batch' }] } },
    { iothreads: 1, cputune: { iothreadscheds: [{ iothreads: '1', scheduler: 'batch' }] } },
  ),
}

const isRealtime = (one: { readonly scheduler?: string } | undefined): boolean =>
  one?.scheduler === 'fifo' || one?.scheduler === 'rr'

function* needlessPriority(
  one: { readonly scheduler?: string; readonly priority?: number | string } | undefined,
  at: string,
): Iterable<Finding> {
  if (one?.scheduler === undefined || one.priority === undefined || isRealtime(one)) return
  yield forbidden(
    `${at}.priority`,
    one.priority,
    `must not be set for scheduler ${one.scheduler}, only for fifo and rr`,
  )
}

const noThread = 'no such I/O thread in iothreads and iothreadids'

function* pins<K extends 'vcpu' | 'iothread'>(
  given: readonly { readonly [key in K]?: number | string }[],
  field: string,
  key: K,
): Iterable<Finding> {
  const seen = new Set<number>()
  for (const [index, one] of given.entries()) {
    const id = numberOf(one[key])
    if (id === undefined) yield required(`${field}[${index}].${key}`, 'must be set')
    else if (seen.has(id)) yield duplicate(`${field}[${index}].${key}`, id, 'is listed more than once')
    else seen.add(id)
  }
}

/** The CPUs of a set that the VM has; libvirt drops the others. */
const cpusOf = (vcpus: string | undefined, count: number): readonly Range[] => rangesBelow(rangesOf(vcpus), count)

function* overlaps(given: readonly { readonly vcpus?: string }[], field: string, count: number): Iterable<Finding> {
  if (given.length < 2) return
  const owners = createOwners()
  for (const [index, { vcpus }] of given.entries()) {
    const ids = cpusOf(vcpus, count)
    const overlap = owners.find(ids)?.number
    if (overlap !== undefined)
      yield duplicate(`${field}[${index}].vcpus`, vcpus, `has CPU ${overlap}, which another entry already has`)
    owners.set(ids, index)
  }
}

const cputuneShares: Rule = {
  id: 'cputune-shares',
  description:
    'Sharing caches and memory bandwidth of the node requires KVM and sets of CPUs that do not overlap; each cache and node must be listed once.',
  about: ['cputune'],
  *check({ domain: { cputune, type, vcpu } }) {
    const field = 'spec.domain.cputune'
    const count = numberOf(vcpu?.value) ?? 1
    const caches = cputune?.cachetunes ?? []
    const memories = cputune?.memorytunes ?? []
    for (const [key, given] of Object.entries({ cachetunes: caches, memorytunes: memories })) {
      if (given.length > 0 && type !== undefined && type !== 'kvm')
        yield forbidden(`${field}.${key}`, undefined, 'requires KVM', 'type: kvm')
      yield* overlaps(given, `${field}.${key}`, count)
    }
    yield* partlyShared(caches, memories, count)
    for (const [index, { caches: shares = [], monitors = [] }] of caches.entries()) {
      if (shares.length === 0 && monitors.length === 0)
        yield required(`${field}.cachetunes[${index}].caches`, 'must be set, or monitors')
      const kinds = new Map<string, Set<string>>()
      for (const [place, { id, level, type: kind = 'both' }] of shares.entries()) {
        const known = kinds.get(`${level} ${id}`) ?? new Set()
        const isTaken = known.has(kind) || known.has('both') || (kind === 'both' && known.size > 0)
        if (isTaken)
          yield duplicate(
            `${field}.cachetunes[${index}].caches[${place}].id`,
            id,
            `is already shared at level ${level}`,
          )
        kinds.set(`${level} ${id}`, known.add(kind))
      }
    }
    for (const [index, { nodes = [], monitors = [] }] of memories.entries()) {
      if (nodes.length === 0 && monitors.length === 0)
        yield required(`${field}.memorytunes[${index}].nodes`, 'must be set, or monitors')
      const seen = new Set<number>()
      for (const [place, { id }] of nodes.entries()) {
        const number = numberOf(id)
        if (number === undefined) continue
        if (seen.has(number))
          yield duplicate(`${field}.memorytunes[${index}].nodes[${place}].id`, number, 'is listed more than once')
        seen.add(number)
      }
    }
  },
  example: example(sharing('0-1', '1'), sharing('0', '1')),
}

function sharing(...sets: readonly string[]): Domain {
  const caches = [{ id: 0, level: 3, type: 'both' as const, size: 1, unit: 'MiB' }]
  return { type: 'kvm', vcpu: { value: 2 }, cputune: { cachetunes: sets.map((vcpus) => ({ vcpus, caches })) } }
}

interface Share {
  readonly vcpus?: string
  readonly monitors?: readonly { readonly vcpus?: string }[]
}

/** A set of CPUs, and its text, by which sets are compared. */
interface Cpus {
  readonly ids: readonly Range[]
  readonly text: string
}

const withText = (ids: readonly Range[]): Cpus => ({ ids, text: cpusetText(ids) })

/**
 * The kernel has one group per set of CPUs, with its share of caches and of memory bandwidth. Those of caches do not
 * overlap, so each CPU has one of them.
 */
function* partlyShared(caches: readonly Share[], memories: readonly Share[], count: number): Iterable<Finding> {
  if (memories.length === 0) return
  const owners = createOwners()
  const places = new Map<string, number>()
  for (const [place, { vcpus }] of caches.entries()) {
    const { ids, text } = withText(cpusOf(vcpus, count))
    owners.set(ids, place)
    places.set(text, place)
  }
  for (const [index, { vcpus }] of memories.entries()) {
    const { ids, text } = withText(cpusOf(vcpus, count))
    const place = owners.find(ids, places.get(text))?.owner
    if (place === undefined) continue
    const message = `has some CPUs in common with cachetunes[${place}]; both must have the same CPUs, or none in common`
    yield invalid(`spec.domain.cputune.memorytunes[${index}].vcpus`, vcpus, message, `e.g. ${caches[place]?.vcpus}`)
  }
}

/**
 * The sets of CPUs that are monitored separately. The kernel has one group for each, for caches and bandwidth alike.
 * Each CPU has its set, or the fact that it has several, so a set is not compared with each of the others.
 */
function monitoredApart() {
  /** By the text of the set; 1 and more. */
  const known = new Map<string, number>()
  const several = -1
  const sets: number[] = []
  return {
    /** The lowest of the CPUs that another set has. */
    taken({ ids, text }: Cpus): number | undefined {
      const own = known.get(text)
      for (const { first, last } of ids) {
        for (let id = first; id <= last; id += 1) {
          const set = sets[id]
          if (set !== undefined && set !== own) return id
        }
      }
      return undefined
    },
    add({ ids, text }: Cpus): void {
      if (known.has(text)) return
      const own = known.size + 1
      known.set(text, own)
      for (const { first, last } of ids) {
        for (let id = first; id <= last; id += 1) sets[id] = sets[id] === undefined ? own : several
      }
    },
  }
}

const cputuneMonitors: Rule = {
  id: 'cputune-monitors',
  description:
    'A monitor must have CPUs of its share: all of them if the share has a size, or some that no other monitor has.',
  about: ['monitors'],
  *check({ domain: { cputune, vcpu } }) {
    const count = numberOf(vcpu?.value) ?? 1
    const { cachetunes = [], memorytunes = [] } = cputune ?? {}
    const sized = [
      ...cachetunes.filter(({ caches = [] }) => caches.length > 0),
      ...memorytunes.filter(({ nodes = [] }) => nodes.length > 0),
    ]
    const sizedSets = new Set(sized.map(({ vcpus }) => cpusetText(cpusOf(vcpus, count))))
    const apart = monitoredApart()
    for (const [key, shares] of Object.entries<readonly Share[]>({ cachetunes, memorytunes })) {
      for (const [index, { vcpus, monitors = [] }] of shares.entries()) {
        const all = withText(cpusOf(vcpus, count))
        const isSized = sizedSets.has(all.text)
        const seen = new Set<string>()
        for (const [place, monitor] of monitors.entries()) {
          const cpus = withText(cpusOf(monitor.vcpus, count))
          const field = `spec.domain.cputune.${key}[${index}].monitors[${place}].vcpus`
          const other = firstOutside(cpus.ids, all.ids)
          const isWhole = isSized && cpus.text === all.text
          const isSeen = seen.has(cpus.text)
          const taken = other !== undefined || isSeen || isWhole ? undefined : apart.taken(cpus)
          if (monitor.vcpus !== undefined && cpus.ids.length === 0)
            yield invalid(field, monitor.vcpus, `has none of the CPUs of the VM, 0 to ${count - 1}`)
          else if (other !== undefined)
            yield invalid(field, monitor.vcpus, `has CPU ${other}, which the share does not have: it has ${vcpus}`)
          else if (isSeen) yield duplicate(field, monitor.vcpus, 'another monitor already has these CPUs')
          else if (taken !== undefined)
            yield duplicate(field, monitor.vcpus, `has CPU ${taken}, which another monitor already has`)
          seen.add(cpus.text)
          if (!isWhole) apart.add(cpus)
        }
      }
    }
  },
  example: example(monitoring('0-1', '1-2'), monitoring('0-1', '2')),
}

function monitoring(...sets: readonly string[]): Domain {
  const monitors = sets.map((vcpus) => ({ level: 3, vcpus }))
  return { type: 'kvm', vcpu: { value: 3 }, cputune: { cachetunes: [{ vcpus: '0-2', monitors }] } }
}

function* schedules<K extends 'vcpus' | 'iothreads'>(
  given: readonly ({ readonly [key in K]?: string } & {
    readonly scheduler?: string
    readonly priority?: number | string
  })[],
  field: string,
  key: K,
  absentOf: (ids: readonly Range[]) => number | undefined,
  missing: string,
): Iterable<Finding> {
  if (given.length === 0) return
  const owners = createOwners()
  for (const [index, one] of given.entries()) {
    const ids = rangesOf(one[key])
    const overlap = owners.find(ids)?.number
    const absent = absentOf(ids)
    if (overlap !== undefined)
      yield duplicate(`${field}[${index}].${key}`, one[key], `has ${overlap}, which another entry already schedules`)
    if (absent !== undefined) yield invalid(`${field}[${index}].${key}`, one[key], `has ${absent}: ${missing}`)
    owners.set(ids, index)
    if (isRealtime(one) && one.priority === undefined) {
      yield required(`${field}[${index}].priority`, `must be set for scheduler ${one.scheduler}`)
    }
    yield* needlessPriority(one, `${field}[${index}]`)
  }
}

export const cputuneRules: readonly Rule[] = [cputuneLimits, cputunePins, cputuneShares, cputuneMonitors]
