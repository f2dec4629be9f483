import { expect, test } from 'vitest'

import { terminalText } from './terminal-text.ts'

test.each([
  ['plain text with lines and tabs\n\tand ünïcödé', undefined],
  ['\u001B[31mred\u001B[39m', undefined],
  ['\r\u001B[K2 done, b', undefined],
  ['title \u001B]0;owned\u0007', String.raw`title \u001b]0;owned\u0007`],
  ['clear \u001B[2J', String.raw`clear \u001b[2J`],
  ['overwritten\r\u001B[Kforged', String.raw`overwritten\u000d\u001b[Kforged`],
  ['\u009B2J', String.raw`\u009b2J`],
])('%j', (text, expected) => {
  expect(terminalText(text)).toBe(expected ?? text)
})
