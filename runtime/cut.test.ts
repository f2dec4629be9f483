import { describe, expect, it } from 'vitest'
import { cutBytes } from './cut.ts'

describe('cut to bytes', () => {
  it.each([
    ['short', 10, 'short'],
    ['exactly te', 10, 'exactly te'],
    ['eleven char', 10, 'eleven …'],
    ['ÄÖÜÄÖÜ', 10, 'ÄÖÜ…'],
    ['🖥🖥🖥', 10, '🖥…'],
  ])('%s in %d bytes is %s', (text, limit, cut) => {
    expect(cutBytes(text, limit)).toBe(cut)
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(limit)
  })
})
