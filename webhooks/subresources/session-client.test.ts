import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpsServer } from 'node:https'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { afterEach, expect, test } from 'vitest'
import { startSessionServer, type SessionServer } from '../../handler/session-server.ts'
import { LauncherRefusal } from '../../handler/launcher.ts'
import type { LauncherSession } from '../../handler/launcher-session.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import { createSelfSigned } from '../../runtime/self-signed.ts'
import { fakeClock } from '../../test/fake-clock.ts'
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

test('does not read an endless refusal', async () => {
  const certificate = createSelfSigned('virtset-handler', Date.now())
  let sent = 0
  const hostile = createHttpsServer(certificate).on('upgrade', (_, socket: Duplex) => {
    socket.on('error', () => {}).write('HTTP/1.1 409 Refused\r\n\r\n')
    const flood = () => {
      do sent += 65_536
      while (socket.write('x'.repeat(65_536)))
    }
    socket.on('drain', flood)
    flood()
  })
  server = hostile.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { fingerprint256 } = new X509Certificate(certificate.cert)
  const published = { address: `127.0.0.1:${port}`, certificateSha256: fingerprint256 }
  await expect(client({ node: 'n1', endpoint: published, podUID, target })).rejects.toThrow('does not respond')
  // What the buffers of the sockets hold.
  expect(sent).toBeLessThan(32 * 1024 * 1024)
})

test('refuses an address that is not an IP address', async () => {
  const other = { address: 'example.org:443', certificateSha256: '' }
  await expect(client({ node: 'n1', endpoint: other, podUID, target })).rejects.toThrow('invalid address')
})
