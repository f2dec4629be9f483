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

/** Each queue is served by one I/O thread, where the queues are given out one by one. */
function* mappingFaults(threads: Mapping, queues: number | undefined, at: string): Iterable<Finding> {
  const ids = new Set<number>()
  const taken = new Set<number>()
  const isMapped = threads.some((thread) => (thread.queues ?? []).length > 0)
  if (isMapped && queues === undefined) {
    yield required(`${at}.queues`, 'must be given where queues are given out to I/O threads')
    return
  }
  for (const [place, thread] of threads.entries()) {
    const field = `${at}.iothreads.iothreads[${place}]`
    const id = numberOf(thread.id)
    if (id !== undefined && ids.has(id)) yield duplicate(`${field}.id`, id, 'is named twice')
    if (id !== undefined) ids.add(id)
    if (isMapped && (thread.queues ?? []).length === 0)
      yield required(`${field}.queues`, 'must be given, since other I/O threads have queues of their own')
    for (const [index, queue] of (thread.queues ?? []).entries()) {
      const number = numberOf(queue.id)
      if (number === undefined || queues === undefined) continue
      if (number >= queues)
        yield invalid(`${field}.queues[${index}].id`, number, `must be less than ${queues}, the queues`)
      else if (taken.has(number)) yield duplicate(`${field}.queues[${index}].id`, number, 'is given out twice')
      taken.add(number)
    }
  }
  if (!isMapped || queues === undefined || queues > 65_536) return
  const left = Array.from({ length: queues }, (_, number) => number).find((number) => !taken.has(number))
  if (left !== undefined)
    yield required(`${at}.iothreads`, `must give out queue ${left} as well: each has an I/O thread`)
}

const iothreadMapping: Rule = {
  id: 'iothread-mapping',
  description: 'A disk or controller is served by one I/O thread or by several, and each of its queues by one of them.',
  about: ['iothreads'],
  *check({ domain }) {
    for (const key of ['disks', 'controllers'] as const) {
      for (const [index, { driver }] of list(domain, key).entries()) {
        if (!driver?.iothreads) continue
        const at = `spec.domain.devices.${key}[${index}].driver`
        if (driver.iothread !== undefined)
          yield forbidden(`${at}.iothread`, driver.iothread, 'may not be given beside iothreads')
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
  description: 'A pool of threads has one at least, and no fewer at most than at least.',
  about: ['iothreadids', 'defaultiothread'],
  *check({ domain: { iothreadids, defaultiothread } }) {
    const pools = [
      ...(iothreadids?.iothreads ?? []).map((pool, index) => ({ pool, at: `iothreadids.iothreads[${index}]` })),
      ...(defaultiothread ? [{ pool: defaultiothread, at: 'defaultiothread' }] : []),
    ]
    for (const { pool, at } of pools) {
      const [least, most] = [numberOf(pool.threadPoolMin), numberOf(pool.threadPoolMax)]
      const field = `spec.domain.${at}.threadPoolMax`
      if (most !== undefined && most < 1) yield invalid(field, most, 'must be at least 1')
      else if (most !== undefined && least !== undefined && least > most)
        yield invalid(field, most, `must be at least threadPoolMin, ${least}`)
    }
  },
  example: example(
    { defaultiothread: { threadPoolMin: 8, threadPoolMax: 4 } },
    { defaultiothread: { threadPoolMin: 4, threadPoolMax: 4 } },
  ),
}

const iothreadExists: Rule = {
  id: 'iothread-exists',
  description: 'The I/O threads that disks and controllers name are there, numbered from 1, each once.',
  about: ['iothreadids', 'iothreads', 'iothread'],
  *check({ domain }) {
    const seen = new Set<number>()
    for (const [index, { id }] of (domain.iothreadids?.iothreads ?? []).entries()) {
      const at = `spec.domain.iothreadids.iothreads[${index}].id`
      const number = numberOf(id)
      if (number === undefined) yield required(at, 'must be given')
      else if (number === 0) yield invalid(at, 0, 'must be at least 1')
      else if (seen.has(number)) yield duplicate(at, number, 'is named twice')
      if (number !== undefined) seen.add(number)
    }
    const count = numberOf(domain.iothreads) ?? 0
    if (count > mostIothreads) {
      yield tooMany('spec.domain.iothreads', count, `must be at most ${mostIothreads}: each is a thread of QEMU`)
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
          yield notFound(field, number, `there is no such I/O thread: iothreads is ${domain.iothreads ?? 0}`)
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
