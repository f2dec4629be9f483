import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { iothreadCount, iothreadIds } from './iothread.ts'

test.each<[string, Domain, Domain]>([
  ['nothing is added if none are listed', {}, {}],
  ['listed ones are counted', { iothreadids: { iothreads: [{ id: 3 }] } }, { iothreads: 1 }],
  [
    'the others get the lowest free IDs',
    { iothreads: 3, iothreadids: { iothreads: [{ id: 2 }] } },
    { iothreadids: { iothreads: [{ id: 2 }, { id: 1 }, { id: 3 }] } },
  ],
  ['none are listed if there are too many', { iothreads: 5000, iothreadids: { iothreads: [{ id: 2 }] } }, {}],
])('%s', (_, domain, expected) => {
  expect(applied([iothreadCount, iothreadIds], domain)).toEqual({ ...domain, ...expected })
})
