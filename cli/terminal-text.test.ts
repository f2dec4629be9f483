import { expect, test } from 'vitest'
import { painter, type Style } from './paint.ts'
import { terminalText } from './terminal-text.ts'

const escape = '\u001B0.secret'
const shown = terminalText(escape)

test.each([
  ['plain text with lines and tabs\n\tand ünïcödé 🙂', undefined],
  ['title \u001B]0;owned\u0007', String.raw`title \u001b]0;owned\u0007`],
  ['clear \u001B[2J', String.raw`clear \u001b[2J`],
  ['\r\u001B[K2 done, b', String.raw`\u000d\u001b[K2 done, b`],
  ['overwritten\r\u001B[Kforged', String.raw`overwritten\u000d\u001b[Kforged`],
  ['\u009B2J', String.raw`\u009b2J`],
  ['\u001B[1mConnected again.\u001B[22m', String.raw`\u001b[1mConnected again.\u001b[22m`],
  ['\u001B[32mapplied\u001B[39m', String.raw`\u001b[32mapplied\u001b[39m`],
  ['\u001B0xsecret[1mbold', String.raw`\u001b0xsecret[1mbold`],
  ['0.secret[1m', undefined],
])('%j of others, in a file as well', (text, expected) => {
  expect([shown(text, true), shown(text, false)]).toEqual([expected ?? text, expected ?? text])
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
  expect([shown(text, true), shown(text, false)]).toEqual([expected, text])
})

const codes: { readonly [S in Style]: readonly [begin: number, end: number] } = {
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
  bold: [1, 22],
  dim: [2, 22],
}

test.each(Object.entries(codes) as [Style, readonly [number, number]][])(
  "passes the program's own style %s, but none within the text",
  (style, [begin, end]) => {
    const paint = painter({ environment: {}, isOutTerminal: true, escape })
    const text = `a ${paint(style, 'b \u001B[0m c')} d\n`
    expect(shown(text, true)).toBe(`a \u001B[${begin}mb ${String.raw`\u001b[0m`} c\u001B[${end}m d\n`)
  },
)

test('shows the carriage return of others before a style', () => {
  expect(shown(`a\r${escape}[1mb`, true)).toBe(`a${String.raw`\u000d`}\u001B[1mb`)
})
