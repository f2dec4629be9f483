import { numbersOf } from '../../api/domain/cpuset.ts'
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
      const value = numberOf(cputune[key]) ?? 0
      if (value > 0 && (value < minPeriod || value > maxPeriod)) {
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
      (id) => id < count,
      `the VM has CPUs 0 to ${count - 1}`,
    )
    yield* schedules(
      cputune.iothreadscheds ?? [],
      `${field}.iothreadscheds`,
      'iothreads',
      (id) => threads.has(id),
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

function* overlaps(given: readonly { readonly vcpus?: string }[], field: string): Iterable<Finding> {
  const seen = new Set<number>()
  for (const [index, { vcpus }] of given.entries()) {
    const ids = numbersOf(vcpus)
    const overlap = ids.find((id) => seen.has(id))
    if (overlap !== undefined)
      yield duplicate(`${field}[${index}].vcpus`, vcpus, `has CPU ${overlap}, which another entry already has`)
    for (const id of ids) seen.add(id)
  }
}

const cputuneShares: Rule = {
  id: 'cputune-shares',
  description:
    'Sharing the caches of the node requires KVM and sets of CPUs that do not overlap; each cache and node must be listed once.',
  about: ['cputune'],
  *check({ domain: { cputune, type } }) {
    const field = 'spec.domain.cputune'
    const caches = cputune?.cachetunes ?? []
    const memories = cputune?.memorytunes ?? []
    if (caches.length > 0 && type !== undefined && type !== 'kvm')
      yield forbidden(`${field}.cachetunes`, undefined, 'requires KVM', 'type: kvm')
    yield* overlaps(caches, `${field}.cachetunes`)
    yield* overlaps(memories, `${field}.memorytunes`)
    for (const [index, { caches: shares = [] }] of caches.entries()) {
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
    for (const [index, { nodes = [] }] of memories.entries()) {
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

function* schedules<K extends 'vcpus' | 'iothreads'>(
  given: readonly ({ readonly [key in K]?: string } & {
    readonly scheduler?: string
    readonly priority?: number | string
  })[],
  field: string,
  key: K,
  exists: (id: number) => boolean,
  missing: string,
): Iterable<Finding> {
  const seen = new Set<number>()
  for (const [index, one] of given.entries()) {
    const ids = numbersOf(one[key])
    const overlap = ids.find((id) => seen.has(id))
    const absent = ids.find((id) => !exists(id))
    if (overlap !== undefined)
      yield duplicate(`${field}[${index}].${key}`, one[key], `has ${overlap}, which another entry already schedules`)
    if (absent !== undefined) yield invalid(`${field}[${index}].${key}`, one[key], `has ${absent}: ${missing}`)
    for (const id of ids) seen.add(id)
    if (isRealtime(one) && one.priority === undefined) {
      yield required(`${field}[${index}].priority`, `must be set for scheduler ${one.scheduler}`)
    }
    yield* needlessPriority(one, `${field}[${index}]`)
  }
}

export const cputuneRules: readonly Rule[] = [cputuneLimits, cputunePins, cputuneShares]
