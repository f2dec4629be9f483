import { styleText } from 'node:util'
import { expect, test } from 'vitest'
import { styles } from './paint.ts'
import { terminalText } from './terminal-text.ts'

test.each([
  ['plain text with lines and tabs\n\tand ünïcödé 🙂', undefined],
  ['\u001B[31mred\u001B[39m', undefined],
  ['\r\u001B[K2 done, b', undefined],
  ['title \u001B]0;owned\u0007', String.raw`title \u001b]0;owned\u0007`],
  ['clear \u001B[2J', String.raw`clear \u001b[2J`],
  ['overwritten\r\u001B[Kforged', String.raw`overwritten\u000d\u001b[Kforged`],
  ['\u009B2J', String.raw`\u009b2J`],
  ['concealed \u001B[8mfields\u001B[28m', String.raw`concealed \u001b[8mfields\u001b[28m`],
  ['concealed \u001B[1;8mfields', String.raw`concealed \u001b[1;8mfields`],
  ['black on black \u001B[30;40mfields\u001B[m', String.raw`black on black \u001b[30;40mfields\u001b[m`],
  ['blinking \u001B[5m', String.raw`blinking \u001b[5m`],
])('%j, in a file as well', (text, expected) => {
  expect([terminalText(text, true), terminalText(text, false)]).toEqual([expected ?? text, expected ?? text])
})

test.each([
  ['a bidirectional override', 'vm-\u202Egnp.exe\u202C', String.raw`vm-\u202egnp.exe\u202c`],
  ['a bidirectional isolate', '\u2066a\u2069', String.raw`\u2066a\u2069`],
  ['a zero-width space', 'ad\u200Bmin', String.raw`ad\u200bmin`],
  ['a zero-width joiner and a byte order mark', 'a\u200Db\uFEFF', String.raw`a\u200db\ufeff`],
  ['a soft hyphen', 'ad\u00ADmin', String.raw`ad\u00admin`],
  ['a filler that looks like a space', 'ad\u3164min', String.raw`ad\u3164min`],
  ['separators of lines and paragraphs', 'a\u2028b\u2029', String.raw`a\u2028b\u2029`],
  ['characters that only tag', 'a\u{E0061}', String.raw`a\udb40\udc61`],
])('shows %s on a terminal, and leaves it in a file', (_, text, expected) => {
  expect([terminalText(text, true), terminalText(text, false)]).toEqual([expected, text])
})

test.each(styles)('passes the style %s', (style) => {
  const text = styleText(style, 'text', { validateStream: false })
  expect([text.length > 'text'.length, terminalText(text, true)]).toEqual([true, text])
})
