import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { afterEach, expect, test } from 'vitest'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { dial } from '../test/records.ts'
import { until } from '../test/until.ts'
import { pauseMs, readPaced } from './carry.ts'
import { limitRecords } from './record-limit.ts'
import { createSelfSigned } from './self-signed.ts'

const closing: (() => unknown)[] = []
afterEach(() => {
  for (const close of closing.splice(0).toReversed()) close()
})

/** A connection whose server side is limited; `sendEach` sends each byte in a record of its own, all at once. */
async function start() {
  const clock = fakeClock()
  const server = createServer(createSelfSigned('localhost', Date.now())).listen(0, '127.0.0.1')
  const arrived = once(server, 'secureConnection')
  await once(server, 'listening')
  const wire = dial((server.address() as AddressInfo).port)
  const client = connect({ socket: wire, rejectUnauthorized: false }).on('error', () => {})
  const [socket]: TLSSocket[] = await arrived
  if (socket === undefined) throw new Error('no connection')
  closing.push(
    () => server.close(),
    () => client.destroy(),
    () => socket.destroy(),
  )
  limitRecords(socket, clock)
  return { clock, client, socket, sendEach: (text: string) => wire.sendEach(client, text) }
}

function collect(from: TLSSocket): string[] {
  const chunks: string[] = []
  from.on('data', (chunk: Buffer) => chunks.push(chunk.toString()))
  return chunks
}

const digits = (count: number) => Array.from({ length: count }, (_, index) => index % 10).join('')

test('records of one byte that arrive together are delivered together, and in order', async () => {
  const { socket, sendEach } = await start()
  const chunks = collect(socket)
  const text = digits(900)
  await sendEach(text)
  await until(() => chunks.join('').length === text.length)
  expect(chunks.join('')).toBe(text)
  // One for each time that Node reads.
  expect(chunks.length).toBeLessThan(10)
})

test('what arrives slowly while the socket is paused is buffered in few chunks', async () => {
  const { socket, client } = await start()
  socket.pause()
  const text = digits(900)
  for (const byte of text) {
    await new Promise((resolve) => client.write(byte, resolve))
    await settle()
  }
  const chunks = collect(socket)
  socket.resume()
  await until(() => chunks.join('').length === text.length)
  expect(chunks).toEqual([text[0], text.slice(1)])
})

test('a paced reader gets what has arrived slowly during a pause as one chunk', async () => {
  const { clock, socket, client } = await start()
  const chunks: string[] = []
  readPaced(
    socket,
    (ms, run) => clock.after(ms, run),
    (chunk) => void chunks.push(chunk.toString()),
  )
  for (const byte of 'abcd') {
    const arrived = socket.bytesRead
    client.write(byte)
    await until(() => socket.bytesRead > arrived)
    await settle()
  }
  expect(chunks).toEqual(['a'])
  await clock.advance(pauseMs)
  expect(chunks).toEqual(['a', 'bcd'])
})

test('a peer that sends too many small records is not read until it has paid for them', async () => {
  const { clock, socket, sendEach } = await start()
  const chunks = collect(socket)
  const text = digits(20_000)
  await sendEach(text)
  await settle()
  const read = chunks.join('').length
  // The burst, and what Node had read when it was exceeded.
  expect(read).toBeGreaterThan(0)
  expect(read).toBeLessThan(1000 + 2900 + 2900)
  await clock.advance(1000)
  expect(chunks.join('').length).toBe(read)
  await until(
    () => chunks.join('').length === text.length,
    () => clock.advance(1000),
  )
  expect(chunks.join('')).toBe(text)
  // 500 in each second.
  expect(clock.monotonic()).toBeGreaterThan(((20_000 - 1000 - 2900) / 500) * 1000)
})

test.each([
  ['large records', [16_384]],
  ['large records with a small end', [4096, 1]],
  ['records of 2 KiB', [2048]],
])('%s are not limited', async (_, sizes) => {
  const { clock, client, socket } = await start()
  let bytes = 0
  socket.on('data', (chunk: Buffer) => (bytes += chunk.length))
  let sent = 0
  for (let count = 0; count < 3000; count++) {
    for (const size of sizes) {
      sent += size
      await new Promise((resolve) => client.write(Buffer.alloc(size), resolve))
    }
  }
  await until(() => bytes === sent)
  expect(clock.pending()).toBe(0)
})

test('the last bytes arrive before the end', async () => {
  const { client, socket } = await start()
  const chunks = collect(socket)
  client.write('good ')
  client.end('bye')
  await once(socket, 'end')
  expect(chunks.join('')).toBe('good bye')
})

test('a connection that is closed while it is not read leaves no timer', async () => {
  const { clock, socket, sendEach } = await start()
  collect(socket)
  await sendEach(digits(3000))
  await until(() => clock.pending() > 0)
  socket.destroy()
  await once(socket, 'close')
  expect(clock.pending()).toBe(0)
})
