import { expect, test } from 'vitest'
import { firstWarnings, nameSome } from './abridge.ts'

test.each([
  [[], ''],
  [['a'], 'a'],
  [['a', 'b', 'c'], 'a, b, c'],
  [['a', 'b', 'c', 'd'], 'a, b, c and 1 more'],
])('%j are named %s', (names, text) => expect(nameSome(names)).toBe(text))

test('names can have another separator', () => expect(nameSome(['a', 'b'], ' or ')).toBe('a or b'))

test.each([
  [32, 32, 'is 9'],
  [33, 33, '1 more'],
  [40, 33, '8 more'],
])('of %i items, there are %i warnings, sorted', (count, length, last) => {
  const items = Array.from({ length: count }, (_, index) => index)
  const warnings = firstWarnings(
    items,
    (item) => `is ${item}`,
    (more) => `${more} more`,
  )
  expect([warnings.length, warnings[0], warnings[1], warnings[2], warnings.at(-1)]).toEqual([
    length,
    'is 0',
    'is 1',
    'is 10',
    last,
  ])
})
