import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type Duplex, duplexPair, PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import fastify from 'fastify'
import { Registry } from 'prom-client'
import { afterEach, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { ApiError } from '../../runtime/api-error.ts'
import { refuseEarlyBytes } from '../../runtime/early-bytes.ts'
import { createLogger } from '../../runtime/log.ts'
import { parserOf } from '../../runtime/partial-json.ts'
import { maxMetricsBytes, maxScreenshotBytes } from '../../runtime/session-api.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import type { Access } from '../admission/permission.ts'
import type { User } from '../admission/request.ts'
import { userTenant, type Requester } from '../tenant-requests.ts'
import { SessionRefusal, type EndpointRequest, type EndpointSession } from './session-client.ts'
import { createSessionMetrics } from './session-metrics.ts'
import type { SessionRequest } from './session-request.ts'
import type { SessionLimits } from './session-places.ts'
import { createSessions } from './sessions.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const running = { phase: 'Running', nodeName: 'n1', podUID: 'p1' }
const endpoint = { address: '10.0.0.1:8444', certificateSha256: 'AA' }

const consoleTarget = { kind: 'console', tailBytes: 5, isFollowing: true } as const
const kinds: { readonly [kind: string]: Pick<SessionRequest, 'kind' | 'target'> } = {
  console: { kind: 'console', target: consoleTarget },
  log: { kind: 'log', target: consoleTarget },
  vnc: { kind: 'vnc', target: { kind: 'vnc' } },
  portforward: { kind: 'portforward', target: { kind: 'tcp', port: 22 } },
  screenshot: { kind: 'screenshot', target: { kind: 'screenshot' } },
  metrics: { kind: 'metrics', target: { kind: 'metrics' } },
}

/** What users add to VMs and configs. */
const theirs = 'of its user'

/** Sessions behind a plain HTTP server, at `/KIND/NAMESPACE/NAME`; followed by `/config`, of the VM of a config. */
async function start(given: { readonly limits?: SessionLimits; readonly open?: () => Promise<EndpointSession> } = {}) {
  const clock = fakeClock()
  const guests: Duplex[] = []
  const asked: EndpointRequest[] = []
  const checked: Access[] = []
  const requesters: Requester[] = []
  const state: {
    status: object | undefined
    uid: string
    /** Of the config that controls the VM. */
    ownerUid: string
    isListening: boolean
    isAllowed: boolean
    endpoint: typeof endpoint | undefined
    /** The guest's side ends together with the response that begins the session. */
    hasEnded: boolean
    /** Delays responses about permissions, and opening. */
    waits: Promise<void> | undefined
    /** What was read of the VM and its config. */
    read: unknown[]
  } = {
    read: [],
    waits: undefined,
    hasEnded: false,
    status: running,
    uid: 'u1',
    ownerUid: 'c1',
    isListening: true,
    isAllowed: true,
    endpoint,
  }
  const lines: { [key: string]: unknown }[] = []
  const registry = new Registry()
  const sessions = createSessions({
    // The part of the client that is used; each VM is as in `state`.
    kube: {
      get: async ({ kind, read }, { name }): Promise<never> => {
        const namespace = 'default'
        const found = (object: object): never => {
          const parsed = parserOf(read)(Buffer.from(JSON.stringify({ ...object, spec: { text: theirs } })))
          state.read.push(parsed)
          return parsed as never
        }
        const added = { labels: { theirs }, annotations: { theirs }, finalizers: [theirs] }
        if (kind === 'VirtualMachineConfig') return found({ metadata: { name, namespace, uid: 'c1', ...added } })
        if (state.status === undefined) {
          throw new ApiError('GET', { code: 404, reason: 'NotFound', message: `vm "${name}" not found` })
        }
        const owner = {
          apiVersion: 'virtset.io/v1alpha1',
          kind: 'VirtualMachineConfig',
          name,
          uid: state.ownerUid,
          controller: true,
        }
        const metadata = { name, namespace, uid: state.uid, resourceVersion: '1', ownerReferences: [owner], ...added }
        return found({ metadata, status: { ...state.status, domain: { title: theirs } } })
      },
    },
    mayAccess: async (_, access, requester) => {
      checked.push(access)
      requesters.push(requester)
      await state.waits
      return state.isAllowed
    },
    endpointOf: () => state.endpoint,
    openAtNode: async (wanted) => {
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
    isReachable: async () => state.isListening,
    metrics: createSessionMetrics(registry),
    log: createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } }),
    clock,
    ...(given.limits === undefined ? {} : { limits: given.limits }),
  })
  const userOf = ({ headers }: IncomingMessage): User => ({ username: String(headers['x-user'] ?? 'jane'), groups: [] })
  const wantedOf = ({ url = '' }: IncomingMessage): SessionRequest => {
    const [, kind = '', namespace = '', name = '', config] = url.split('/')
    const resource = config === undefined ? 'virtualmachines' : 'virtualmachineconfigs'
    return { ...kinds[kind]!, resource, namespace, name }
  }
  const app = fastify()
  app.get('/*', (request, reply) =>
    sessions.respond(userOf(request.raw), wantedOf(request.raw), reply).catch((error: unknown) => {
      const { code, message } = error instanceof SessionRefusal ? error.status : { code: 500, message: String(error) }
      return reply.code(code).send(message)
    }),
  )
  app.server.on('upgrade', (request, socket, head) => {
    sessions
      .attach(userOf(request), wantedOf(request), request, socket, refuseEarlyBytes(socket, head))
      .catch((error: unknown) => {
        const [code, message] =
          error instanceof SessionRefusal
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
    const headers = { 'x-user': user, 'audit-id': `audit-of-${user}` }
    const client = new WebSocket(`ws://127.0.0.1:${port}/${kind}/${vm}`, { headers })
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
  return { clock, guests, asked, checked, requesters, connections, state, lines, registry, sessions, attach, read }
}

const perVm = (most: number) => ({ ports: most, others: most })

const closeOf = async (client: WebSocket) => {
  const [code, reason] = await once(client, 'close')
  return [code, String(reason)]
}

test('a console is authorized, opened at the node of the VM, and carried', async () => {
  const { guests, asked, checked, attach } = await start()
  const { client, code, position } = await attach()
  expect([code, position]).toEqual([101, '0123abcd.7'])
  expect(checked).toEqual([expect.objectContaining({ verb: 'update', subresource: 'console', name: 'web' })])
  expect(asked).toMatchObject([{ node: 'n1', endpoint, podUID: 'p1' }])
  let heard = ''
  client.on('message', (data: Buffer) => (heard += data.toString()))
  guests[0]?.write('login: ')
  await until(() => heard === 'login: ')
  expect(heard).toBe('login: ')
})

test('what a session waits for counts for its user, and ends when its client disconnects', async () => {
  const { requesters, state, asked, connections, lines, read } = await start()
  const { promise, resolve } = Promise.withResolvers<void>()
  state.waits = promise
  void read().catch(() => {})
  await until(() => requesters.length === 1)
  expect(requesters[0]).toEqual({ tenant: userTenant({ username: 'jane', groups: [] }), signal: expect.anything() })
  expect(requesters[0]?.signal?.aborted).toBe(false)
  connections[0]?.destroy()
  await until(() => requesters[0]?.signal?.aborted === true)
  resolve()
  await until(() => lines.some(({ msg }) => msg === 'a session was refused'))
  expect([asked, requesters[0]?.signal?.reason]).toEqual([[], expect.any(SessionRefusal)])
})

test.each<[string, Partial<Awaited<ReturnType<typeof start>>['state']>, number, string]>([
  ['without permission', { isAllowed: false }, 403, 'User "jane" cannot update resource "virtualmachines/console"'],
  ['to a VM that does not run', { status: { phase: 'Scheduled' } }, 409, 'its phase is Scheduled; it must be Running'],
  ['to a VM without a status', { status: {} }, 409, 'its phase is Pending'],
  ['to a VM that does not exist', { status: undefined }, 500, 'not found'],
  ['to a node without a session endpoint', { endpoint: undefined }, 503, 'the handler of node n1 has not published'],
])('a console %s is refused before the upgrade', async (_, state, code, message) => {
  const test = await start()
  Object.assign(test.state, state)
  expect(await test.attach()).toMatchObject({ code, body: expect.stringContaining(message) })
  expect(test.asked).toEqual([])
})

test('a refusal of the handler reaches the user, and holds no place', async () => {
  const refusal = new SessionRefusal({
    code: 429,
    reason: 'TooManyRequests',
    message: 'the VM already has 16 sessions',
  })
  const limits = { all: 1, perUser: 1, perNamespace: 1, perMember: 9, perVm: perVm(1) }
  const { attach } = await start({ limits, open: () => Promise.reject(refusal) })
  for (let count = 0; count < 3; count++) expect(await attach()).toMatchObject({ code: 429, body: refusal.message })
})

test.each([
  ['of a VM', { perVm: perVm(1) }, 'default/web', 'jo', 'default/web', 'the VM has too many sessions'],
  ['of a namespace', { perNamespace: 1 }, 'default/web', 'jo', 'default/db', 'the namespace has too many sessions'],
  [
    'of a user in a namespace',
    { perMember: 1 },
    'one/web',
    'jane',
    'one/db',
    'the user has too many sessions in the namespace',
  ],
  ['of a user', { perUser: 1 }, 'one/web', 'jane', 'other/web', 'the user has too many sessions'],
  ['of a replica', { all: 1 }, 'one/web', 'jo', 'other/web', 'this replica of the webhooks has too many sessions'],
])(
  'the sessions %s are limited, and a session that ends makes room',
  async (_, limit, first, user, second, message) => {
    const { lines, attach } = await start({
      limits: { all: 9, perUser: 9, perNamespace: 9, perMember: 9, perVm: perVm(9), ...limit },
    })
    const { client } = await attach(first)
    expect(await attach(second, user)).toMatchObject({ code: 429, body: expect.stringContaining(message) })
    client.close()
    await until(() => lines.some(({ msg }) => msg === 'a session has ended'))
    expect((await attach(second, user)).code).toBe(101)
  },
)

test('a namespace with fewer sessions takes the place of the latest session of another one', async () => {
  const { attach } = await start({ limits: { all: 2, perUser: 9, perNamespace: 9, perMember: 9, perVm: perVm(9) } })
  const first = await attach('one/web')
  const latest = await attach('one/web')
  expect(await attach('one/web')).toMatchObject({ code: 429, body: expect.stringContaining('this replica') })
  const closed = closeOf(latest.client)
  expect((await attach('other/web')).code).toBe(101)
  expect(await closed).toEqual([1013, 'another namespace needed the place of this session; try again'])
  expect(first.client.readyState).toBe(WebSocket.OPEN)
})

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
    // Not to miss a pong, which arrives through a real socket, in several turns of the event loop.
    await new Promise((resolve) => setTimeout(resolve, 10))
    for (let turns = 0; turns < 10; turns++) await settle()
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
    limits: { all: 9, perUser: 9, perNamespace: 9, perMember: 9, perVm: perVm(1) },
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

/** A log of which the client reads nothing, although the guest prints. */
async function unreadLog() {
  const started = await start()
  const { guests, lines, read } = started
  const opening = read()
  await until(() => guests.length === 1)
  const guest = guests[0]
  guest?.write('x'.repeat(8192))
  const response = await opening
  response.pause()
  guest?.on('error', () => {})
  let drained = 0
  const more = () => {
    drained++
    for (let count = 0; count < 400 && guest?.write(Buffer.alloc(65_536)) === true; count++) continue
  }
  guest?.on('drain', more)
  more()
  // Until the buffers on the way are full.
  for (let before = 0; before < drained; await sleep(100)) before = drained
  return { ...started, guest, response, isOver: () => lines.some(({ msg }) => msg === 'a session has ended') }
}

test('a client of a log that reads nothing is disconnected after a minute', async () => {
  const { clock, guest, lines, isOver } = await unreadLog()
  let isClosed = false
  guest?.on('close', () => (isClosed = true))
  await until(
    () => isClosed || isOver(),
    () => clock.advance(10_000),
  )
  expect(lines.at(-1)).toMatchObject({ msg: 'a session has ended', kind: 'log' })
})

test('nothing waits for a log that has ended, or whose client has left without reading it', async () => {
  const ended = await start()
  ended.state.hasEnded = true
  await text(await ended.read())
  const left = await unreadLog()
  left.response.destroy()
  for (const { clock, lines } of [ended, left]) {
    await until(() => lines.some(({ msg }) => msg === 'a session has ended'))
    await settle()
    expect(clock.pending()).toBe(0)
  }
})

test('a client of a log that reads nothing does not delay the end of the sessions', async () => {
  const { lines, sessions, isOver } = await unreadLog()
  sessions.end()
  await until(isOver)
  expect(lines.at(-1)).toMatchObject({ kind: 'log', code: 1012, reason: 'service restart; connect again' })
})

test('a log that the webhooks cut off is not complete', async () => {
  const { guests, sessions, read } = await start()
  const response = await read()
  await until(() => guests.length === 1)
  guests[0]?.write('a part')
  await once(response, 'readable')
  sessions.end()
  await expect(text(response)).rejects.toThrow('aborted')
})

test.each([
  ['ended', true, 'all of it'],
  ['stopped with its handler', false, 'aborted'],
])('a log of an earlier launcher that has %s is complete: %j', async (_, isListening, expected) => {
  const { clock, guests, state, read } = await start()
  const response = await read()
  await until(() => guests.length === 1)
  state.isListening = isListening
  guests[0]?.end('all of it')
  const received = text(response).catch((error: Error) => error.message)
  await until(
    () => response.complete || response.destroyed,
    () => clock.advance(500),
  )
  expect([response.complete, await received]).toEqual([isListening, expected])
})

test.each<[string, readonly number[], boolean]>([
  ['its end', [0x61, 0xff, 0xff, 0x62, 0xff, 0x00], true],
  ['nothing: its launcher was killed', [0x61, 0xff, 0xff, 0x62], false],
  ['a half of its end', [0x61, 0xff, 0xff, 0x62, 0xff], false],
])('a log that marks %s is complete: %j', async (_, sent, isComplete) => {
  const [ours, theirs] = duplexPair()
  const { clock, read } = await start({ open: async () => ({ socket: ours, isEndMarked: true }) })
  const response = await read()
  const received: Buffer[] = []
  response.on('data', (chunk: Buffer) => received.push(chunk)).on('error', () => {})
  for (const byte of sent) {
    theirs.write(Buffer.from([byte]))
    await clock.advance(10)
  }
  theirs.end()
  await until(
    () => response.complete || response.destroyed,
    () => clock.advance(500),
  )
  expect([response.complete, Buffer.concat(received)]).toEqual([isComplete, Buffer.from([0x61, 0xff, 0x62])])
})

test.each(['log', 'screenshot'])('a %s whose connection to the node breaks is not complete', async (kind) => {
  const [ours, theirs] = duplexPair()
  const { read } = await start({ open: async () => ({ socket: ours }) })
  const response = await read(`${kind}/default/web`)
  theirs.write('a part')
  await once(response, 'readable')
  ours.destroy(new Error('ECONNRESET'))
  await expect(text(response)).rejects.toThrow('aborted')
})

test.each([
  ['vnc', 'vnc', { kind: 'vnc' }],
  ['portforward', 'portforward', { kind: 'tcp', port: 22 }],
])('a session of kind %s requires update of it, and reaches its target', async (kind, subresource, target) => {
  const { guests, asked, checked, attach } = await start()
  const { client } = await attach('default/web', 'jane', kind)
  expect(checked).toEqual([expect.objectContaining({ verb: 'update', subresource, resource: 'virtualmachines' })])
  expect(asked).toMatchObject([{ target }])
  client.send('to the guest')
  await until(() => guests[0]?.readableLength === 12)
})

test('connections to ports count apart from the other sessions of a VM', async () => {
  const { attach } = await start({
    limits: { all: 9, perUser: 9, perNamespace: 9, perMember: 9, perVm: { ports: 1, others: 1 } },
  })
  const kinds = ['portforward', 'vnc', 'portforward', 'console']
  const codes: number[] = []
  for (const kind of kinds) codes.push((await attach('default/web', 'jane', kind)).code)
  expect(codes).toEqual([101, 101, 429, 429])
})

test.each([
  ['1000 if the guest closes it', true, [1000, 'the connection was closed']],
  ['1012 if the handler stops', false, [1012, 'the connection to the node was lost; connect again']],
])('a connection to a port ends with %s', async (_, isListening, expected) => {
  const { guests, state, attach } = await start()
  const { client } = await attach('default/web', 'jane', 'portforward')
  state.isListening = isListening
  const closed = closeOf(client)
  guests[0]?.end()
  expect(await closed).toEqual(expected)
})

test('a session with the VM of a config is authorized for the config', async () => {
  const { checked, asked, attach } = await start()
  expect((await attach('default/web/config')).code).toBe(101)
  expect(checked).toMatchObject([{ resource: 'virtualmachineconfigs', subresource: 'console', name: 'web' }])
  expect(asked).toMatchObject([{ podUID: 'p1' }])
})

test('of a VM and its config, nothing is read that users add', async () => {
  const { state, attach } = await start()
  await attach('default/web/config')
  expect([state.read.length, JSON.stringify(state.read).includes(theirs)]).toEqual([2, false])
})

test('a permission for a config does not reach a VM that another owner controls', async () => {
  const { asked, state, attach } = await start()
  state.ownerUid = 'c0'
  expect(await attach('default/web/config')).toMatchObject({
    code: 409,
    body: expect.stringContaining('VirtualMachineConfig "web" in the namespace "default" has no VM'),
  })
  expect(asked).toEqual([])
})

test('a screenshot is a PNG without a position, and has a limit', async () => {
  const { clock, checked, guests, registry, read } = await start()
  const take = async () => {
    const opening = read('screenshot/default/web')
    const count = guests.length
    await until(() => guests.length > count)
    return { opening, guest: guests.at(-1)! }
  }
  const first = await take()
  first.guest.end('PNG')
  const response = await first.opening
  expect(response.headers).toMatchObject({ 'content-type': 'image/png', 'x-content-type-options': 'nosniff' })
  const advance = (isDone: () => boolean) => until(isDone, () => clock.advance(10))
  const [picture] = await Promise.all([text(response), advance(() => response.complete)])
  expect(picture).toBe('PNG')
  expect(checked).toMatchObject([{ verb: 'get', subresource: 'screenshot' }])
  expect(await registry.metrics()).toContain('virtset_sessions_total{kind="screenshot",code="200"} 1')

  const second = await take()
  second.guest.on('error', () => {}).write(Buffer.alloc(maxScreenshotBytes + 1))
  const endless = await second.opening
  endless.on('error', () => {}).resume()
  await advance(() => endless.destroyed)
  expect(endless.complete).toBe(false)
})

test('a request that was refused while its session opened leaves no place and no connection', async () => {
  const { sessions, guests } = await start({
    limits: { all: 1, perUser: 9, perNamespace: 9, perMember: 9, perVm: perVm(9) },
  })
  const wanted = { ...kinds['screenshot']!, resource: 'virtualmachines' as const, namespace: 'default', name: 'web' }
  const refused = async () => {
    const raw = Object.assign(new PassThrough(), { headersSent: true, writeHead: () => raw, flushHeaders() {} })
    const reply = { raw, request: { raw: { headers: {} } }, hijack() {} }
    await sessions.respond({ username: 'jane', groups: [] }, wanted, reply as never)
  }
  await refused()
  await refused()
  await Promise.all(guests.map((guest) => text(guest)))
  expect(guests).toHaveLength(2)
})

test('metrics are JSON, have a limit, and are counted, but not logged', async () => {
  const { clock, checked, guests, lines, registry, read } = await start()
  const take = async (bytes: string) => {
    const opening = read('metrics/default/web')
    const count = guests.length
    await until(() => guests.length > count)
    guests
      .at(-1)
      ?.on('error', () => {})
      .end(bytes)
    let isDone = false
    const done = opening.finally(() => (isDone = true))
    const [response] = await Promise.all([
      done,
      until(
        () => isDone,
        () => clock.advance(1),
      ),
    ])
    const body = await text(response)
    return { code: response.statusCode, type: response.headers['content-type'], body }
  }
  const used = JSON.stringify({
    kind: 'VirtualMachineMetrics',
    apiVersion: 'subresources.virtset.io/v1alpha1',
    time: '2026-11-25T20:15:04.117Z',
    cpu: { usageSeconds: 1, count: 1 },
    memory: { totalBytes: 2, residentBytes: 3 },
    disks: [],
    network: [],
  })
  const json = 'application/json; charset=utf-8'
  expect(await take(used)).toEqual({ code: 200, type: json, body: used })
  expect(checked).toMatchObject([{ verb: 'get', subresource: 'metrics' }])
  expect(await take(used.replace('{', '{"\u001b[2J":1,'))).toMatchObject({ code: 502 })
  expect(await take(used.replace('{', '{"secret":1,'))).toEqual({ code: 200, type: json, body: used })
  const none = { code: 502, body: 'the launcher of the VM did not send metrics' }
  for (const body of ['', '\u001b]0;owned\u0007', '{}', used + ' '.repeat(maxMetricsBytes)]) {
    expect(await take(body)).toMatchObject(none)
  }
  expect(await registry.metrics()).toContain('virtset_sessions_total{kind="metrics",code="200"} 7')
  expect(lines).toEqual([])
})

test.each<[string, number, readonly [number, string]]>([
  ['metrics', 5000, [502, 'the launcher of the VM did not send metrics']],
  ['screenshot', 30_000, [200, 'aborted']],
])('a launcher that begins to send %s and never ends is given up after %i ms', async (kind, totalMs, expected) => {
  const { clock, guests, registry, read } = await start()
  const opening = read(`${kind}/default/web`)
  await until(() => guests.length === 1)
  guests[0]?.on('error', () => {}).write('{')
  const isOpen = async () => (await registry.metrics()).includes(`virtset_sessions{kind="${kind}"} 1`)
  await vi.waitFor(async () => expect(await isOpen()).toBe(true))
  await clock.advance(totalMs - 1)
  expect(await isOpen()).toBe(true)
  await clock.advance(1)
  const response = await opening
  const body = await text(response).catch(({ message }: Error) => message)
  expect([response.statusCode, body]).toEqual([expected[0], expect.stringContaining(expected[1])])
  await vi.waitFor(async () => expect(await isOpen()).toBe(false))
})

test('metrics whose client disconnects are not read any further', async () => {
  const { connections, registry, read } = await start()
  void read('metrics/default/web').catch(() => {})
  await vi.waitFor(async () => expect(await registry.metrics()).toContain('virtset_sessions{kind="metrics"} 1'))
  connections[0]?.destroy()
  await vi.waitFor(async () => expect(await registry.metrics()).toContain('virtset_sessions{kind="metrics"} 0'))
})

test('metrics that are read while the webhooks restart are refused, to be read again', async () => {
  const { guests, sessions, registry, read } = await start()
  const opening = read('metrics/default/web')
  await until(() => guests.length === 1)
  await vi.waitFor(async () => expect(await registry.metrics()).toContain('virtset_sessions{kind="metrics"} 1'))
  sessions.end()
  const response = await opening
  expect([response.statusCode, await text(response)]).toEqual([503, 'service restart; connect again'])
})

test('a console requires a WebSocket, and a log must not be one', async () => {
  const { read, attach, asked } = await start()
  expect((await read('console/default/web')).statusCode).toBe(400)
  expect((await attach('default/web', 'jane', 'log')).code).toBe(400)
  expect(asked).toEqual([])
})

test('a user who is refused without end does not fill the log', async () => {
  const { lines, registry, state, attach } = await start()
  state.isAllowed = false
  for (let time = 0; time < 20; time++) expect((await attach()).code).toBe(403)
  expect(lines).toHaveLength(16)
  expect(await registry.metrics()).toContain('virtset_sessions_total{kind="console",code="403"} 20')
})

test('sessions are logged with their user, and counted', async () => {
  const { clock, guests, lines, registry, state, attach } = await start()
  const { client } = await attach()
  guests[0]?.write('12345')
  await once(client, 'message')
  client.send('typed')
  await until(() => guests[0]?.readableLength === 5)
  await clock.advance(7000)
  client.close(1000, 'bye')
  await until(() => lines.some(({ msg }) => msg === 'a session has ended'))
  state.isAllowed = false
  await attach()
  const of = { kind: 'console', resource: 'virtualmachines', namespace: 'default', name: 'web' }
  const who = { user: 'jane', auditID: 'audit-of-jane' }
  const opened = { ...of, ...who, uid: 'u1', from: '2030-01-01T00:00:00.000Z' }
  const ended = { until: '2030-01-01T00:00:07.000Z', seconds: 7, toGuest: 5, fromGuest: 5, code: 1000, reason: 'bye' }
  expect(lines).toMatchObject([
    { msg: 'a session was opened', ...opened },
    { msg: 'a session has ended', ...opened, ...ended },
    { msg: 'a session was refused', ...of, ...who, code: 403 },
  ])
  expect(JSON.stringify(lines)).not.toMatch(/12345|typed/)
  const metrics = await registry.metrics()
  expect(metrics).toContain('virtset_sessions{kind="console"} 0')
  expect(metrics).toContain('virtset_sessions_total{kind="console",code="101"} 1')
  expect(metrics).toContain('virtset_sessions_total{kind="console",code="403"} 1')
  expect(metrics).toContain('virtset_session_bytes_total{kind="console",direction="from-guest"} 5')
})

test('an audit ID, which the client can choose, is logged up to 64 characters', async () => {
  const { lines, attach } = await start()
  await attach('default/web', 'x'.repeat(1000))
  await until(() => lines.length > 0)
  expect(lines).toMatchObject([{ msg: 'a session was opened', auditID: `audit-of-${'x'.repeat(55)}` }])
})
