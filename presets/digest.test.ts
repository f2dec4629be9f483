import { expect, test } from 'vitest'
import { digestOf } from './digest.ts'

const nested = (levels: number): unknown =>
  Array.from({ length: levels }).reduce<unknown>((below) => ({ below }), 'end')

test.each<[unknown, unknown, boolean]>([
  [{ a: 1, b: [{ c: 2, d: 3 }] }, { b: [{ d: 3, c: 2 }], a: 1 }, true],
  [{ a: 1 }, { a: 2 }, false],
  [[1, 2], [2, 1], false],
  [undefined, null, true],
])('%j and %j have the same digest: %j', (one, other, expected) => {
  expect(digestOf(one) === digestOf(other)).toBe(expected)
  expect(digestOf(one)).toMatch(/^[0-9a-f]{16}$/)
})

test('a value that is too deep to be valid differs from all that are valid', () =>
  expect([
    digestOf(nested(10_000)) === digestOf(nested(20_000)),
    digestOf(nested(1)) === digestOf(nested(10_000)),
  ]).toEqual([true, false]))
