import { expect, test } from 'vitest'
import { sizeOf, within } from './steps.ts'

/** An empty object below this many others. */
const nested = (levels: number): unknown =>
  Array.from({ length: levels }).reduce<object>((below) => ({ backingStore: below }), {})

test.each<[unknown, number]>([
  [1, 1],
  [null, 1],
  ['', 1],
  ['a'.repeat(64), 2],
  [{ ['a'.repeat(64)]: 1 }, 1 + 2],
  [{ ['a'.repeat(64)]: [1, { b: 2 }] }, 1 + 2 + 2 + 2 + 2],
  [{}, 1],
  [[{ type: 'pty' }, { type: 'pty' }], 5],
  [nested(16), 17],
  [nested(17), 18 + 1],
  [nested(20), 21 + 1 + 2 + 3 + 4],
])('%j takes %i steps', (value, steps) => expect(sizeOf(value)).toBe(steps))

const spendAll = (limit: number, steps: readonly number[]): readonly number[] | 'refused' =>
  within<readonly number[] | 'refused'>(
    limit,
    ({ spend }) => {
      for (const one of steps) spend(one)
      return steps
    },
    () => 'refused',
  )

test('returns a result within the limit', () => expect(spendAll(3, [1, 2])).toEqual([1, 2]))

test('refuses a result beyond the limit', () => expect(spendAll(3, [1, 3])).toBe('refused'))

test('rethrows any other error', () => {
  const fail = () => {
    throw new Error('ours')
  }
  expect(() => within(1, fail, () => 1)).toThrow('ours')
})

test('exceeding the limit of an inner computation does not abort the outer one', () => {
  const inner = (): string =>
    within(
      1,
      ({ spend }) => String(spend(2)),
      () => 'inner',
    )
  expect(within(9, inner, () => 'outer')).toBe('inner')
})
