import { mostIothreads } from '../defaults/iothread.ts'
import { numberOf } from '../defaults/reading.ts'
import { iothreadIds } from './cpu.ts'
import { list } from './device.ts'
import { duplicate, invalid, notFound, required, tooMany } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const iothreadExists: Rule = {
  id: 'iothread-exists',
  description: 'The I/O threads that disks and controllers name are there, numbered from 1, each once.',
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
