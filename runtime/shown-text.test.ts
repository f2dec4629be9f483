import { expect, test } from 'vitest'
import { shownText } from './shown-text.ts'

test.each([
  ['ordinary text', 'naïve 日本 🦊 “x”\n  y', 'naïve 日本 🦊 “x”\n  y'],
  ['escape sequences', '\u001b]0;owned\u0007\u009b31m', '\ufffd]0;owned\ufffd\ufffd31m'],
  ['what overwrites a line', 'a\rb\bc\td', 'a\ufffdb\ufffdc\ufffdd'],
  ['text of the other direction', '\u202eabc\u2066', '\ufffdabc\ufffd'],
  ['invisible characters', 'a\u200bb\ufeffc\u00ad', 'a\ufffdb\ufffdc\ufffd'],
  ['other ends of lines', 'a\u2028b\u2029c\u0085', 'a\ufffdb\ufffdc\ufffd'],
  ['half of a surrogate pair', 'a\ud83eb', 'a\ufffdb'],
])('%s', (_, text, shown) => {
  expect(shownText(text)).toBe(shown)
})
