import { expect, test } from 'vitest'
import { shownLine, shownText } from './shown-text.ts'

test.each([
  ['ordinary text', 'naïve 日本 🦊 “x”\n  y', 'naïve 日本 🦊 “x”\n  y'],
  ['escape sequences', '\u001b]0;owned\u0007\u009b31m', '\ufffd]0;owned\ufffd\ufffd31m'],
  ['what overwrites a line', 'a\rb\bc\td', 'a\ufffdb\ufffdc\ufffdd'],
  ['text of the other direction', '\u202eabc\u2066', '\ufffdabc\ufffd'],
  ['invisible characters', 'a\u200bb\ufeffc\u00ad', 'a\ufffdb\ufffdc\ufffd'],
  [
    'scripts and emoji with joiners',
    'می\u200cخواهم क्\u200dष 👨\u200d👩 ❤\ufe0f',
    'می\u200cخواهم क्\u200dष 👨\u200d👩 ❤\ufe0f',
  ],
  ['joiners that hide', 'pay\u200dpal म\u200d\u200dम', 'pay\ufffdpal म\ufffd\ufffdम'],
  ['letters without a form', 'a\u3164b\u034fc\ufe0fd', 'a\ufffdb\ufffdc\ufffdd'],
  ['other ends of lines', 'a\u2028b\u2029c\u0085', 'a\ufffdb\ufffdc\ufffd'],
  ['half of a surrogate pair', 'a\ud83eb', 'a\ufffdb'],
])('%s', (_, text, shown) => {
  expect(shownText(text)).toBe(shown)
})

test.each([
  ['a message of two lines', ' internal error:\r\n  no disk\n\n', 'internal error: no disk'],
  ['a refusal', 'vm1 is invalid:\n* a: b\n* * c:\n', 'vm1 is invalid: a: b; * c:'],
  ['a forged field', 'x\n    Status:  True', 'x; Status:  True'],
  ['hidden characters', 'a\rb\u202e', 'a\ufffdb\ufffd'],
])('in one line: %s', (_, text, shown) => {
  expect(shownLine(text)).toBe(shown)
  expect(shownLine(shown)).toBe(shown)
})

test('a long text is shown in linear time', () => {
  expect(shownLine(`${' '.repeat(1_000_000)}a${' '.repeat(1_000_000)}b`)).toHaveLength(1_000_002)
})
