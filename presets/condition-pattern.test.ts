import fc from 'fast-check'
import { RE2JS } from 're2js'
import { expect, test } from 'vitest'
import { largestPattern, unfoldedLength } from './condition-pattern.ts'

test.each([
  ['abc', 9],
  ['a{30}', 64],
  ['(a{10}){10}', 254],
  ['[a-z]{2,5}', 17],
  ['a{5,}', 14],
  ['\\pL', 53],
  ['\\{{3}', 10],
  ['\\x{1000}{3}', 10],
  ['\\Q({9}\\E', 19],
  ['\\p{Greek}{3}', 154],
  ['(?i)\\pL{3}', 454],
  ['(?-s)(?U-i)\\pL', 153],
  ['(?s)a(?i:b)', 18],
  // A repetition applies to what precedes flags and empty quotations.
  ['(?:aa){1}(?s){1000}', 14_004],
  ['(?:aa)?(?s){1000}', 16_004],
  ['(?:aa)\\Q\\E{1000}', 13_004],
  ['a{1000}(?s){1000}', 2_001_004],
  // A repetition by 0 does not make the pattern shorter.
  ['a{0}', 6],
  ['a{0}{1000}{1000}', 3_001_004],
  ['a{0,0}(?i){1000}', 3004],
  ['[Ā-￿]', 8],
  ['(?i)[Ā-￿]', 2506],
  ['a)', 7],
])('%s has about %d instructions', (pattern, length) => {
  expect(Math.round(unfoldedLength(pattern))).toBe(length)
})

const characters = ['a', 'é', '.', '^', '$', '\\b', '\\w', '\\.', '\\x{41}', '{', '-', ']']
const classes = ['[a-z]', '[^]a]', '[[:alpha:]x]', '[\\pL-]', '\\pL', '\\PN', '\\p{Greek}']
const quotations = ['\\Q((\\E', '\\Q{9}*\\E', '\\Q\\E']
const flags = ['(?i)', '(?s)', '(?m-s)', '(?U)']
const repetitions = ['*', '?', '+', '*?', '{0}', '{1}', '{2}', '{0,0}', '{0,3}', '{1,9}', '{3,}', '{30}', '{200}']
const parts = [
  ...characters,
  ...classes,
  ...quotations,
  ...flags,
  ...repetitions,
  '(',
  '(?:',
  '(?P<n>',
  '(?i:',
  ')',
  '|',
]
const anyOf = (texts: readonly string[]) => fc.constantFrom(...texts)

/** Mostly valid patterns, with nested repetitions and flags or empty quotations before them. */
const { pattern: wellFormed } = fc.letrec<{ pattern: string }>((tie) => {
  const join = (...texts: readonly fc.Arbitrary<string>[]) => fc.tuple(...texts).map((chosen) => chosen.join(''))
  const opening = anyOf(['(', '(?:', '(?i:'])
  const between = anyOf(['', '', ...flags, '\\Q\\E'])
  return {
    pattern: fc.oneof(
      { maxDepth: 5 },
      anyOf([...characters, ...classes, ...quotations]),
      join(tie('pattern'), between, anyOf(repetitions)),
      join(opening, tie('pattern'), fc.constant(')')),
      join(tie('pattern'), between, tie('pattern')),
      join(tie('pattern'), fc.constant('|'), tie('pattern')),
    ),
  }
})

test.each([
  ['well-formed', wellFormed],
  ['random', fc.array(anyOf(parts), { maxLength: 30 }).map((chosen) => chosen.join(''))],
])('no %s pattern has more instructions than the bound computed before compilation', (_, patterns) => {
  fc.assert(
    fc.property(patterns, (pattern) => {
      const counted = unfoldedLength(pattern)
      fc.pre(counted <= 4 * largestPattern)
      let size = 0
      try {
        size = RE2JS.compile(pattern).programSize()
      } catch {
        fc.pre(false)
      }
      expect(size).toBeLessThanOrEqual(counted)
    }),
    { numRuns: 1000, maxSkipsPerRun: 1000 },
  )
})
