import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { ClientRequest, IncomingMessage } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { startSessionServer, type SessionServer } from '../../handler/session-server.ts'
import { LauncherRefusal } from '../../handler/launcher.ts'
import type { LauncherSession } from '../../handler/launcher-session.ts'
import { systemClock } from '../../runtime/clock.ts'
import { listen } from '../../runtime/listen.ts'
import { createLogger } from '../../runtime/log.ts'
import { createSelfSigned } from '../../runtime/self-signed.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { keyUpdateCipher, keyUpdates } from '../../test/key-updates.ts'
import { wireOf, type Wire } from '../../test/records.ts'
import { until } from '../../test/until.ts'
import { createSessionClient } from './session-client.ts'

const podUID = '0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c11'
const target = { kind: 'console', tailBytes: 5, isFollowing: true } as const

let handler: SessionServer | undefined
let server: Server | undefined
afterEach(async () => {
  await handler?.close()
  server?.close()
  handler = server = undefined
})

/** The handler’s own session server. */
async function start(open?: () => Promise<LauncherSession>) {
  const launchers: Duplex[] = []
  const tokens: string[] = []
  handler = await startSessionServer({
    port: 0,
    host: '127.0.0.1',
    address: '127.0.0.1',
    accessOf: async (token) => {
      tokens.push(token)
      return 'allowed'
    },
    namespaceOf: () => 'default',
    open: async () => {
      if (open) return open()
      const [ours, theirs] = duplexPair()
      launchers.push(theirs)
      return { socket: ours, position: { epoch: '0123abcd', offset: 7 } }
    },
    log: createLogger({ process: 'test', level: 'silent' }),
    clock: systemClock,
  })
  return { launchers, tokens, published: handler.published }
}

const client = createSessionClient(async () => 'my-token', systemClock)

test('opens a session with the token, and the position of its first byte', async () => {
  const { launchers, tokens, published } = await start()
  const session = await client({ node: 'n1', endpoint: published, podUID, target })
  expect([session.position, tokens]).toEqual([{ epoch: '0123abcd', offset: 7 }, ['my-token']])
  let heard = ''
  session.socket.on('data', (chunk: Buffer) => (heard += chunk.toString()))
  launchers[0]?.write('login: ')
  await until(() => heard === 'login: ')
  session.socket.destroy()
})

test('sends nothing to a server with another certificate', async () => {
  const { tokens, published } = await start()
  const other = { ...published, certificateSha256: published.certificateSha256.replaceAll(/[0-9A-F]/g, '0') }
  await expect(client({ node: 'n1', endpoint: other, podUID, target })).rejects.toMatchObject({
    status: { code: 503, message: expect.stringContaining('is not the handler of node n1') },
  })
  expect(tokens).toEqual([])
})

test.each([
  ['TooManySessions', 429, 'TooManyRequests'],
  ['NotReady', 409, 'Conflict'],
] as const)('reports a refusal %s of the launcher as %d', async (reason, code, status) => {
  const { published } = await start(() => Promise.reject(new LauncherRefusal(reason, 'for this reason')))
  await expect(client({ node: 'n1', endpoint: published, podUID, target })).rejects.toMatchObject({
    status: { code, reason: status, message: 'the handler of node n1 refused the session: for this reason' },
  })
})

test('names node, address and a likely cause if the handler cannot be reached', async () => {
  const { published } = await start()
  await handler?.close()
  const { address } = published
  await expect(client({ node: 'n1', endpoint: published, podUID, target })).rejects.toMatchObject({
    status: {
      code: 503,
      message: expect.stringMatching(
        `handler of node n1 cannot be reached at ${address}: .*firewalls and network policies`,
      ),
    },
  })
})

test('gives up a server that accepts connections and stays silent', async () => {
  server = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const clock = fakeClock()
  const opening = createSessionClient(
    async () => '',
    clock,
  )({ node: 'n1', endpoint: { address: `127.0.0.1:${port}`, certificateSha256: '' }, podUID, target })
  opening.catch(() => {})
  await until(() => clock.pending() > 0)
  await clock.advance(5000)
  await expect(opening).rejects.toThrow('no connection within 5 s')
})

/** A process with the certificate of a handler, on a node under an attacker's control. */
async function startHostile(act: (socket: Socket) => void) {
  return listenAs((certificate) => createTlsServer(certificate, (socket) => act(socket.on('error', () => {}))))
}

/** The same, with the connection beneath TLS. */
async function startOnWire(act: (tls: TLSSocket, wire: Wire) => void) {
  return listenAs((certificate) =>
    createServer((socket) => {
      const wire = wireOf(socket)
      const options = { isServer: true, ...certificate, ciphers: keyUpdateCipher }
      act(
        new TLSSocket(wire, options).on('error', () => {}),
        wire,
      )
    }),
  )
}

