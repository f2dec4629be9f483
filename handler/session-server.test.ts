import type { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { type Duplex, duplexPair, Readable } from 'node:stream'
import { connect as connectPlain } from 'node:net'
import { connect, TLSSocket } from 'node:tls'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { systemClock, type Clock } from '../runtime/clock.ts'
import { InvalidLauncherResponse } from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import { sessionsPerVm } from '../runtime/session-api.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { dial } from '../test/records.ts'
import { until } from '../test/until.ts'
import { startSessionServer, type SessionServer } from './session-server.ts'
import { LauncherAbsent, LauncherRefusal, LauncherUnreachable } from './launcher.ts'
import type { LauncherSession } from './launcher-session.ts'

const podUID = '0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c11'
const otherPod = '0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c12'
const namespaces = new Map([
  [podUID, 'team'],
  ['0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c13', 'team'],
  ['0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c14', 'other'],
])

let server: SessionServer
const opened: Duplex[] = []
afterEach(async () => {
  for (const socket of opened.splice(0)) socket.destroy()
  await server.close()
})

/** A session server for launchers whose ends are in `launchers`; `ask` opens a session as the webhooks do. */
async function start(
  given: {
    readonly open?: () => Promise<LauncherSession>
    readonly mostSessions?: number
    readonly clock?: Clock
  } = {},
) {
  const launchers: Duplex[] = []
  const reviewed: string[] = []
  const asked: unknown[] = []
  const lines: { [key: string]: unknown }[] = []
  server = await startSessionServer({
    port: 0,
    host: '127.0.0.1',
    address: '127.0.0.1',
    accessOf: async (token) => {
      reviewed.push(token)
      return token === 'good' ? 'allowed' : token === 'busy' ? 'busy' : 'forbidden'
    },
    namespaceOf: (uid) => namespaces.get(uid),
    open: async (uid, target) => {
      asked.push([uid, target])
      if (given.open) return given.open()
      const [ours, theirs] = duplexPair()
      launchers.push(theirs)
      return { socket: ours, position: { epoch: '0123abcd', offset: 7 } }
    },
    log: createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } }),
    clock: given.clock ?? systemClock,
    ...(given.mostSessions === undefined ? {} : { mostSessions: given.mostSessions }),
  })
  const port = Number(server.published.address.split(':')[1])
  const ask = (path = `/pods/${podUID}/console`, headers: object = { authorization: 'Bearer good' }) =>
    new Promise<{ status: number; body?: string; socket?: Duplex; position?: unknown }>((resolve, reject) => {
      request({
        port,
        host: '127.0.0.1',
        path,
        rejectUnauthorized: false,
        agent: false,
        headers: { connection: 'Upgrade', upgrade: 'virtset', ...headers },
      })
        .on('upgrade', (response, socket) => {
          opened.push(socket)
          socket.on('error', () => {})
          resolve({ status: 101, socket, position: response.headers['virtset-position'] })
        })
        .on('response', (response) => {
          text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject)
        })
        .on('error', reject)
        .end()
    })
  return { ask, launchers, asked, reviewed, port, lines }
}

test('connects the webhooks with the launcher of a pod', async () => {
  const { ask, launchers, asked } = await start()
  const session = await ask(`/pods/${podUID}/console?tail=5`)
  expect(session).toMatchObject({ status: 101, position: '0123abcd.7' })
  expect(asked).toEqual([[podUID, { kind: 'console', tailBytes: 5, isFollowing: true }]])
  let [heard, typed] = ['', '']
  session.socket?.on('data', (chunk: Buffer) => (heard += chunk.toString()))
  launchers[0]?.on('data', (chunk: Buffer) => (typed += chunk.toString()))
  launchers[0]?.write('login: ')
  session.socket?.write('root\r')
  await until(() => heard === 'login: ' && typed === 'root\r')
  expect([heard, typed]).toEqual(['login: ', 'root\r'])
})

