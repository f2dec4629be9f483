import { once } from 'node:events'
import { connect, createServer, Socket, type Server } from 'node:net'
import { connect as connectTls, createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createArrivalDeadlines } from './arrival-deadline.ts'
import type { Clock } from './clock.ts'
import type { ConnectionLimits } from './connections.ts'
import { guardConnections, type ConnectionRejection, type GuardOptions } from './guard.ts'
import { listen } from './listen.ts'
import { MeteredSocket } from './metered-socket.ts'
import { createSelfSigned } from './self-signed.ts'

const limits: ConnectionLimits = { pending: 8, pendingPerAddress: 8, burst: 8, perSecond: 1, proven: 8 }
const deadlineMs = 750

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0).toReversed()) close()
})

function guard(
  server: Server,
  more: Partial<ConnectionLimits> = {},
  provenBy: 'handshake' | 'caller' = 'caller',
  given?: Clock,
  requests?: GuardOptions['requests'],
) {
  const clock = fakeClock()
  const rejections: ConnectionRejection[] = []
  const accepted: Socket[] = []
  const { prove, trust } = guardConnections(server, {
    ...(requests === undefined ? {} : { requests }),
    limits: { ...limits, ...more },
    provenBy,
    deadlines: createArrivalDeadlines(given ?? clock, deadlineMs / 250),
    clock: given ?? clock,
    ...(given === undefined ? {} : { times: { cpuMs: () => given.monotonic(), availableMs: () => given.monotonic() } }),
    rejected: (reason) => void rejections.push(reason),
  })
  server.on('connection', (socket: Socket) => void accepted.push(socket.on('error', () => {})))
  closing.push(() => {
    for (const socket of accepted) socket.destroy()
    server.close()
  })
  return { clock, rejections, accepted, prove, trust }
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
  const server = createServer((socket) => void socket.on('error', () => {}))
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

describe('of a client of TLS that is not authenticated,', () => {
  const certificate = createSelfSigned('test', Date.now())
  /** The bytes of a handshake that has no end. */
  const endless = Buffer.alloc(64 * 1024)
  for (let at = 0; at < endless.length; at += 1029) endless.set([22, 3, 1, 4, 0], at)
  endless.set([1, 0, 255, 255], 5)

  /** What the server reads from. */
  const metered: MeteredSocket[] = []
  afterEach(() => void metered.splice(0))

  const start = async (
    server: TlsServer,
    provenBy: 'handshake' | 'caller',
    clock?: Clock,
    more?: Partial<ConnectionLimits>,
    requests?: GuardOptions['requests'],
  ) => {
    const [accept] = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket | MeteredSocket) => {
      if (socket instanceof MeteredSocket) metered.push(socket)
      if (accept !== undefined) Reflect.apply(accept, server, [socket])
    })
    const guarded = guard(server, more, provenBy, clock, requests)
    return { ...guarded, port: await listen(server, 0, '127.0.0.1') }
  }

  test('the first 16 KiB of a handshake are processed', async () => {
    const { port, rejections } = await start(createTlsServer(certificate), 'handshake')
    const client = connect({ port, host: '127.0.0.1' }).on('error', () => {})
    client.write(endless)
    await once(client.resume(), 'close')
    expect([metered.map(({ delivered }) => delivered), rejections]).toEqual([[16 * 1024], ['malformed']])
  })

  test('no more than 24 KiB are processed before it is', async () => {
    const received: Buffer[] = []
    const server = createTlsServer(certificate, (socket) => socket.on('data', (chunk: Buffer) => received.push(chunk)))
    const { port, rejections } = await start(server, 'caller')
    const client = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {})
    client.write(Buffer.alloc(64 * 1024))
    await until(() => client.destroyed)
    const [length] = metered.map(({ delivered }) => delivered)
    expect(length).toBeGreaterThan(20 * 1024)
    expect(length).toBeLessThanOrEqual(24 * 1024)
    expect([received.length > 0, rejections]).toEqual([true, ['malformed']])
  })

  test.each(['handshake', 'caller'] as const)('everything is once it is, by the %s', async (provenBy) => {
    const server = createTlsServer(certificate)
    const { port, prove } = await start(server, provenBy)
    let received = 0
    server.on('secureConnection', (socket) => {
      if (provenBy === 'caller') prove(socket)
      socket.on('data', (chunk: Buffer) => (received += chunk.length))
    })
    const client = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {})
    closing.push(() => client.destroy())
    client.write(Buffer.alloc(1024 * 1024))
    await until(() => received === 1024 * 1024)
    expect(client.destroyed).toBe(false)
  })

  test('requests wait for their turn, if there is a budget for them, until the connection is trusted', async () => {
    const clock = fakeClock()
    let spentMs = 0
    const server = createTlsServer(certificate)
    const given = { ...clock, monotonic: () => clock.monotonic() + spentMs }
    const requests = { budget: { perSecond: 100, burst: 100 }, mostHeadBytes: 1024 * 1024 }
    const { port, trust } = await start(server, 'handshake', given, {}, requests)
    let received = 0
    const secured = once(server, 'secureConnection')
    const client = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {})
    closing.push(() => client.destroy())
    const [socket] = await secured
    socket.on('data', (chunk: Buffer) => {
      received += chunk.length
      spentMs += 200
    })
    client.write(Buffer.alloc(1024 * 1024))
    await until(() => metered[0]?.isHeld() === true)
    const before = received
    await clock.advance(5000)
    await until(() => received > before && metered[0]?.isHeld() === true)
    expect(received).toBeLessThan(256 * 1024)
    trust(socket)
    await until(() => received === 1024 * 1024)
    expect(client.destroyed).toBe(false)
  })

  test('the address is that of its connection', async () => {
    const server = createTlsServer(certificate)
    const { port } = await start(server, 'handshake')
    const secured = once(server, 'secureConnection')
    const client = connectTls({
      socket: connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' }),
      rejectUnauthorized: false,
    })
    closing.push(() => client.destroy())
    expect((await secured)[0].remoteAddress).toBe('127.0.0.2')
  })

  test('when more than 16 MiB wait, the address that has the most loses its last connections', async () => {
    const clock = fakeClock()
    let spentMs = 0
    const server = createTlsServer(certificate)
    const many = { pending: 1000, pendingPerAddress: 1000, burst: 1000 }
    const given = { ...clock, monotonic: () => clock.monotonic() + spentMs }
    const { rejections } = await start(server, 'handshake', given, many)
    const arrive = (remoteAddress: string) => {
      const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
      closing.push(() => socket.destroy())
      server.emit('connection', socket)
      return socket
    }
    const first = arrive('10.0.0.1')
    metered[0]?.once('data', () => (spentMs += 10_000))
    first.push(endless.subarray(0, 1024))
    await until(() => spentMs > 0)
    first.destroy()
    await once(first, 'close')
    const attackers = Array.from({ length: 250 }, () => arrive('10.0.0.2'))
    const others = Array.from({ length: 10 }, (_, index) => arrive(`10.0.1.${index}`))
    for (const socket of [...attackers, ...others]) socket.push(endless)
    await until(() => metered.slice(1).every((one) => one.isHeld() || one.transport.destroyed))
    const closed = (sockets: Socket[]) => [...sockets.keys()].filter((index) => sockets[index]?.destroyed)
    expect([closed(attackers), closed(others)]).toEqual([[246, 247, 248, 249], []])
    expect(rejections).toEqual(Array.from({ length: 4 }, () => 'overloaded'))
  })

  test('a stranger waits for its turn, without a deadline, and does not delay an address with a proven one', async () => {
    const clock = fakeClock()
    let spentMs = 0
    const monotonic = () => clock.monotonic() + spentMs
    const server = createTlsServer(certificate)
    const { port, rejections } = await start(server, 'handshake', { ...clock, monotonic })
    let secured = 0
    server.on('secureConnection', () => {
      secured++
      spentMs += 1000
    })
    const dialFrom = (localAddress: string) => {
      const client = connectTls({
        socket: connect({ port, host: '127.0.0.1', localAddress }),
        rejectUnauthorized: false,
      }).on('error', () => {})
      closing.push(() => client.destroy())
      return client
    }
    dialFrom('127.0.0.2')
    await until(() => secured === 1)
    dialFrom('127.0.0.3')
    await until(() => metered.length === 2 && metered[1]?.isHeld() === true)
    await clock.advance(2 * deadlineMs)
    expect([secured, rejections]).toEqual([1, []])
    dialFrom('127.0.0.2')
    await until(() => secured === 2)
    expect(metered.map((one) => one.isHeld())).toEqual([false, true, false])
    await clock.advance(10_000)
    await until(() => secured === 3)
  })
})
