import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'
import fastify from 'fastify'
import { Registry } from 'prom-client'
import { afterEach, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { ApiError } from '../../runtime/api-error.ts'
import { createLogger } from '../../runtime/log.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import type { Access } from '../admission/permission.ts'
import type { User } from '../admission/request.ts'
import { DoorRefusal, type DoorRequest } from './node-door.ts'
import { createSessionMetrics } from './session-metrics.ts'
import type { SessionRequest } from './session-request.ts'
import { createSessions, type SessionLimits } from './sessions.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const running = { phase: 'Running', nodeName: 'n1', podUID: 'p1' }
const door = { address: '10.0.0.1:8444', certificateSha256: 'AA' }

/** Sessions behind a plain HTTP server, at `/console/NAMESPACE/NAME` and `/log/NAMESPACE/NAME`. */
async function start(given: { readonly limits?: SessionLimits; readonly open?: () => Promise<never> } = {}) {
  const clock = fakeClock()
  const guests: Duplex[] = []
  const asked: DoorRequest[] = []
  const checked: Access[] = []
  const state: {
    status: object | undefined
    uid: string
    isAllowed: boolean
    door: typeof door | undefined
    /** The guest's side ends together with the response that begins the session. */
    hasEnded: boolean
    /** Delays responses about permissions, and the door. */
    waits: Promise<void> | undefined
  } = {
    waits: undefined,
    hasEnded: false,
    status: running,
    uid: 'u1',
    isAllowed: true,
    door,
  }
  const lines: { [key: string]: unknown }[] = []
  const registry = new Registry()
  const sessions = createSessions({
    // The part of the client that is used; each VM is as in `state`.
    kube: {
      get: async (_: unknown, { name }: { readonly name: string }): Promise<never> => {
        if (state.status === undefined) {
          throw new ApiError('GET', { code: 404, reason: 'NotFound', message: `vm "${name}" not found` })
        }
        return { metadata: { name, uid: state.uid, resourceVersion: '1' }, status: state.status } as never
      },
    },
    mayAccess: async (_, access) => {
      checked.push(access)
      await state.waits
      return state.isAllowed
    },
    doorOf: () => state.door,
    openDoor: async (wanted) => {
      asked.push(wanted)
      await state.waits
      if (given.open) return given.open()
      const [ours, theirs] = duplexPair()
      guests.push(theirs)
      if (state.hasEnded) {
        theirs.end()
        await once(ours.resume(), 'end')
      }
      return { socket: ours, position: { epoch: '0123abcd', offset: 7 } }
    },
    metrics: createSessionMetrics(registry),
    log: createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } }),
    clock,
    ...(given.limits === undefined ? {} : { limits: given.limits }),
  })
  const userOf = ({ headers }: IncomingMessage): User => ({ username: String(headers['x-user'] ?? 'jane'), groups: [] })
  const wantedOf = ({ url = '' }: IncomingMessage): SessionRequest => {
    const [, kind, namespace = '', name = ''] = url.split('/')
    const target = { kind: 'console', tailBytes: 5, isFollowing: true } as const
    return { kind: kind === 'log' ? 'log' : 'console', namespace, name, target }
  }
  const app = fastify()
  app.get('/*', (request, reply) =>
    sessions.respond(userOf(request.raw), wantedOf(request.raw), reply).catch((error: unknown) => {
      const { code, message } = error instanceof DoorRefusal ? error.status : { code: 500, message: String(error) }
      return reply.code(code).send(message)
    }),
  )
  app.server.on('upgrade', (request, socket, head) => {
    sessions.attach(userOf(request), wantedOf(request), request, socket, head).catch((error: unknown) => {
      const [code, message] =
        error instanceof DoorRefusal
          ? [error.status.code, error.message]
          : [500, error instanceof Error ? error.message : '']
      socket.end(`HTTP/1.1 ${code} Refused\r\nConnection: close\r\n\r\n${message}`)
    })
  })
  const connections: Socket[] = []
  app.server.on('connection', (socket) => connections.push(socket))
  await app.listen({ port: 0, host: '127.0.0.1' })
  closing.push(() => {
    sessions.end()
    for (const guest of guests) guest.destroy()
    app.server.closeAllConnections()
    return app.close()
  })
  const { port } = app.server.address() as AddressInfo
  const attach = (vm = 'default/web', user = 'jane', kind = 'console') => {
    const client = new WebSocket(`ws://127.0.0.1:${port}/${kind}/${vm}`, { headers: { 'x-user': user } })
    closing.push(() => client.terminate())
    client.on('error', () => {})
    return new Promise<{ code: number; body?: string; client: WebSocket; position?: unknown }>((resolve) => {
      let position: unknown
      client.on('upgrade', ({ headers }) => (position = headers['virtset-position']))
      client.on('open', () => resolve({ code: 101, client, position }))
      client.on('unexpected-response', (_, response) => {
        void text(response).then((body) => resolve({ code: response.statusCode ?? 0, body, client }))
      })
    })
  }
  const read = (path = 'log/default/web') =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const request = get(`http://127.0.0.1:${port}/${path}`, { agent: false }, resolve).on('error', reject)
      closing.push(() => request.destroy())
    })
  return { clock, guests, asked, checked, connections, state, lines, registry, sessions, attach, read }
}