test('buffers what the webhooks send in chunks of its size, not in one for each record', async () => {
  const { launchers, port } = await start()
  const wire = dial(port)
  const client = connect({ socket: wire, rejectUnauthorized: false }).on('error', () => {})
  opened.push(client)
  const headers = 'Connection: Upgrade\r\nUpgrade: virtset\r\nAuthorization: Bearer good\r\nHost: a\r\n'
  client.write(`GET /pods/${podUID}/console HTTP/1.1\r\n${headers}\r\n`)
  await once(client, 'data')
  const push = vi.spyOn(Readable.prototype, 'push')
  onTestFinished(() => void vi.restoreAllMocks())
  await wire.sendEach(client, 'x'.repeat(900))
  let typed = ''
  launchers[0]?.on('data', (chunk: Buffer) => (typed += chunk.toString()))
  await until(() => typed.length === 900)
  const single = push.mock.contexts.filter((to, index) => {
    const [chunk] = push.mock.calls[index] ?? []
    return to instanceof TLSSocket && Buffer.isBuffer(chunk) && chunk.length === 1
  })
  expect(single.length).toBeLessThan(10)
})

test('publishes the digest of the certificate that it serves', async () => {
  const { port } = await start()
  const certificate = await new Promise<X509Certificate | undefined>((resolve, reject) => {
    const socket: TLSSocket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate())
      socket.destroy()
    }).on('error', reject)
  })
  expect(certificate?.fingerprint256).toBe(server.published.certificateSha256)
})

test.each([
  ['without a token', {}, undefined, 403, []],
  ['with another token', { authorization: 'Bearer bad' }, undefined, 403, ['bad']],
  ['while too many tokens are reviewed', { authorization: 'Bearer busy' }, undefined, 503, ['busy']],
  ['to a pod of another node', { authorization: 'Bearer bad' }, `/pods/${otherPod}/console`, 404, []],
  ['to an unknown path', { authorization: 'Bearer bad' }, `/pods/${podUID}/shell`, 404, []],
  ['with another protocol', { authorization: 'Bearer bad', upgrade: 'websocket' }, undefined, 404, []],
])('refuses a session %s, and reviews no token in vain', async (_, headers, path, status, expected) => {
  const { ask, asked, reviewed } = await start()
  expect((await ask(path, headers)).status).toBe(status)
  expect([asked, reviewed]).toEqual([[], expected])
})

test('refused clients that keep their connections do not exclude the webhooks', async () => {
  const { ask, port } = await start({ mostSessions: 1 })
  const isRefused = () =>
    new Promise((resolve, reject) => {
      const kept = connectPlain({ port, host: '127.0.0.1', allowHalfOpen: true })
      const socket = connect({ socket: kept, rejectUnauthorized: false })
      opened.push(socket, kept)
      socket.once('error', reject).once('data', resolve)
      socket.write(`GET /pods/${otherPod}/console HTTP/1.1\r\nHost: a\r\n`)
      socket.write('Connection: Upgrade\r\nUpgrade: virtset\r\nAuthorization: Bearer bad\r\n\r\n')
    })
  for (let count = 0; count < 66; count++) await isRefused()
  expect((await ask()).status).toBe(101)
})

/** Asks for a session as `text` says, on a connection that stays open until the handler closes it. */
async function askRaw(port: number, text: string) {
  const kept = connectPlain({ port, host: '127.0.0.1', allowHalfOpen: true })
  const socket = connect({ socket: kept, rejectUnauthorized: false })
  opened.push(socket, kept)
  await once(
    socket.on('error', () => {}),
    'secureConnect',
  )
  socket.write(text)
  return socket
}

const headOf = (uid: string, token: string) =>
  `GET /pods/${uid}/console HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: virtset\r\n` +
  `Authorization: Bearer ${token}\r\n\r\n`

test('closes the connection of a refused client that does not close it', async () => {
  const { port } = await start({ clock: fakeClock() })
  const socket = await askRaw(port, headOf(otherPod, 'bad'))
  const [refusal] = await once(socket, 'data')
  expect(String(refusal)).toContain('404 Refused')
  // Waits for every connection.
  await server.close()
})

test.each([
  ['with its request', 'x'],
  ['while the launcher is asked', ''],
])('disconnects a client that sends a byte %s', async (_, more) => {
  const opening = Promise.withResolvers<LauncherSession>()
  const { port, asked } = await start({ open: () => opening.promise })
  const socket = await askRaw(port, `${headOf(podUID, 'good')}${more}`)
  const received = text(socket).catch(() => '')
  await until(() => asked.length === 1)
  if (more === '') socket.write('x')
  expect(await received).toBe('')
  const [ours] = duplexPair()
  opening.resolve({ socket: ours })
  await until(() => ours.destroyed && server.sessions() === 0)
})

