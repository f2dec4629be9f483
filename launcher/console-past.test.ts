import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ConsolePast } from './console-past.ts'

test('has the last bytes of what was appended', () => {
  const past = new ConsolePast(4)
  past.append(Buffer.from('abc'))
  expect([past.start, past.end, past.from(1).toString()]).toEqual([0, 3, 'bc'])
  past.append(Buffer.from('def'))
  expect([past.start, past.end, past.from(2).toString()]).toEqual([2, 6, 'cdef'])
  past.append(Buffer.from('ghijklm'))
  expect([past.start, past.end, past.from(9).toString()]).toEqual([9, 13, 'jklm'])
  expect(past.from(13).length).toBe(0)
})

test('is the end of the output for any chunks', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme-ascii', maxLength: 20 })),
      fc.integer({ min: 1, max: 16 }),
      (chunks, capacity) => {
        const past = new ConsolePast(capacity)
        for (const chunk of chunks) past.append(Buffer.from(chunk))
        const all = chunks.join('')
        expect(past.end).toBe(all.length)
        expect(past.from(past.start).toString()).toBe(all.slice(Math.max(0, all.length - capacity)))
      },
    ),
  )
})