async function listenAs(create: (certificate: ReturnType<typeof createSelfSigned>) => Server) {
  const certificate = createSelfSigned('virtset-handler', Date.now())
  server = create(certificate)
  const address = `127.0.0.1:${await listen(server, 0, '127.0.0.1')}`
  const { fingerprint256 } = new X509Certificate(certificate.cert)
  return { node: 'n1', endpoint: { address, certificateSha256: fingerprint256 }, podUID, target }
}

/** What Node has parsed of a response. */
function countParsed() {
  const emit = vi.spyOn(ClientRequest.prototype, 'emit')
  const push = vi.spyOn(IncomingMessage.prototype, 'push')
  onTestFinished(() => void vi.restoreAllMocks())
  return {
    interim: () => emit.mock.calls.filter(([event]) => event === 'information').length,
    chunks: () => push.mock.calls.length,
  }
}

const interim = 'HTTP/1.1 100 \r\n\r\n'
/** As many as fit into a piece, and the one that is cut. */
const mostParsed = 4096 / 6 + 1

test.each([
  ['interim responses', interim, 'an interim response'],
  ['a refusal of single bytes', `HTTP/1.1 409 Refused\r\nTransfer-Encoding: chunked\r\n\r\n`, 'does not respond'],
])('parses no more than a piece of %s without end', async (_, head, message) => {
  const parsed = countParsed()
  const piece = head === interim ? interim : '1\r\nx\r\n'
  const wanted = await startHostile((socket) =>
    socket.once('data', () => socket.end(head + piece.repeat((1024 * 1024) / piece.length))),
  )
  await expect(client(wanted)).rejects.toThrow(message)
  expect(parsed.interim()).toBeLessThan(mostParsed)
  expect(parsed.chunks()).toBeLessThan(mostParsed)
})

test('parses nothing of what arrives before the request', async () => {
  const parsed = countParsed()
  const written = Promise.withResolvers<void>()
  const wanted = await startHostile((socket) => socket.write(interim.repeat(1000), () => written.resolve()))
  const token = async () => {
    await written.promise
    // What is in the kernel was read after the next poll.
    for (let turn = 0; turn < 3; turn++) await setImmediate()
    return ''
  }
  await expect(createSessionClient(token, systemClock)(wanted)).rejects.toThrow('bytes before the request')
  expect(parsed.interim()).toBe(0)
})

test('buffers what a node sends in chunks of its size, not in one for each record', async () => {
  const wanted = await startOnWire((tls, wire) => {
    tls.once('data', () => {
      tls.write('HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: virtset\r\n\r\n')
      void wire.sendEach(tls, 'x'.repeat(900))
    })
  })
  const { socket } = await client(wanted)
  await until(() => socket.readableLength > 0)
  const chunks: number[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk.length))
  await until(() => chunks.reduce((sum, length) => sum + length, 0) === 900)
  expect(chunks.length).toBeLessThan(10)
  socket.destroy()
})

/** A node that sends messages of TLS which deliver nothing, on the session whose number it is told. */
async function startSilent() {
  const sending: ((count: number) => void)[] = []
  const wanted = await startOnWire((tls, wire) => {
    let secret = ''
    tls.on('keylog', (line: Buffer) => {
      if (line.toString().startsWith('SERVER_TRAFFIC_SECRET_0 ')) secret = line.toString()
    })
    tls.once('data', () => {
      tls.write('HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: virtset\r\n\r\n')
      // After two session tickets and the response.
      sending.push((count) => wire.write(keyUpdates(secret, 3, count)))
    })
  })
  return { wanted, send: (session: number, count: number) => sending[session]?.(count) }
}

test('disconnects all sessions of a node that sends messages of TLS which deliver nothing, and opens none', async () => {
  const { wanted, send } = await startSilent()
  const one = createSessionClient(async () => '', systemClock)
  const [first, second] = [await one(wanted), await one(wanted)]
  // By another spelling of its address, too.
  const other = await one({ ...wanted, node: 'n2' })
  const errors: string[] = []
  for (const { socket } of [first, second, other]) socket.on('error', ({ message }) => errors.push(message))
  send(0, 3000)
  await until(() => first.socket.destroyed && second.socket.destroyed)
  await until(() => errors.length === 2)
  expect(errors[0]).toMatch(/^it sent [23]\d{4} bytes that contained \d+$/)
  expect([errors[1], other.socket.destroyed]).toEqual([errors[0], false])
  const again = {
    ...wanted,
    endpoint: { ...wanted.endpoint, address: wanted.endpoint.address.replace('127.0.0.1', '[::ffff:127.0.0.1]') },
  }
  await expect(one(again)).rejects.toThrow(/^no session is opened with the handler of node n1 .* for a minute: it sent/)
  other.socket.destroy()
})