test.each([
  ['that has too many sessions', new LauncherRefusal('TooManySessions', 'has 16'), 429, 'has 16'],
  ['that has no console', new LauncherRefusal('NotReady', 'no console'), 409, 'no console'],
  ['that knows no sessions', new LauncherRefusal('NotFound', 'GET /console'), 409, 'version without sessions'],
  ['that does not listen', new LauncherAbsent('does not listen'), 409, 'does not listen'],
  ['that does not respond', new LauncherUnreachable('not within 5 s'), 502, 'not within 5 s'],
  ['that is hostile', new InvalidLauncherResponse('it does not send HTTP'), 502, 'does not send HTTP'],
  ['if the handler fails', new Error('EMFILE'), 503, 'see its log'],
])('reports a launcher %s', async (_, error, status, message) => {
  const { ask } = await start({ open: () => Promise.reject(error) })
  const refused = await ask()
  expect([refused.status, refused.body]).toEqual([status, expect.stringContaining(message)])
  expect(server.sessions()).toBe(0)
})

test('of the refusals of the launchers of a namespace, few are logged, and little of their text', async () => {
  const open = () => Promise.reject(new LauncherRefusal('NotReady', 'x'.repeat(1000)))
  const { ask, lines } = await start({ open })
  const [first, second, other] = [...namespaces.keys()].map((uid) => `/pods/${uid}/console`)
  for (let time = 0; time < 10; time++) for (const path of [first, second]) await ask(path)
  const refusals = () => lines.filter(({ msg }) => msg === 'a session was refused')
  expect(refusals()).toHaveLength(16)
  expect(refusals()[0]).toMatchObject({
    path: first,
    reason: 'NotReady',
    err: { type: 'LauncherRefusal', message: `${'x'.repeat(255)}…` },
  })
  expect(JSON.stringify(lines)).not.toContain('x'.repeat(256))
  await ask(other)
  expect(refusals()).toHaveLength(17)
})

test('a VM has at most its share of sessions', async () => {
  const { ask } = await start()
  for (let count = 0; count < sessionsPerVm.others; count++) expect((await ask()).status).toBe(101)
  expect((await ask()).status).toBe(429)
  opened[0]?.destroy()
  await until(() => server.sessions() < sessionsPerVm.others)
  expect((await ask()).status).toBe(101)
})

test('a namespace with fewer sessions takes a place from the one with the most', async () => {
  const { ask } = await start({ mostSessions: 3 })
  const [first, second, other] = [...namespaces.keys()].map((uid) => `/pods/${uid}/console`)
  for (const path of [first, second, second]) expect((await ask(path)).status).toBe(101)
  expect(await ask(first)).toMatchObject({
    status: 429,
    body: expect.stringContaining('no namespace has more of them'),
  })
  const closed = once(opened[2]!, 'close')
  expect((await ask(other)).status).toBe(101)
  await closed
  expect([server.sessions(), opened.map(({ destroyed }) => destroyed)]).toEqual([3, [false, false, true, false]])
})

test('sessions of a pod end when its VM is no longer on this node', async () => {
  const { ask, launchers } = await start()
  const session = await ask()
  const closed = new Promise((resolve) => session.socket?.once('close', resolve))
  server.endSessionsOf(podUID)
  await closed
  await until(() => launchers[0]?.readableEnded === true || launchers[0]?.destroyed === true || !server.sessions())
  expect(server.sessions()).toBe(0)
})

test('a session of a client that disconnects while the launcher is asked is closed', async () => {
  const opening = Promise.withResolvers<LauncherSession>()
  const { ask, asked } = await start({ open: () => opening.promise })
  const asking = ask()
  asking.catch(() => {})
  await until(() => asked.length === 1)
  server.endSessionsOf(podUID)
  const [ours] = duplexPair()
  opening.resolve({ socket: ours })
  await until(() => ours.destroyed)
  await expect(asking).rejects.toThrow('socket hang up')
})

test('a request that is not an upgrade is not found', async () => {
  const { port } = await start()
  const status = await new Promise((resolve, reject) => {
    request({ port, host: '127.0.0.1', path: `/pods/${podUID}/console`, rejectUnauthorized: false, agent: false })
      .on('response', (response) => resolve(response.resume().statusCode))
      .on('error', reject)
      .end()
  })
  expect(status).toBe(404)
})
