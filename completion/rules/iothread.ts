import type { Domain } from '../../api/domain/domain.ts'
import { mostIothreads } from '../defaults/iothread.ts'
import { numberOf } from '../defaults/reading.ts'
import { iothreadIds } from './cputune.ts'
import { list } from './device.ts'
import { duplicate, forbidden, invalid, notFound, required, tooMany } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Mapping = readonly {
  readonly id?: number | string
  readonly queues?: readonly { readonly id?: number | string }[]
}[]

/** Faults of a mapping of queues to I/O threads. If one thread has queues, each queue must have exactly one thread. */
function* mappingFaults(threads: Mapping, queues: number | undefined, at: string): Iterable<Finding> {
  const ids = new Set<number>()
  for (const [place, thread] of threads.entries()) {
    const id = numberOf(thread.id)
    if (id === undefined) continue
    if (ids.has(id)) yield duplicate(`${at}.iothreads.iothreads[${place}].id`, id, 'is listed more than once')
    ids.add(id)
  }
  if (!threads.some((thread) => (thread.queues ?? []).length > 0)) return
  if (queues === undefined) {
    yield required(`${at}.queues`, 'must be set when queues are assigned to I/O threads')
    return
  }
  const assigned = new Set<number>()
  for (const [place, thread] of threads.entries()) {
    const field = `${at}.iothreads.iothreads[${place}].queues`
    if ((thread.queues ?? []).length === 0) yield required(field, 'must be set when other I/O threads have queues')
    for (const [index, queue] of (thread.queues ?? []).entries()) {
      const number = numberOf(queue.id)
      if (number === undefined) continue
      if (number >= queues)
        yield invalid(`${field}[${index}].id`, number, `must be less than ${queues}, the number of queues`)
      else if (assigned.has(number))
        yield duplicate(`${field}[${index}].id`, number, 'is already assigned to an I/O thread')
      assigned.add(number)
    }
  }
  let left = 0
  while (assigned.has(left)) left += 1
  if (left < queues) yield required(`${at}.iothreads`, `must include queue ${left}: every queue needs an I/O thread`)
}

const iothreadMapping: Rule = {
  id: 'iothread-mapping',
  description:
    'A disk or controller must set either `iothread` or `iothreads`; if queues are assigned, each must have one I/O thread.',
  about: ['iothreads'],
  *check({ domain }) {
    for (const key of ['disks', 'controllers'] as const) {
      for (const [index, { driver }] of list(domain, key).entries()) {
        if (!driver?.iothreads) continue
        const at = `spec.domain.devices.${key}[${index}].driver`
        if (driver.iothread !== undefined)
          yield forbidden(`${at}.iothread`, driver.iothread, 'must not be set together with iothreads')
        yield* mappingFaults(driver.iothreads.iothreads ?? [], numberOf(driver.queues), at)
      }
    }
  },
  example: example(mapped([0], [0]), mapped([0], [1])),
}

function mapped(...queues: readonly number[][]): Domain {
  const iothreads = queues.map((ids, index) => ({ id: index + 1, queues: ids.map((id) => ({ id })) }))
  const driver = { queues: 2, iothreads: { iothreads } }
  return { iothreads: 2, devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' }, driver }] } }
}

const iothreadPool: Rule = {
  id: 'iothread-pool',
  description: 'The maximum of a thread pool must be at least 1, and at least its minimum.',
  about: ['iothreadids', 'defaultiothread'],
  *check({ domain: { iothreadids, defaultiothread } }) {
    const pools = [
      ...(iothreadids?.iothreads ?? []).map((pool, index) => ({ pool, at: `iothreadids.iothreads[${index}]` })),
      ...(defaultiothread ? [{ pool: defaultiothread, at: 'defaultiothread' }] : []),
    ]
    for (const { pool, at } of pools) {
      const most = numberOf(pool.threadPoolMax)
      if (most === undefined) continue
      const least = numberOf(pool.threadPoolMin) ?? 0
      const field = `spec.domain.${at}.threadPoolMax`
      if (most < 1) yield invalid(field, most, 'must be at least 1')
      else if (least > most) yield invalid(field, most, `must be at least threadPoolMin, ${least}`)
    }
  },
  example: example(
    { defaultiothread: { threadPoolMin: 8, threadPoolMax: 4 } },
    { defaultiothread: { threadPoolMin: 4, threadPoolMax: 4 } },
  ),
}

const iothreadExists: Rule = {
  id: 'iothread-exists',
  description: 'Disks and controllers must name existing I/O threads, whose ids must be unique and at least 1.',
  about: ['iothreadids', 'iothreads', 'iothread'],
  *check({ domain }) {
    const seen = new Set<number>()
    for (const [index, { id }] of (domain.iothreadids?.iothreads ?? []).entries()) {
      const at = `spec.domain.iothreadids.iothreads[${index}].id`
      const number = numberOf(id)
      if (number === undefined) {
        yield required(at, 'must be set')
        continue
      }
      if (number === 0) yield invalid(at, 0, 'must be at least 1')
      else if (seen.has(number)) yield duplicate(at, number, 'is listed more than once')
      seen.add(number)
    }
    const count = numberOf(domain.iothreads) ?? 0
    if (count > mostIothreads) {
      yield tooMany('spec.domain.iothreads', count, `must be at most ${mostIothreads}`)
      return
    }
    const threads = iothreadIds(domain)
    for (const key of ['disks', 'controllers'] as const) {
      for (const [index, { driver }] of list(domain, key).entries()) {
        const at = `spec.domain.devices.${key}[${index}].driver`
        const named = [
          [driver?.iothread, `${at}.iothread`] as const,
          ...(driver?.iothreads?.iothreads ?? []).map(
            ({ id }, place) => [id, `${at}.iothreads.iothreads[${place}].id`] as const,
          ),
        ]
        for (const [id, field] of named) {
          const number = numberOf(id)
          if (number === undefined || threads.has(number)) continue
          yield notFound(field, number, `no I/O thread has this id; iothreads is ${domain.iothreads ?? 0}`)
        }
      }
    }
  },
  example: example(
    { iothreads: 1, devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' }, driver: { iothread: 2 } }] } },
    { iothreads: 1, devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' }, driver: { iothread: 1 } }] } },
  ),
}

export const iothreadRules: readonly Rule[] = [iothreadExists, iothreadMapping, iothreadPool]