const closeOf = async (client: WebSocket) => {
  const [code, reason] = await once(client, 'close')
  return [code, String(reason)]
}

test('a console is authorized, opened at the node of the VM, and carried', async () => {
  const { guests, asked, checked, attach } = await start()
  const { client, code, position } = await attach()
  expect([code, position]).toEqual([101, '0123abcd.7'])
  expect(checked).toEqual([expect.objectContaining({ verb: 'update', subresource: 'console', name: 'web' })])
  expect(asked).toMatchObject([{ node: 'n1', door, podUID: 'p1' }])
  let heard = ''
  client.on('message', (data: Buffer) => (heard += data.toString()))
  guests[0]?.write('login: ')
  await until(() => heard === 'login: ')
  expect(heard).toBe('login: ')
})

test.each<[string, Partial<Awaited<ReturnType<typeof start>>['state']>, number, string]>([
  ['without permission', { isAllowed: false }, 403, 'User "jane" cannot update resource "virtualmachines/console"'],
  ['to a VM that does not run', { status: { phase: 'Scheduled' } }, 409, 'its phase is Scheduled; it must be Running'],
  ['to a VM without a status', { status: {} }, 409, 'its phase is Pending'],
  ['to a VM that does not exist', { status: undefined }, 500, 'not found'],
  ['to a node without a door', { door: undefined }, 503, 'the handler of node n1 has not published'],
])('a console %s is refused before the upgrade', async (_, state, code, message) => {
  const test = await start()
  Object.assign(test.state, state)
  expect(await test.attach()).toMatchObject({ code, body: expect.stringContaining(message) })
  expect(test.asked).toEqual([])
})

test('a refusal of the handler reaches the user, and holds no place', async () => {
  const refusal = new DoorRefusal({ code: 429, reason: 'TooManyRequests', message: 'the VM already has 16 sessions' })
  const limits = { all: 1, perUser: 1, perNamespace: 1, perVm: 1 }
  const { attach } = await start({ limits, open: () => Promise.reject(refusal) })
  for (let count = 0; count < 3; count++) expect(await attach()).toMatchObject({ code: 429, body: refusal.message })
})

test.each([
  ['of a VM', { perVm: 1 }, 'default/web', 'jo', 'default/web', 'the VM has too many sessions'],
  ['of a namespace', { perNamespace: 1 }, 'default/web', 'jo', 'default/db', 'the namespace has too many sessions'],
  ['of a user', { perUser: 1 }, 'one/web', 'jane', 'other/web', 'the user has too many sessions'],
  ['of a replica', { all: 1 }, 'one/web', 'jo', 'other/web', 'this replica of the webhooks has too many sessions'],
])(
  'the sessions %s are limited, and a session that ends makes room',
  async (_, limit, first, user, second, message) => {
    const { lines, attach } = await start({ limits: { all: 9, perUser: 9, perNamespace: 9, perVm: 9, ...limit } })
    const { client } = await attach(first)
    expect(await attach(second, user)).toMatchObject({ code: 429, body: expect.stringContaining(message) })
    client.close()
    await until(() => lines.some(({ msg }) => msg === 'a session has ended'))
    expect((await attach(second, user)).code).toBe(101)
  },
)

test.each<[string, object]>([
  ['has succeeded', { status: { ...running, phase: 'Succeeded' } }],
  ['is gone', { status: undefined }],
  ['is another one', { uid: 'u2' }],
])('a session whose VM %s ends with 1000', async (_, state) => {
  const test = await start()
  const { client } = await test.attach()
  Object.assign(test.state, state)
  const closed = closeOf(client)
  test.guests[0]?.end()
  expect(await closed).toEqual([1000, 'the VM has ended'])
})

test('a session whose connection to the node is lost ends with 1012, and the client can connect again', async () => {
  const { clock, guests, attach } = await start()
  const { client } = await attach()
  const closed = closeOf(client)
  guests[0]?.end()
  await until(
    () => client.readyState !== WebSocket.OPEN,
    () => clock.advance(500),
  )
  expect(await closed).toEqual([1012, 'the connection to the node was lost; connect again'])
})

test('sessions end with 1012 when the webhooks stop', async () => {
  const { sessions, attach } = await start()
  const { client } = await attach()
  const closed = closeOf(client)
  sessions.end()
  expect(await closed).toEqual([1012, 'service restart; connect again'])
})

