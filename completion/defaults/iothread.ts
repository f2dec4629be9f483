import { numberOf } from './reading.ts'
import { appendTo, rule, type Rule } from './rule.ts'

export const iothreadCount = rule(
  'iothread-count',
  'The number of I/O threads is the number of listed ones.',
  ({ iothreadids }) => (iothreadids?.iothreads?.length ? { iothreads: iothreadids.iothreads.length } : undefined),
)

/** No disk has more queues to distribute than a large machine has CPUs. `iothread-exists` refuses more. */
export const mostIothreads = 256

export const iothreadIds: Rule = {
  name: 'iothread-id',
  description: 'If only some I/O threads are listed, the others get the lowest free IDs.',
  *apply({ iothreads, iothreadids }) {
    const named = iothreadids?.iothreads
    if (!iothreadids || !named || (numberOf(iothreads) ?? 0) > mostIothreads) return
    const taken = new Set(named.map(({ id }) => numberOf(id)))
    let id = 1
    for (let missing = (numberOf(iothreads) ?? 0) - named.length; missing > 0; missing -= 1) {
      while (taken.has(id)) id += 1
      taken.add(id)
      yield appendTo(iothreadids, 'iothreads', { id })
    }
  },
}
