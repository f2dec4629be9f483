import { once } from 'node:events'
import { connect, createServer, Socket, type Server } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createArrivalDeadlines } from './arrival-deadline.ts'
import type { ConnectionLimits } from './connections.ts'
import { guardConnections, type ConnectionRejection } from './guard.ts'
import { listen } from './listen.ts'
import { createSelfSigned } from './self-signed.ts'

const limits: ConnectionLimits = { pending: 8, pendingPerAddress: 8, burst: 8, perSecond: 1, proven: 8 }
const deadlineMs = 750

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0).toReversed()) close()
})

function guard(server: Server, more: Partial<ConnectionLimits> = {}, provenBy: 'handshake' | 'caller' = 'caller') {
  const clock = fakeClock()
  const rejections: ConnectionRejection[] = []
  const accepted: Socket[] = []
  const prove = guardConnections(server, {
    limits: { ...limits, ...more },
    provenBy,
    deadlines: createArrivalDeadlines(clock, deadlineMs / 250),
    clock,
    rejected: (reason) => void rejections.push(reason),
  })
  server.on('connection', (socket: Socket) => void accepted.push(socket.on('error', () => {})))
  closing.push(() => {
    for (const socket of accepted) socket.destroy()
    server.close()
  })
  return { clock, rejections, accepted, prove }
}

describe('of two connections from one port, where the end of the first was noticed later,', () => {
  const setUp = async (more: Partial<ConnectionLimits> = {}) => {
    const server = createServer()
    const guarded = guard(server, more)
    const arrive = (port: number): Socket => {
      const socket = new Socket()
      Object.defineProperties(socket, { remoteAddress: { value: '10.0.0.1' }, remotePort: { value: port } })
      server.emit('connection', socket)
      return socket
    }
    const [first, second] = [arrive(4000), arrive(4000)]
    const end = async () => {
      first.destroy()
      await once(first, 'close')
    }
    return { ...guarded, arrive, end, first, second }
  }

  test('the second one keeps its deadline', async () => {
    const { clock, end, second, rejections } = await setUp()
    await end()
    await clock.advance(deadlineMs)
    expect([second.destroyed, rejections]).toEqual([true, ['deadline']])
  })

  test('the second one counts, and is closed for a newer one', async () => {
    const { arrive, end, second, rejections } = await setUp({ pendingPerAddress: 2 })
    await end()
    const [third, fourth] = [arrive(4001), arrive(4002)]
    expect([second, third, fourth].map(({ destroyed }) => destroyed)).toEqual([true, false, false])
    expect(rejections).toEqual(['overloaded'])
  })

  test('the second one counts as proven', async () => {
    const { arrive, end, prove, second } = await setUp({ proven: 1 })
    prove(second)
    await end()
    expect(arrive(4001).destroyed).toBe(true)
  })

  test('the proof of the first one does not count for the second one', async () => {
    const { clock, end, prove, first, second } = await setUp()
    prove(first)
    await end()
    prove(first)
    await clock.advance(deadlineMs)
    expect(second.destroyed).toBe(true)
  })
})

test('a connection that is reset, and opened again from its port, has a deadline', async () => {
  const server = createServer()
  const { clock, accepted } = guard(server)
  const port = await listen(server, 0, '127.0.0.1')
  // On an address of its own, no other process has taken the port meanwhile.
  const from = { port, host: '127.0.0.1', localAddress: '127.0.0.9' }
  const first = connect(from)
  await until(() => accepted.length === 1)
  const { localPort = 0 } = first
  let isClosed = false
  accepted[0]?.once('close', () => (isClosed = true))
  first.resetAndDestroy()
  const second = connect({ ...from, localPort })
  closing.push(() => second.destroy())
  await until(() => accepted.length === 2 && isClosed)
  expect(accepted.map(({ remotePort, destroyed }) => [remotePort, destroyed])).toEqual([
    [localPort, true],
    [localPort, false],
  ])
  await clock.advance(deadlineMs)
  expect(accepted[1]?.destroyed).toBe(true)
})

test('a client that has finished its handshake has no deadline', async () => {
  const server = createTlsServer(createSelfSigned('test', Date.now()))
  const { clock, accepted, rejections } = guard(server, {}, 'handshake')
  const port = await listen(server, 0, '127.0.0.1')
  const silent = connect({ port, host: '127.0.0.1' }).on('error', () => {})
  const proven = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  closing.push(
    () => silent.destroy(),
    () => proven.destroy(),
  )
  await Promise.all([once(server, 'secureConnection'), until(() => accepted.length === 2)])
  await clock.advance(deadlineMs)
  const { localPort } = proven
  expect(accepted.filter(({ destroyed }) => !destroyed).map(({ remotePort }) => remotePort)).toEqual([localPort])
  expect(rejections).toEqual(['deadline'])
})

test('a client that sends more than the head of a request before it is authenticated is disconnected', async () => {
  const server = createServer()
  const { clock, accepted, rejections } = guard(server)
  server.on('connection', (socket) => socket.resume())
  const client = connect({ port: await listen(server, 0, '127.0.0.1'), host: '127.0.0.1' }).on('error', () => {})
  closing.push(() => client.destroy())
  client.write(Buffer.alloc(24 * 1024))
  await until(() => accepted[0]?.bytesRead === 24 * 1024)
  await clock.advance(250)
  expect(rejections).toEqual([])
  client.write('x')
  await until(() => accepted[0]?.bytesRead === 24 * 1024 + 1)
  await clock.advance(1)
  expect(accepted[0]?.destroyed).toBe(false)
  await clock.advance(249)
  expect(rejections).toEqual(['deadline'])
})

test('an address from which more was sent can open no other connection with TLS for a minute', async () => {
  const server = createTlsServer(createSelfSigned('test', Date.now()))
  const { clock, rejections } = guard(server)
  const port = await listen(server, 0, '127.0.0.1')
  // The rate of 127.0.0.1 itself is not limited.
  const dialFrom = (localAddress: string) => {
    const client = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {})
    closing.push(() => client.destroy())
    return client
  }
  const hostile = dialFrom('127.0.0.2')
  hostile.write(Buffer.alloc(24 * 1024 + 1))
  await once(hostile.resume(), 'close')
  const isRefused = async (address: string) => {
    const before = rejections.filter((reason) => reason === 'overloaded').length
    const client = dialFrom(address).resume()
    // Whoever is accepted gets an alert of TLS first.
    client.write(Buffer.alloc(100))
    await once(client, 'close')
    return rejections.filter((reason) => reason === 'overloaded').length > before
  }
  expect([await isRefused('127.0.0.2'), await isRefused('127.0.0.3')]).toEqual([true, false])
  await clock.advance(60_000)
  expect(await isRefused('127.0.0.2')).toBe(false)
})
