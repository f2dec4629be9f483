import { expect, test } from 'vitest'
import { shorten } from './shorten.ts'

test.each([
  ['abcd', 4, 'abcd'],
  ['abcde', 4, 'abc…'],
  ['ab😀d', 4, 'ab…'],
  ['a😀cd', 4, 'a😀…'],
])('%j in %i units', (text, length, expected) => expect(shorten(text, length)).toBe(expected))
