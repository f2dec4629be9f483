import fc from 'fast-check'
import { RE2JS } from 're2js'
import { expect, test } from 'vitest'
import { largestPattern, unfoldedLength } from './condition-pattern.ts'

test.each([
  ['abc', 6],
  ['a{30}', 60],
  ['(a{10}){10}', 200 + 40],
  ['[a-z]{2,5}', 13],
  ['a{5,}', 10],
  ['\\pL', 50],
  ['\\{{3}', 6],
  ['\\Q({9}\\E', 8],
  ['\\p{Greek}{3}', 150],
  ['(?i)\\pL{3}', 450],
  ['(?s)a(?i:b)', 14],
])('%s has about %d instructions', (pattern, length) => {
  expect(Math.round(unfoldedLength(pattern))).toBe(length)
})

const parts = [
  'a',
  '.',
  '[a-z]',
  '[^]a]',
  '\\pL',
  '\\w',
  '(',
  '(?:',
  ')',
  '{2}',
  '{1,9}',
  '{30}',
  '*',
  '?',
  '+',
  '|',
  '^',
  '\\b',
  '(?i)',
  '\\Q((\\E',
  '\\.',
]

test('no pattern has more than twice as many instructions as are counted before it is compiled', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 30 }), (chosen) => {
      const pattern = chosen.join('')
      const counted = unfoldedLength(pattern)
      fc.pre(counted <= largestPattern)
      let size = 0
      try {
        size = RE2JS.compile(pattern).programSize()
      } catch {
        fc.pre(false)
      }
      // Two instructions are there for each pattern.
      expect(size).toBeLessThanOrEqual(2 * counted + 3)
    }),
    { numRuns: 1000 },
  )
})
