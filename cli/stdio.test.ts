import { PassThrough, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { expect, test } from 'vitest'
import { joined } from './stdio.ts'

test('what it reads is the input, with its end', async () => {
  const input = new PassThrough()
  const both = joined(input, new PassThrough())
  input.write('one')
  input.end('two')
  expect(await text(both)).toBe('onetwo')
})

test('it finishes when the last byte is written', async () => {
  const input = new PassThrough()
  const written: string[] = []
  const output = new Writable({
    write: (chunk, _, done) => setTimeout(() => done(void written.push(String(chunk))), 1),
  })
  const both = joined(input, output)
  both.write('one')
  both.end('two')
  await finished(both, { readable: false })
  expect(written).toEqual(['one', 'two'])
  expect(output.writableEnded).toBe(false)
  both.destroy()
  expect(input.destroyed).toBe(true)
})
