import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Socket, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { carry, pacedOptions, pauseMs, smallChunkBytes, stalledMs } from './carry.ts'
import { systemClock } from './clock.ts'

/** A client and a guest with `carry` between them, and what each has read. */
function start() {
  const clock = fakeClock()
  const [client, one] = duplexPair()
  const [other, guest] = duplexPair()
  const carried = carry(one, other, clock)
  return { clock, client, guest, one, other, carried, heard: collect(client), typed: collect(guest) }
}

function collect(from: Duplex): string[] {
  const chunks: string[] = []
  from.on('data', (chunk: Buffer) => chunks.push(chunk.toString()))
  return chunks
}

test('carries bytes in both directions and counts them', async () => {
  const { clock, client, guest, carried, heard, typed } = start()
  client.write('ls\n')
  guest.write('a b c\n')
  await settle()
  expect([typed, heard]).toEqual([['ls\n'], ['a b c\n']])
  client.end()
  guest.end()
  await clock.advance(pauseMs)
  expect(await carried).toEqual({ sent: 3, received: 6 })
})

test('delivers the first byte at once, and the bytes of a pause together', async () => {
  const { clock, guest, heard } = start()
  for (const text of ['a', 'b', 'c', 'd']) {
    guest.write(text)
    await settle()
  }
  expect(heard).toEqual(['a'])
  await clock.advance(pauseMs)
  expect(heard).toEqual(['a', 'bcd'])
})

test('large chunks are not delayed', async () => {
  const { guest, heard } = start()
  for (const text of ['a', 'b']) guest.write(text.repeat(5000))
  await settle()
  expect(heard.join('').length).toBe(10_000)
})

test('the small end of a large chunk does not delay what follows, but a second small one does', async () => {
  const { clock, guest, heard } = start()
  const large = 'a'.repeat(smallChunkBytes)
  for (const text of [large, 'b', large, 'c', 'd', 'e']) {
    guest.write(text)
    await settle()
  }
  expect(heard).toEqual([large, 'b', large, 'c', 'd'])
  await clock.advance(pauseMs)
  expect(heard).toEqual([large, 'b', large, 'c', 'd', 'e'])
})

test('reading continues after a large chunk that arrived during a pause', async () => {
  const { clock, guest, heard } = start()
  guest.write('a')
  await settle()
  guest.write('b'.repeat(smallChunkBytes))
  await clock.advance(pauseMs)
  guest.write('c')
  await settle()
  await clock.advance(pauseMs)
  expect(heard.join('').length).toBe(smallChunkBytes + 2)
})

test('the last bytes of a side that ends arrive', async () => {
  const { clock, client, guest, heard } = start()
  const ended = once(client, 'end')
  guest.write('a')
  guest.end('good bye')
  await clock.advance(pauseMs)
  await ended
  expect(heard.join('')).toBe('agood bye')
})

test('ends if the other side does not finish after one side has ended', async () => {
  const { clock, guest, one, other, carried } = start()
  guest.end()
  await settle()
  await clock.advance(60_000)
  await carried
  expect([one.destroyed, other.destroyed]).toEqual([true, true])
})

test('ends with an error of one side', async () => {
  const { one, other, carried } = start()
  one.destroy(new Error('reset'))
  await carried
  expect(other.destroyed).toBe(true)
})

test('ends if one side was closed before it began', async () => {
  const [one, other] = [duplexPair()[0], duplexPair()[0]]
  const clock = fakeClock()
  one.destroy()
  const carried = carry(one, other, clock)
  await clock.advance(10_000)
  await carried
  expect(other.destroyed).toBe(true)
})

test('a side that ended before it began ends the other side, after what was written to that', async () => {
  const clock = fakeClock()
  const [client, one] = duplexPair()
  const [other, guest] = duplexPair()
  other.resume()
  guest.end()
  await once(other, 'end')
  const heard = collect(client)
  const ended = once(client, 'end')
  one.write('HTTP/1.1 101')
  void carry(one, other, clock)
  await ended
  expect(heard).toEqual(['HTTP/1.1 101'])
  client.end()
})

test('disconnects a side that never reads, and reads no more than fits into the buffers meanwhile', async () => {
  const clock = fakeClock()
  const [, one] = duplexPair()
  const [other, guest] = duplexPair()
  const carried = carry(one, other, clock)
  let written = 0
  const write = () => {
    while (written < 64 * 1024 * 1024 && guest.write(Buffer.alloc(65_536))) written += 65_536
  }
  guest.on('drain', write)
  write()
  await settle()
  expect(written).toBeLessThan(1024 * 1024)
  await clock.advance(stalledMs)
  await carried
  expect(one.destroyed).toBe(true)
})

test('a process that sends single bytes as fast as it can causes few writes', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'carry-'))
  const path = join(directory, 'socket')
  const server = createServer((socket) => {
    socket.on('error', () => {})
    // One write in each turn of the event loop, so that Node does not join them.
    const more = () => {
      if (socket.destroyed) return
      if (socket.writableLength === 0) socket.write('x')
      setImmediate(more)
    }
    more()
  }).listen(path)
  await once(server, 'listening')
  const hostile = new Socket(pacedOptions).connect(path)
  const [client, inner] = duplexPair()
  const carried = carry(inner, hostile, systemClock)
  let [reads, bytes] = [0, 0]
  client.on('data', (chunk: Buffer) => {
    reads++
    bytes += chunk.length
  })
  await until(() => bytes > 5000)
  client.destroy()
  inner.destroy()
  await carried
  server.close()
  rmSync(directory, { recursive: true })
  expect(bytes / reads).toBeGreaterThan(10)
})
