import fc from 'fast-check'
import { expect, test } from 'vitest'
import { diffLines, unifiedDiff } from './line-diff.ts'
import { plain } from './paint.ts'

const lines = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 12 })

test('a diff leads from one text to the other', () => {
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const diff = diffLines(before, after)
      expect(diff.filter(({ kind }) => kind !== '+').map(({ text }) => text)).toEqual(before)
      expect(diff.filter(({ kind }) => kind !== '-').map(({ text }) => text)).toEqual(after)
    }),
  )
})

test('what is only added takes nothing away', () => {
  fc.assert(
    fc.property(lines, fc.infiniteStream(fc.boolean()), (after, kept) => {
      const before = after.filter(() => kept.next().value)
      expect(diffLines(before, after).some(({ kind }) => kind === '-')).toBe(false)
    }),
  )
})

const numbers = Array.from({ length: 20 }, (_, index) => String(index))

test.each<[string, string, string, readonly string[]]>([
  ['nothing', 'a\nb\n', 'a\nb\n', []],
  [
    'a change with what is around it',
    numbers.join('\n'),
    numbers.with(9, 'nine').join('\n'),
    ['@@ -7,7 +7,7 @@', ' 6', ' 7', ' 8', '-9', '+nine', ' 10', ' 11', ' 12'],
  ],
  [
    'two changes far apart',
    numbers.join('\n'),
    numbers.with(1, 'x').with(18, 'y').join('\n'),
    [
      '@@ -1,5 +1,5 @@',
      ' 0',
      '-1',
      '+x',
      ' 2',
      ' 3',
      ' 4',
      '@@ -16,5 +16,5 @@',
      ' 15',
      ' 16',
      ' 17',
      '-18',
      '+y',
      ' 19',
    ],
  ],
])('shows %s', (_, before, after, hunks) => {
  const text = unifiedDiff(['old', 'new'], before, after, plain)
  expect(text).toBe(hunks.length === 0 ? '' : ['--- old', '+++ new', ...hunks, ''].join('\n'))
})
