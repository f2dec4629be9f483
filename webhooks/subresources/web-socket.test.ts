import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { afterEach, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { systemClock, type Clock } from '../../runtime/clock.ts'
import { deliverPiecewise } from '../../runtime/untrusted-response.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import { bridge, closeMs, pingMs, webSocketOptions, type Bridge, type Ending } from './web-socket.ts'

let server: Server
const closing: (() => unknown)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
  server.closeAllConnections()
  server.close()
})

/** A server that bridges each client with a guest, whose end is returned. */
async function start(
  clock: Clock = systemClock,
  endingOf = async (): Promise<Ending> => ({ code: 1000, reason: 'over' }),
) {
  const [ours, guest] = duplexPair()
  const bridged = Promise.withResolvers<Bridge>()
  const frames = { count: 0 }
  const sockets = new WebSocketServer(webSocketOptions)
  server = createServer().on('upgrade', (request, socket, head) => {
    deliverPiecewise(request.socket)
    sockets.handleUpgrade(request, socket, head, (client) => {
      client.on('message', () => frames.count++)
      bridged.resolve(bridge(client, ours, { clock, endingOf }))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => guest.destroy())
  const { port } = server.address() as AddressInfo
  return { guest, ours, port, frames, bridged: bridged.promise }
}

async function open(port: number, options: { readonly autoPong?: boolean } = {}): Promise<WebSocket> {
  const client = new WebSocket(`ws://127.0.0.1:${port}`, options)
  client.on('error', () => {})
  closing.push(() => client.terminate())
  await once(client, 'open')
  return client
}

/** A client without a library, which sends these bytes after the upgrade. */
async function raw(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  closing.push(() => socket.destroy())
  socket.write(
    'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n',
  )
  const [head] = await once(socket, 'data')
  expect(String(head)).toMatch(/^HTTP\/1.1 101 /)
  return socket
}

/** A masked frame with a mask of zeros. */
const frame = (first: number, payload: string) =>
  Buffer.concat([Buffer.from([first, 0x80 | payload.length, 0, 0, 0, 0]), Buffer.from(payload)])
const [binary, fragment, lastFragment, ping] = [0x82, 0x00, 0x80, 0x89]

/** Writes as fast as the server reads, up to a number of bytes. Returns how many were accepted. */
function flood(socket: Socket, piece: Buffer, most = Infinity): () => number {
  let written = 0
  const more = () => {
    while (!socket.destroyed && written < most && socket.write(piece)) written += piece.length
  }
  socket.on('drain', more)
  more()
  return () => written
}

function collect(from: Duplex): () => string {
  let text = ''
  from.on('data', (chunk: Buffer) => (text += chunk.toString()))
  return () => text
}

test('carries bytes both ways and counts them; the guest ends it with a reason', async () => {
  const { guest, port, bridged } = await start()
  const client = await open(port)
  const typed = collect(guest)
  let heard = ''
  client.on('message', (data: Buffer) => (heard += data.toString()))
  client.send('ls\r')
  guest.write('a b\n')
  await until(() => typed() === 'ls\r' && heard === 'a b\n')
  const closed = once(client, 'close')
  guest.end()
  const [code, reason] = await closed
  expect([code, String(reason)]).toEqual([1000, 'over'])
  expect(await (await bridged).ended).toEqual({ code: 1000, reason: 'over', toGuest: 3, fromGuest: 4 })
})

test('a client that leaves closes the session with the guest', async () => {
  const { ours, port, bridged } = await start()
  const client = await open(port)
  client.close(1000)
  expect((await (await bridged).ended).code).toBe(1000)
  expect(ours.destroyed).toBe(true)
})

test('a client that is disconnected without a close, or closes half, ends the session', async () => {
  const { ours, port, bridged } = await start()
  const socket = await raw(port)
  socket.end()
  expect((await (await bridged).ended).code).toBe(1006)
  expect(ours.destroyed).toBe(true)
})

test('the webhooks can end it', async () => {
  const { port, bridged } = await start()
  const client = await open(port)
  const closed = once(client, 'close')
  const one = await bridged
  one.close({ code: 1012, reason: 'service restart' })
  const [code, reason] = await closed
  expect([code, String(reason)]).toEqual([1012, 'service restart'])
  expect(await one.ended).toMatchObject({ code: 1012 })
})

test('a client that does not answer a close is disconnected', async () => {
  const clock = fakeClock()
  const { port, bridged } = await start(clock)
  const socket = await raw(port)
  const one = await bridged
  one.close({ code: 1012, reason: 'service restart' })
  await clock.advance(closeMs)
  expect(await one.ended).toMatchObject({ code: 1012 })
  socket.destroy()
})

test('a client is pinged, and disconnected if it does not answer until the next ping', async () => {
  const clock = fakeClock()
  const { port, bridged } = await start(clock)
  const client = await open(port)
  let isOver = false
  void (await bridged).ended.then(() => (isOver = true))
  for (let count = 0; count < 3; count++) {
    const pinged = once(client, 'ping')
    await clock.advance(pingMs)
    await pinged
    // The answer arrives before what is sent after it.
    client.send('x')
    await until(() => client.bufferedAmount === 0)
    await new Promise((resolve) => setTimeout(resolve, 20))
    for (let turns = 0; turns < 10; turns++) await settle()
  }
  expect(isOver).toBe(false)
})

test('a client that never answers is disconnected', async () => {
  const clock = fakeClock()
  const { port, bridged } = await start(clock)
  await open(port, { autoPong: false })
  const { ended } = await bridged
  await clock.advance(pingMs)
  await clock.advance(pingMs)
  expect(await ended).toMatchObject({ code: 1006, reason: 'the client does not respond' })
})

test.each([
  ['frames of one byte', frame(binary, 'x')],
  ['empty frames', frame(binary, '')],
  ['pings', frame(ping, '')],
  ['messages of two fragments', Buffer.concat([frame(0x02, 'x'), frame(lastFragment, 'y')])],
])('%s are not read faster than a limit', async (_, piece) => {
  const clock = fakeClock()
  const { guest, port, bridged } = await start(clock)
  guest.resume()
  const socket = await raw(port)
  await bridged
  const many = Buffer.concat(Array.from({ length: 1000 }, () => piece))
  const written = flood(socket, many, 64 * 1024 * 1024)
  let before = -1
  await until(
    () => before === written(),
    async () => {
      before = written()
      await new Promise((resolve) => setTimeout(resolve, 200))
    },
  )
  // What the kernel and Node buffer.
  expect(written()).toBeLessThan(16 * 1024 * 1024)
})

test('of small frames that arrive at once, those beyond the limit wait, but for the rest of a piece', async () => {
  const clock = fakeClock()
  const { guest, port, frames, bridged } = await start(clock)
  guest.resume()
  const socket = await raw(port)
  await bridged
  const count = 2300
  socket.write(Buffer.concat(Array.from({ length: count }, () => frame(binary, 'x'))))
  await until(() => frames.count > 0)
  for (let turns = 0; turns < 10; turns++) await settle()
  expect(frames.count).toBeLessThan(500 + 4096 / 7)
  await until(
    () => frames.count === count,
    () => clock.advance(1000),
  )
})

test('an endless message of small fragments is refused', async () => {
  const { port, bridged } = await start()
  const socket = await raw(port)
  socket.resume()
  socket.write(frame(0x02, 'x'))
  flood(socket, frame(fragment, 'x'), 1024 * 1024)
  expect(await (await bridged).ended).toMatchObject({ toGuest: 0 })
})

test('a message in chunks of single bytes is refused before they take more memory than its bytes', async () => {
  const { port, bridged } = await start()
  const socket = await raw(port)
  socket.setNoDelay(true).resume()
  let isOver = false
  void (await bridged).ended.then(() => (isOver = true))
  // A frame of 256 KiB.
  socket.write(Buffer.from([binary, 0xff, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]))
  let sent = 0
  await until(
    () => isOver || sent === 2000,
    async () => {
      socket.write('x')
      sent++
      await settle()
    },
  )
  expect(sent).toBeLessThan(400)
})

test('a message of 256 KiB in chunks of 1.4 KiB, as in packets, is accepted', async () => {
  const { guest, port, bridged } = await start()
  const typed = collect(guest)
  const socket = await raw(port)
  await bridged
  socket.setNoDelay(true).write(Buffer.from([binary, 0xff, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]))
  const text = 'x'.repeat(256 * 1024)
  for (let start = 0; start < text.length; start += 1400) {
    socket.write(text.slice(start, start + 1400))
    await settle()
  }
  await until(() => typed().length === text.length)
})

test('frames that arrive together reach the guest together', async () => {
  const { guest, port, bridged } = await start()
  const socket = await raw(port)
  await bridged
  const chunks: string[] = []
  guest.on('data', (chunk: Buffer) => chunks.push(chunk.toString()))
  socket.write(Buffer.concat(Array.from({ length: 100 }, () => frame(binary, 'x'))))
  await until(() => chunks.join('').length === 100)
  expect(chunks.length).toBeLessThan(20)
})

test('a client that never reads makes the session stop reading the guest', async () => {
  const { guest, port, bridged } = await start()
  const socket = await raw(port)
  socket.pause()
  await bridged
  let written = 0
  const more = () => {
    while (written < 256 * 1024 * 1024 && guest.write(Buffer.alloc(65_536))) written += 65_536
  }
  guest.on('drain', more)
  more()
  let before = -1
  await until(
    () => before === written,
    async () => {
      before = written
      await new Promise((resolve) => setTimeout(resolve, 200))
    },
  )
  expect(written).toBeLessThan(32 * 1024 * 1024)
})

test('a guest that does not read stops the client, which is not disconnected for that', async () => {
  const clock = fakeClock()
  const { guest, port, bridged } = await start(clock)
  const client = await open(port)
  let isOver = false
  void (await bridged).ended.then(() => (isOver = true))
  client.send(Buffer.alloc(200_000))
  client.send(Buffer.alloc(200_000))
  await until(() => guest.readableLength > 0)
  for (let count = 0; count < 4; count++) await clock.advance(pingMs)
  expect(isOver).toBe(false)
})
