import { expect, test } from 'vitest'
import { joinChunks } from './joined-chunks.ts'

test.each([
  ['nothing', [], 0],
  ['one byte', ['a'], 1024],
  ['64 KiB in chunks of one byte', Array.from({ length: 65_536 }, (_, n) => String(n % 10)), 65_536],
  ['what fills the first block', ['x'.repeat(1023), 'yz'], 2048],
  ['characters of several bytes', ['ä'.repeat(700), '€'], 2048],
  ['a large chunk between small ones', ['a', 'b'.repeat(200_000), 'c'], 4 * 65_536],
])('joins %s, in memory of its size', (_, texts, allocated) => {
  const joined = joinChunks()
  for (const text of texts) joined.add(Buffer.from(text))
  expect([joined.text(), joined.allocated()]).toEqual([texts.join(''), allocated])
})

test('joins parts of a character', () => {
  const joined = joinChunks()
  for (const byte of Buffer.from('€')) joined.add(Buffer.of(byte))
  expect(joined.text()).toBe('€')
})

test('retains no chunk', () => {
  const joined = joinChunks()
  const chunk = Buffer.from('one')
  joined.add(chunk)
  chunk.write('two')
  joined.add(chunk)
  expect(joined.text()).toBe('onetwo')
})

test('forgets what was added', () => {
  const joined = joinChunks()
  joined.add(Buffer.alloc(5000))
  joined.clear()
  expect([joined.text(), joined.allocated()]).toEqual(['', 0])
  joined.add(Buffer.from('new'))
  expect(joined.text()).toBe('new')
})