test('what a node has delivered before does not excuse such messages', async () => {
  const records = 128
  let secret = ''
  const wanted = await startOnWire((tls, wire) => {
    tls.on('keylog', (line: Buffer) => {
      if (line.toString().startsWith('SERVER_TRAFFIC_SECRET_0 ')) secret = line.toString()
    })
    tls.once('data', () => {
      tls.write('HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: virtset\r\n\r\n')
      tls.write(Buffer.alloc(records * 16_384), () => wire.write(keyUpdates(secret, 3 + records, 3000)))
    })
  })
  const { socket } = await createSessionClient(async () => '', systemClock)(wanted)
  let message = ''
  socket.on('error', (error) => (message = error.message)).resume()
  await until(() => socket.destroyed && message !== '')
  expect(message).toMatch(/^it sent 21\d{5} bytes that contained 20\d{5}$/)
})

test('opens sessions with such a node again after a minute', async () => {
  const { wanted, send } = await startSilent()
  let laterMs = 0
  const one = createSessionClient(async () => '', { ...systemClock, monotonic: () => performance.now() + laterMs })
  const { socket } = await one(wanted)
  socket.on('error', () => {})
  send(0, 3000)
  await until(() => socket.destroyed)
  laterMs = 59_000
  await expect(one(wanted)).rejects.toThrow('for a minute')
  laterMs = 61_000
  const again = await one(wanted)
  expect(again.socket.destroyed).toBe(false)
  again.socket.destroy()
})

test.each([
  ['a few messages that deliver nothing', (send: (session: number, count: number) => void) => send(0, 500), 0],
  ['each byte in a record of its own', (_: unknown, each: (text: string) => void) => each('x'.repeat(900)), 900],
  ['many such records at once', (_: unknown, each: (text: string) => void) => each('x'.repeat(2500)), 2500],
])('a session of a handler that sends %s remains open', async (_, act, length) => {
  let each: (text: string) => void = () => {}
  let send: (session: number, count: number) => void = () => {}
  const wanted = await startOnWire((tls, wire) => {
    let secret = ''
    tls.on('keylog', (line: Buffer) => {
      if (line.toString().startsWith('SERVER_TRAFFIC_SECRET_0 ')) secret = line.toString()
    })
    tls.once('data', () => tls.write('HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: virtset\r\n\r\n'))
    each = (text) => void wire.sendEach(tls, text)
    send = (_session, count) => wire.write(keyUpdates(secret, 3, count))
  })
  const { socket } = await createSessionClient(async () => '', systemClock)(wanted)
  let received = 0
  socket.on('data', (chunk: Buffer) => (received += chunk.length))
  act(send, each)
  await until(() => received === length)
  expect(socket.destroyed).toBe(false)
  socket.destroy()
})

test('refuses a node whose handshake has more bytes than a certificate, for a minute', async () => {
  const { key, cert } = createSelfSigned('virtset-handler', Date.now())
  server = createTlsServer({ key, cert: cert.repeat(40) })
  const address = `127.0.0.1:${await listen(server, 0, '127.0.0.1')}`
  const wanted = { node: 'n1', endpoint: { address, certificateSha256: '' }, podUID, target }
  const refusal = /^no session is opened with the handler of node n1 .*: its handshake has more than 8192 bytes/
  const one = createSessionClient(async () => '', systemClock)
  await expect(one(wanted)).rejects.toThrow(refusal)
  await expect(one(wanted)).rejects.toThrow(refusal)
})

test('does not read an endless refusal', async () => {
  let sent = 0
  const wanted = await startHostile((socket) =>
    socket.once('data', () => {
      socket.write('HTTP/1.1 409 Refused\r\n\r\n')
      const flood = () => {
        do sent += 65_536
        while (socket.write('x'.repeat(65_536)))
      }
      socket.on('drain', flood)
      flood()
    }),
  )
  await expect(client(wanted)).rejects.toThrow('does not respond')
  // What the buffers of the sockets hold.
  expect(sent).toBeLessThan(32 * 1024 * 1024)
})

test.each([
  ['empty lines', ''],
  ['zeros before the size of a chunk', 'HTTP/1.1 409 Refused\r\nTransfer-Encoding: chunked\r\n\r\n'],
])('does not read %s without end', async (_, head) => {
  const piece = (head === '' ? '\r\n' : '0').repeat(32_768)
  const wanted = await startHostile((socket) =>
    socket.once('data', () => {
      socket.write(head)
      const flood = () => {
        while (!socket.destroyed && socket.write(piece)) continue
      }
      socket.on('drain', flood)
      flood()
    }),
  )
  await expect(client(wanted)).rejects.toThrow('responds to a session with endless bytes')
})

test('refuses an address that is not an IP address', async () => {
  const other = { address: 'example.org:443\u001B[2J\nforged', certificateSha256: '' }
  await expect(client({ node: 'n1', endpoint: other, podUID, target })).rejects.toThrow(
    /invalid address for sessions: example\.org:443\uFFFD\[2J; forged$/,
  )
})