test('a session ends within a minute after its permission was revoked', async () => {
  const { clock, state, attach } = await start()
  const { client } = await attach()
  const closed = closeOf(client)
  state.isAllowed = false
  let passedMs = 0
  for (; client.readyState === WebSocket.OPEN && passedMs < 60_000; passedMs += 5000) {
    await clock.advance(5000)
    // Not to miss a pong, which arrives through a real socket.
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  expect(passedMs).toBeLessThan(60_000)
  expect(await closed).toEqual([1008, 'the permission for this session was revoked'])
})

test('a log is a plain response that begins with a position and ends with the guest', async () => {
  const { clock, checked, guests, read } = await start()
  const opening = read()
  await until(() => guests.length === 1)
  guests[0]?.write('booting\n')
  const response = await opening
  expect(response.headers).toMatchObject({
    'content-type': 'text/plain; charset=utf-8',
    'virtset-position': '0123abcd.7',
    'x-content-type-options': 'nosniff',
  })
  guests[0]?.end('off\n')
  const [all] = await Promise.all([
    text(response),
    until(
      () => response.complete,
      () => clock.advance(10),
    ),
  ])
  expect(all).toBe('booting\noff\n')
  expect(checked).toMatchObject([{ verb: 'get', subresource: 'log' }])
})

test('a session that has ended before it was connected ends', async () => {
  const { clock, state, attach, read } = await start()
  state.hasEnded = true
  expect(await text(await read())).toBe('')
  const { client } = await attach()
  state.status = undefined
  const closed = closeOf(client)
  await until(
    () => client.readyState !== WebSocket.OPEN,
    () => clock.advance(500),
  )
  expect(await closed).toEqual([1000, 'the VM has ended'])
})

test('a log whose client leaves before the guest is connected holds no place', async () => {
  const { state, asked, checked, connections, read, attach } = await start({
    limits: { all: 9, perUser: 9, perNamespace: 9, perVm: 1 },
  })
  const opening = Promise.withResolvers<void>()
  state.waits = opening.promise
  read().catch(() => {})
  await until(() => checked.length === 1)
  const [connection] = connections
  connection?.destroy()
  await until(() => connection?.closed)
  opening.resolve()
  await until(() => asked.length === 1)
  state.waits = undefined
  const codes: number[] = []
  await until(async () => {
    codes.push((await attach()).code)
    return codes.at(-1) !== 429
  })
  expect(codes.at(-1)).toBe(101)
})

test('a permission is not reviewed again after its session has ended', async () => {
  const { state, checked, clock, attach, lines } = await start()
  const { client } = await attach()
  const review = Promise.withResolvers<void>()
  state.waits = review.promise
  await clock.advance(30_000)
  expect(checked.length).toBe(2)
  client.terminate()
  await until(() => lines.some(({ msg }) => msg === 'a session has ended'))
  review.resolve()
  await clock.advance(60_000)
  expect(checked.length).toBe(2)
})

test('a client of a log that reads nothing is disconnected after a minute', async () => {
  const { clock, guests, lines, read } = await start()
  const opening = read()
  await until(() => guests.length === 1)
  const guest = guests[0]
  guest?.write('x'.repeat(8192))
  const response = await opening
  response.pause()
  let isOver = false
  guest?.on('close', () => (isOver = true)).on('error', () => {})
  const more = () => {
    for (let count = 0; count < 400 && guest?.write(Buffer.alloc(65_536)) === true; count++) continue
  }
  guest?.on('drain', more)
  more()
  await until(
    () => isOver || lines.some(({ msg }) => msg === 'a session has ended'),
    () => clock.advance(10_000),
  )
  expect(lines.at(-1)).toMatchObject({ msg: 'a session has ended', kind: 'log' })
})

test('a console requires a WebSocket, and a log must not be one', async () => {
  const { read, attach, asked } = await start()
  expect((await read('console/default/web')).statusCode).toBe(400)
  expect((await attach('default/web', 'jane', 'log')).code).toBe(400)
  expect(asked).toEqual([])
})

test('sessions are logged with their user, and counted', async () => {
  const { guests, lines, registry, state, attach } = await start()
  const { client } = await attach()
  guests[0]?.write('12345')
  await once(client, 'message')
  client.close()
  await until(() => lines.some(({ msg }) => msg === 'a session has ended'))
  state.isAllowed = false
  await attach()
  expect(lines).toMatchObject([
    { msg: 'a session was opened', kind: 'console', namespace: 'default', name: 'web', uid: 'u1', user: 'jane' },
    { msg: 'a session has ended', user: 'jane', toGuest: 0, fromGuest: 5, code: 1005 },
    { msg: 'a session was refused', user: 'jane', code: 403 },
  ])
  const metrics = await registry.metrics()
  expect(metrics).toContain('virtset_sessions{kind="console"} 0')
  expect(metrics).toContain('virtset_sessions_total{kind="console",code="101"} 1')
  expect(metrics).toContain('virtset_sessions_total{kind="console",code="403"} 1')
  expect(metrics).toContain('virtset_session_bytes_total{kind="console",direction="from-guest"} 5')
})
