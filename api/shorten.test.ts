import { expect, test } from 'vitest'
import { firstTexts, shorten, shortenToBytes } from './shorten.ts'

test.each([
  ['abcd', 4, 'abcd'],
  ['abcde', 4, 'abc…'],
  ['ab😀d', 4, 'ab…'],
  ['a😀cd', 4, 'a😀…'],
])('%j in %i units', (text, length, expected) => expect(shorten(text, length)).toBe(expected))

test.each([
  ['short', 10, 'short'],
  ['exactly te', 10, 'exactly te'],
  ['eleven char', 10, 'eleven …'],
  ['ÄÖÜÄÖÜ', 10, 'ÄÖÜ…'],
  ['🖥🖥🖥', 10, '🖥…'],
])('%s in %d bytes is %s', (text, limit, shortened) => {
  expect(shortenToBytes(text, limit)).toBe(shortened)
  expect(Buffer.byteLength(shortened)).toBeLessThanOrEqual(limit)
})

test.each([
  [[], ''],
  [['a', 'b'], 'A; B'],
  [['a', 'b', 'c', 'd'], 'A; B; and 2 more'],
])('the first two of %j', (items, text) => {
  const built: string[] = []
  const upper = (item: string) => {
    built.push(item)
    return item.toUpperCase()
  }
  expect(firstTexts(items, 2, upper)).toBe(text)
  expect(built).toEqual(items.slice(0, 2))
})
