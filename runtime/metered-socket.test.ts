import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../test/until.ts'
import { listen } from './listen.ts'
import { MeteredSocket } from './metered-socket.ts'
import { createSelfSigned } from './self-signed.ts'

/** A connection of a client, with its accepted side. */
async function start() {
  const server = createServer()
  const accepted = once(server, 'connection')
  const client = connect({ port: await listen(server, 0, '127.0.0.1'), host: '127.0.0.1' }).on('error', () => {})
  const [socket]: Socket[] = await accepted
  if (socket === undefined) throw new Error('no connection')
  const metered = new MeteredSocket(socket)
  onTestFinished(() => {
    client.destroy()
    metered.destroy()
    server.close()
  })
  const received: number[] = []
  const read = () => metered.on('data', (chunk: Buffer) => received.push(chunk.length))
  return { client, socket, metered, received, read }
}

/** Decides about each piece later. */
function hold(metered: MeteredSocket, pieceBytes: number) {
  const asked: number[] = []
  const waiting: (() => void)[] = []
  metered.limit(pieceBytes, (bytes, deliver) => {
    asked.push(bytes)
    waiting.push(deliver)
  })
  return { asked, next: () => waiting.shift()?.() }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)

test('delivers what arrives in pieces, each when it is told to', async () => {
  const { client, metered, received, read } = await start()
  const { asked, next } = hold(metered, 4)
  read()
  client.write('0123456789')
  await until(() => asked.length === 1)
  expect([received, metered.isHeld(), metered.delivered]).toEqual([[], true, 0])
  next()
  await until(() => asked.length === 2)
  next()
  await until(() => asked.length === 3)
  expect([asked, received, metered.delivered]).toEqual([[4, 4, 2], [4, 4], 8])
})

test('reads no more than a chunk while a piece waits', async () => {
  const { client, socket, metered, read } = await start()
  const { asked, next } = hold(metered, 4096)
  read()
  client.write(Buffer.alloc(4 * 1024 * 1024))
  await until(() => asked.length === 1)
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  next()
  await until(() => asked.length === 2)
  expect(socket.bytesRead).toBeLessThanOrEqual(64 * 1024)
})

test('reads nothing while its reader is paused, and goes on afterwards', async () => {
  const { client, socket, metered, received, read } = await start()
  read()
  metered.pause()
  client.write(Buffer.alloc(4 * 1024 * 1024))
  await until(() => socket.bytesRead > 0)
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  expect([received, socket.bytesRead <= 64 * 1024]).toEqual([[], true])
  metered.resume()
  await until(() => sum(received) === 4 * 1024 * 1024)
  expect(metered.delivered).toBe(4 * 1024 * 1024)
})

test('delivers a piece that waits once, and the rest with it, after the peer is trusted', async () => {
  const { client, metered, received, read } = await start()
  const { asked, next } = hold(metered, 4)
  read()
  client.write('0123456789')
  await until(() => asked.length === 1)
  metered.trust()
  await until(() => received.length > 0)
  next()
  expect(received).toEqual([10])
})

test('delivers nothing after it is destroyed in between', async () => {
  const { client, metered, received, read } = await start()
  metered.limit(4, (_, deliver) => {
    deliver()
    metered.destroy()
  })
  read()
  client.write('0123456789')
  await once(client.resume(), 'close')
  expect(received).toEqual([4])
})

test('ends after the last piece, and writes what its owner still has to say', async () => {
  const { client, metered, received, read } = await start()
  const { asked, next } = hold(metered, 4)
  let isEnded = false
  metered.on('end', () => (isEnded = true))
  read()
  client.end('01234')
  await until(() => asked.length === 1)
  next()
  await until(() => asked.length === 2)
  expect(isEnded).toBe(false)
  next()
  await until(() => isEnded)
  expect(received).toEqual([4, 1])
  metered.end('bye')
  expect(String((await once(client, 'data'))[0])).toBe('bye')
})

test('reports that the connection was reset', async () => {
  const { client, metered, read } = await start()
  read()
  const failed = once(metered, 'error')
  client.resetAndDestroy()
  expect(await failed).toMatchObject([{ code: 'ECONNRESET' }])
})

test('carries TLS both ways', async () => {
  const server = createTlsServer(createSelfSigned('localhost', Date.now()), (socket) => void socket.pipe(socket))
  const [accept] = server.listeners('connection')
  const plain = createServer((socket) => {
    const metered = new MeteredSocket(socket)
    metered.limit(1000, (_, deliver) => deliver())
    if (accept !== undefined) Reflect.apply(accept, server, [metered])
  })
  const secured = once(server, 'secureConnection')
  const port = await listen(plain, 0, '127.0.0.1')
  const metered = new MeteredSocket(connect({ port, host: '127.0.0.1' }))
  const client = connectTls({ socket: metered, rejectUnauthorized: false })
  const [socket]: TLSSocket[] = await secured
  onTestFinished(() => {
    client.destroy()
    socket?.destroy()
    plain.close()
  })
  const sent = Buffer.alloc(3 * 1024 * 1024, '0123456789abc')
  const received: Buffer[] = []
  client.on('data', (chunk: Buffer) => received.push(chunk))
  client.end(sent)
  await once(client, 'end')
  expect(Buffer.concat(received).equals(sent)).toBe(true)
  await until(() => socket?.destroyed === true && client.destroyed)
})
