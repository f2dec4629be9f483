import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { iothreadCount, iothreadIds } from './iothread.ts'

test.each<[string, Domain, Domain]>([
  ['none are counted where none are named', {}, {}],
  ['those that are named are counted', { iothreadids: { iothreads: [{ id: 3 }] } }, { iothreads: 1 }],
  [
    'the others have the lowest free numbers',
    { iothreads: 3, iothreadids: { iothreads: [{ id: 2 }] } },
    { iothreadids: { iothreads: [{ id: 2 }, { id: 1 }, { id: 3 }] } },
  ],
  ['more than any machine has CPUs for get none', { iothreads: 5000, iothreadids: { iothreads: [{ id: 2 }] } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([iothreadCount, iothreadIds], domain)).toEqual({ ...domain, ...expected })
})
