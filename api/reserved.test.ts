import { expect, test } from 'vitest'
import { isReservedKey, reservedKeyCauses } from './reserved.ts'

test.each([
  ['virtset.io/vm-uid', true],
  ['sub.virtset.io/x', true],
  ['notvirtset.io/x', false],
  ['virtset.io', false],
  ['app.kubernetes.io/virtset.io', false],
])('%s is reserved: %s', (key, isReserved) => expect(isReservedKey(key)).toBe(isReserved))

test('each reserved key is a cause, except allowed ones', () => {
  const keys = { 'virtset.io/a': '1', 'virtset.io/b': '2', c: '3' }
  expect(reservedKeyCauses(keys, 'metadata.labels', ['virtset.io/b']).map(({ field }) => field)).toEqual([
    'metadata.labels[virtset.io/a]',
  ])
})
