import { expect, test } from 'vitest'
import { plain, type Paint } from './paint.ts'
import { unifiedDiff } from './unified-diff.ts'

const numbers = Array.from({ length: 20 }, (_, index) => String(index))
const text = (lines: readonly string[]): string => `${lines.join('\n')}\n`

test.each<[string, string, string, readonly string[]]>([
  ['nothing', 'a\nb\n', 'a\nb\n', []],
  [
    'a change with three lines around it',
    text(numbers),
    text(numbers.with(9, 'nine')),
    ['@@ -7,7 +7,7 @@', ' 6', ' 7', ' 8', '-9', '+nine', ' 10', ' 11', ' 12'],
  ],
  [
    'two changes far apart',
    text(numbers),
    text(numbers.with(1, 'x').with(18, 'y')),
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
  const diff = unifiedDiff(['old', 'new'], before, after, plain)
  expect(diff).toBe(hunks.length === 0 ? '' : ['--- old', '+++ new', ...hunks, ''].join('\n'))
})

test('colors what changed', () => {
  const tagged: Paint = (style, line) => `<${style}>${line}`
  expect(unifiedDiff(['old', 'new'], 'a\nb\n', 'a\nc\n', tagged)).toBe(
    ['<bold>--- old', '<bold>+++ new', '<cyan>@@ -1,2 +1,2 @@', ' a', '<red>-b', '<green>+c', ''].join('\n'),
  )
})
