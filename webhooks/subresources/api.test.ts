import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { AddressInfo } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import fastify from 'fastify'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createAuthority, createCertificate } from '../../cluster/certificates.ts'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import type { Access } from '../admission/permission.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { dial, type Wire } from '../../test/records.ts'
import { until } from '../../test/until.ts'
import { userTenant, type Requester } from '../tenant-requests.ts'
import { createApi, type ApiOptions } from './api.ts'
import { SessionRefusal } from './session-client.ts'
import type { PowerResponse } from './power.ts'
import type { PowerRequest } from './route.ts'
import type { Sessions } from './sessions.ts'
import { sessionsApi, subresourcesApi } from './user-api.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const now = new Date()
const authority = await createAuthority('front-proxy', now)
const proxy = await createCertificate(authority, { commonName: 'front-proxy-client' }, now)
const otherClient = await createCertificate(
  await createAuthority('other', now),
  { commonName: 'front-proxy-client' },
  now,
)
const own = await createCertificate(authority, { commonName: 'webhooks', addresses: ['127.0.0.1'] }, now)

const frontProxy = {
  authorities: [new X509Certificate(authority.certificate)],
  allowedNames: ['front-proxy-client'],
  usernameHeaders: ['x-remote-user'],
  groupHeaders: ['x-remote-group'],
  uidHeaders: [],
  extraPrefixes: [],
}

const stopWeb = '/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/web/stop'
const accepted: PowerResponse = { code: 202, uid: 'u-1', message: 'stopping' }

interface Sent {
  readonly client?: typeof proxy
  readonly path?: string
  readonly body?: string
  readonly type?: string
  readonly signal?: AbortSignal
  readonly user?: string
}

interface Answer {
  readonly code: number
  readonly headers: IncomingHttpHeaders
  readonly body: { readonly [key: string]: unknown }
}

/**
 * Serves the API; `post` sends a request as the API server does. Collects the requests performed and the access
 * checked.
 */
async function start(given: Partial<ApiOptions> = {}) {
  const performed: PowerRequest[] = []
  const checked: Access[] = []
  const app = fastify({
    https: { key: own.key, cert: own.certificate, requestCert: true, rejectUnauthorized: false },
  })
  createApi({
    api: subresourcesApi,
    power: async (wanted) => {
      performed.push(wanted)
      return accepted
    },
    mayAccess: async (_, access) => checked.push(access) > 0,
    frontProxy: () => frontProxy,
    log: createLogger({ process: 'test', level: 'silent' }),
    clock: systemClock,
    ...given,
  }).register(app)
  await app.listen({ port: 0, host: '127.0.0.1' })
  closing.push(() => app.close())
  const post = ({
    client = proxy,
    path = stopWeb,
    body = '{}',
    type = 'application/json',
    signal,
    user = 'jane',
  }: Sent = {}) => {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const options = {
      host: '127.0.0.1',
      port: (app.server.address() as AddressInfo).port,
      method: 'POST',
      path,
      headers: { 'content-type': type, 'x-remote-user': user, 'x-remote-group': 'devs' },
      ca: authority.certificate,
      cert: client.certificate,
      key: client.key,
      agent: false,
      ...(signal === undefined ? {} : { signal }),
    }
    request(options, (response) => {
      const { statusCode: code = 0, headers } = response
      text(response).then((json) => resolve({ code, headers, body: JSON.parse(json) }), reject)
    })
      .on('error', reject)
      .end(body)
    return promise
  }
  return { post, performed, checked, server: app.server, port: (app.server.address() as AddressInfo).port }
}

async function send(given?: Partial<ApiOptions>, sent?: Sent) {
  const { post, performed, checked } = await start(given)
  return { ...(await post(sent)), performed, checked }
}

function collectLog() {
  const lines: { [key: string]: unknown }[] = []
  const log = createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } })
  return { lines, log }
}

test.each<[string, number, () => Promise<PowerResponse>]>([
  ['subresource request', 202, async () => accepted],
  ['a subresource request failed', 500, () => Promise.reject(new Error('internal'))],
])('of a user who sends requests without end, few lines "%s" are logged', async (msg, code, power) => {
  const { lines, log } = collectLog()
  const { post } = await start({ log, power, clock: fakeClock(now.getTime()) })
  for (let time = 0; time < 20; time++) expect((await post()).code).toBe(code)
  await post({ user: 'john' })
  expect(lines.map((line) => line['msg'])).toEqual(Array(17).fill(msg))
})

test('authorizes a request as an update of the subresource, performs it and responds with a Status', async () => {
  const response = await send()
  expect(response.checked).toEqual([
    {
      verb: 'update',
      group: 'subresources.virtset.io',
      resource: 'virtualmachineconfigs',
      subresource: 'stop',
      namespace: 'default',
      name: 'web',
    },
  ])
  expect(response.performed).toMatchObject([{ verb: 'stop', namespace: 'default', name: 'web' }])
  expect([response.code, response.body]).toEqual([
    202,
    {
      apiVersion: 'v1',
      kind: 'Status',
      metadata: {},
      status: 'Success',
      code: 202,
      message: 'stopping',
      details: { name: 'web', group: 'virtset.io', kind: 'virtualmachineconfigs', uid: 'u-1' },
    },
  ])
})

const refusal = { code: 422, reason: 'Invalid', message: 'no', details: { causes: [{ field: 'spec' }] } }
const failing = (error: unknown) => ({ power: () => Promise.reject(error) })

test.each<[string, Parameters<typeof send>, number, object]>([
  ['a certificate of another authority', [{}, { client: otherClient }], 401, { reason: 'Unauthorized' }],
  ['a cluster without a front proxy', [{ frontProxy: () => undefined }], 401, { reason: 'Unauthorized' }],
  [
    'a user without permission',
    [{ mayAccess: async () => false }],
    403,
    { reason: 'Forbidden', message: /User "jane" cannot update/ },
  ],
  ['an unknown path', [{}, { path: '/apis/other' }], 404, { reason: 'NotFound' }],
  [
    'too many requests at once',
    [{ limits: { requests: 0, bytes: 0, responseBytes: 0 } }],
    429,
    { reason: 'TooManyRequests' },
  ],
  ['too many requests of one user at once', [{ share: 0 }], 429, { reason: 'TooManyRequests' }],
  ['a body that is too large', [{}, { body: ' '.repeat(64 * 1024 + 1) }], 413, { reason: 'RequestEntityTooLarge' }],
  ['a malformed content type', [{}, { type: ';' }], 415, { reason: 'BadRequest' }],
  ['an error of the API server', [failing(new ApiError('POST', refusal))], 422, refusal],
  ['an unreachable API server', [failing(new ApiUnreachable('POST'))], 503, { reason: 'ServiceUnavailable' }],
  [
    'an internal error',
    [failing(new Error('secret'))],
    500,
    { message: 'internal error of virtset; see the log of virtset-webhooks' },
  ],
])('%s fails, and nothing is performed', async (_, [given, sent], code, expected) => {
  const response = await send(given, sent)
  const { message, ...rest } = { message: '', ...expected }
  expect(response.code).toBe(code)
  expect(response.body).toMatchObject({ kind: 'Status', status: 'Failure', code, ...rest })
  expect(response.body['message']).toMatch(message)
  expect(response.performed).toEqual([])
})

test('a client that disconnects while its start waits is not logged as a failure', async () => {
  const { lines, log } = collectLog()
  const client = new AbortController()
  let isAborted = false
  const power: ApiOptions['power'] = (_, signal) =>
    new Promise((_resolve, reject) => {
      signal?.addEventListener('abort', () => {
        reject(signal.reason)
        isAborted = true
      })
      client.abort()
    })
  await expect(send({ power, log }, { signal: client.signal })).rejects.toThrow('aborted')
  await until(() => isAborted)
  await new Promise(setImmediate)
  expect(lines).toEqual([])
})

test('logs who requested what, and the response code', async () => {
  const { lines, log } = collectLog()
  await send({ log })
  const expected = { level: 'info', verb: 'stop', namespace: 'default', name: 'web', user: 'jane', code: 202 }
  expect(lines).toMatchObject([{ ...expected, msg: 'subresource request' }])
})

test.each<[string, unknown, string[]]>([
  ['an internal error', new Error('broken'), ['a subresource request failed']],
  ['a 500 of the API server', new ApiError('POST', { ...refusal, code: 500 }), ['a subresource request failed']],
  ['a refusal', new ApiError('POST', refusal), []],
])('logs only failures on the server side: %s', async (_, error, expected) => {
  const { lines, log } = collectLog()
  await send({ ...failing(error), log })
  expect(lines.map(({ msg }) => msg)).toEqual(expected)
})

test('a finished request makes room for the next one', async () => {
  const { post } = await start({ share: 1, limits: { requests: 1, bytes: 0, responseBytes: 0 } })
  const codes: number[] = []
  for (let count = 0; count < 3; count++) codes.push((await post()).code)
  expect(codes).toEqual([202, 202, 202])
})

test('the review of a permission counts for the user, and ends when the client disconnects', async () => {
  const requesters: Requester[] = []
  const mayAccess: ApiOptions['mayAccess'] = (_user, _access, requester) => {
    requesters.push(requester)
    return new Promise((_resolve, reject) => {
      requester.signal?.addEventListener('abort', () => reject(requester.signal?.reason))
    })
  }
  const { post, performed } = await start({ mayAccess })
  const client = new AbortController()
  const answer = post({ signal: client.signal }).catch(() => 'gone')
  await until(() => requesters.length === 1)
  expect(requesters[0]?.tenant).toBe(userTenant({ username: 'jane', groups: [] }))
  client.abort()
  expect(await answer).toBe('gone')
  await until(() => requesters[0]?.signal?.aborted === true)
  expect(performed).toEqual([])
})

test('the service accounts of a namespace have one share until their requests are authorized', async () => {
  const waiting = Promise.withResolvers<boolean>()
  let checked = 0
  const mayAccess = () => {
    checked++
    return waiting.promise
  }
  const { post } = await start({ share: 2, mayAccess })
  const inTeam = (name: string) => post({ user: `system:serviceaccount:team:${name}` })
  const held = [inTeam('a'), inTeam('b')]
  await until(() => checked === 2)
  const refused = await inTeam('c')
  expect([refused.code, refused.headers['retry-after']]).toEqual([429, '1'])
  const path = stopWeb.replace('/default/', '/other/')
  const others = [post({ path, user: 'system:serviceaccount:team-b:a' }), post({ path, user: 'team' })]
  await until(() => checked === 4)
  waiting.resolve(true)
  expect((await Promise.all([...held, ...others])).map(({ code }) => code)).toEqual([202, 202, 202, 202])
})

/** Sends what a client could send itself, through the front proxy. */
async function sendRaw(port: number, ...parts: readonly string[]) {
  const tls = { ca: authority.certificate, cert: proxy.certificate, key: proxy.key }
  const socket = connect({ host: '127.0.0.1', port, ...tls }).on('error', () => {})
  closing.push(async () => socket.destroy())
  await once(socket, 'secureConnect')
  for (const part of parts) await new Promise((resolve) => socket.write(part, resolve))
  return socket
}

const headOf = (method: string, path: string, ...lines: readonly string[]) =>
  [`${method} ${path} HTTP/1.1`, 'host: a', 'x-remote-user: jane', ...lines, '', ''].join('\r\n')

test.each([
  [128, 'HTTP/1.1 202 Accepted'],
  [129, 'HTTP/1.1 429 Too Many Requests'],
])('a body of %i chunks of one byte takes as much of the limit as one of so many KiB', async (count, status) => {
  const { port } = await start()
  const chunks = `1\r\n{\r\n${'1\r\n \r\n'.repeat(count - 2)}1\r\n}\r\n0\r\n\r\n`
  const head = headOf('POST', stopWeb, 'transfer-encoding: chunked', 'connection: close')
  const socket = await sendRaw(port, head, chunks)
  expect((await text(socket)).split('\r\n')[0]).toBe(status)
})

test('the body of a GET is not stored while its user is being authorized', async () => {
  const allowing = Promise.withResolvers<boolean>()
  let received: IncomingMessage | undefined
  const { port, server } = await start({ mayAccess: () => allowing.promise })
  server.on('request', (message: IncomingMessage) => (received = message))
  const chunks = `1\r\nx\r\n`.repeat(2000)
  const end = '0\r\n\r\n'
  const socket = await sendRaw(port, headOf('GET', stopWeb, 'transfer-encoding: chunked'), chunks, end)
  await until(() => received?.complete === true)
  expect(received?.readableLength).toBe(0)
  allowing.resolve(true)
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toContain('202 Accepted')
})

test('of all requests in progress, the user with the most loses the latest one to a user with fewer', async () => {
  const ending = Promise.withResolvers<PowerResponse>()
  const performing: string[] = []
  const { post } = await start({
    limits: { requests: 4, bytes: 0, responseBytes: 0 },
    mayAccess: async ({ username }) => performing.push(username) > 0,
    power: () => ending.promise,
  })
  const first = [post({ user: 'busy' }), post({ user: 'busy' })]
  await until(() => performing.length === 2)
  const latest = post({ user: 'busy' })
  await until(() => performing.length === 3)
  const other = post({ user: 'calm' })
  expect((await latest).code).toBe(429)
  expect((await post({ user: 'busy' })).code).toBe(429)
  await until(() => performing.includes('calm'))
  ending.resolve(accepted)
  expect((await Promise.all([...first, other])).map(({ code }) => code)).toEqual([202, 202, 202])
})

test('the API can be discovered while it has too many requests', async () => {
  const { port } = await start({ limits: { requests: 0, bytes: 0, responseBytes: 0 } })
  const path = '/apis/subresources.virtset.io/v1alpha1'
  const socket = await sendRaw(port, headOf('GET', path, 'connection: close'))
  expect((await text(socket)).split('\r\n')[0]).toBe('HTTP/1.1 200 OK')
})

describe('discovery', () => {
  const path = '/apis/subresources.virtset.io/v1alpha1'
  const burst = 64

  /** Responses to requests for a document, in the order of their arrival. */
  async function setUp(given: Partial<ApiOptions> = {}) {
    const clock = fakeClock(now.getTime())
    const { port, server } = await start({ clock, ...given })
    const messages: IncomingMessage[] = []
    server.on('request', (message: IncomingMessage) => messages.push(message))
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    closing.unshift(async () => agent.destroy())
    const tls = { ca: authority.certificate, cert: proxy.certificate, key: proxy.key }
    const codes: number[] = []
    const get = (user: string, more: object = {}) =>
      new Promise<number>((resolve, reject) => {
        const headers = { 'x-remote-user': user, ...more }
        request({ host: '127.0.0.1', port, path, headers, ...tls, agent }, (response) => {
          codes.push(response.statusCode ?? 0)
          response.resume().on('end', () => resolve(response.statusCode ?? 0))
        })
          .on('error', reject)
          .end()
      })
    await Promise.all(Array.from({ length: burst }, () => get('system:serviceaccount:team:a')))
    return { clock, get, codes, messages }
  }

  test('that a tenant asks for too often comes late, but comes, and others do not wait', async () => {
    const { clock, get, codes } = await setUp()
    expect(codes).toEqual(Array(burst).fill(200))
    const late = get('system:serviceaccount:team:b')
    await until(() => clock.pending() === 1)
    expect([await get('jane'), await get('system:aggregator')]).toEqual([200, 200])
    await clock.advance(1999)
    expect([codes.length, clock.pending()]).toEqual([burst + 2, 1])
    await clock.advance(1)
    expect(await late).toBe(200)
  })

  test('comes at once if too many requests for it wait', async () => {
    const { clock, get } = await setUp({ mostLate: 1 })
    const late = get('system:serviceaccount:team:a')
    await until(() => clock.pending() === 1)
    expect(await get('system:serviceaccount:team:a')).toBe(200)
    await clock.advance(2000)
    expect(await late).toBe(200)
  })

  test('that comes late retains no headers meanwhile', async () => {
    const { clock, get, messages } = await setUp()
    const late = get('system:serviceaccount:team:a', { long: 'x'.repeat(1000) })
    await until(() => clock.pending() === 1)
    const { rawHeaders, headers } = messages.at(-1)!
    expect([rawHeaders, headers]).toEqual([[], {}])
    await clock.advance(2000)
    expect(await late).toBe(200)
  })

  test('that comes too often comes late as an upgrade, too', async () => {
    const { clock, get } = await setUp()
    const late = get('system:serviceaccount:team:a', { connection: 'Upgrade', upgrade: 'websocket' })
    await until(() => clock.pending() === 1)
    await clock.advance(2000)
    expect(await late).toBe(400)
  })

  test.each(['/openapi/v2', stopWeb])('of a query that is too long for %s, Fastify gets the beginning', async (at) => {
    const { port, server } = await start()
    let url = ''
    server.on('request', (message: IncomingMessage) => (url = message.url ?? ''))
    const long = `${at}?${'x=&'.repeat(4000)}`
    const socket = await sendRaw(port, headOf('GET', long, 'connection: close'))
    const [line] = (await text(socket)).split('\r\n')
    expect([url, line]).toEqual([long.slice(0, 2049), at === stopWeb ? 'HTTP/1.1 414 URI Too Long' : 'HTTP/1.1 200 OK'])
  })

  test('parses the query of another request once', async () => {
    const { post } = await start()
    const parsing = vi.spyOn(URL.prototype, 'searchParams', 'get')
    closing.push(async () => parsing.mockRestore())
    expect([(await post({ path: `${stopWeb}?dryRun=All` })).code, parsing.mock.calls.length]).toEqual([202, 1])
  })
})

test.each([
  ['a power request', sessionsApi, stopWeb.replace('subresources', 'sessions')],
  ['a session', subresourcesApi, stopWeb.replace('configs/web/stop', 's/web/log')],
])('%s of the other API is refused before its body has arrived', async (_, api, path) => {
  const { port } = await start({ api })
  const socket = await sendRaw(port, headOf('POST', path, 'content-length: 100'))
  const [answer] = await once(socket, 'data')
  socket.destroy()
  expect(String(answer)).toContain('HTTP/1.1 404 Not Found')
})

describe('an upgrade', () => {
  const consoleOf = (name: string) =>
    `/apis/sessions.virtset.io/v1alpha1/namespaces/default/virtualmachines/${name}/attach/console`
  const startSessions = (given: Partial<ApiOptions>) => start({ api: sessionsApi, ...given })
  const attached: unknown[] = []
  const sessions: Sessions = {
    respond: () => Promise.reject(new Error('not an upgrade')),
    async attach(user, wanted, _, socket, accept) {
      attached.push([user.username, wanted.kind, wanted.name])
      if (wanted.name === 'off') {
        throw new SessionRefusal({ code: 409, reason: 'Conflict', message: 'its phase is Pending' })
      }
      if (wanted.name === 'broken') throw new ApiUnreachable('GET /')
      accept()
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    },
    end: () => {},
  }

  async function upgrade(path: string, given: Partial<ApiOptions> = { sessions }, client = proxy) {
    attached.length = 0
    const { port } = await startSessions(given)
    return upgradeAt(port, path, 'jane', client)
  }

  function upgradeAt(port: number, path: string, user: string, client = proxy) {
    return new Promise<{ code: number; body?: unknown }>((resolve, reject) => {
      const headers = { connection: 'Upgrade', upgrade: 'websocket', 'x-remote-user': user }
      const tls = { ca: authority.certificate, cert: client.certificate, key: client.key }
      request({ host: '127.0.0.1', port, path, headers, ...tls, agent: false })
        .on('upgrade', (response, socket) => {
          socket.destroy()
          resolve({ code: response.statusCode ?? 0 })
        })
        .on('response', (response) => {
          text(response).then((json) => resolve({ code: response.statusCode ?? 0, body: JSON.parse(json) }), reject)
        })
        .on('error', reject)
        .end()
    })
  }

  test('opens a session for the user', async () => {
    expect(await upgrade(consoleOf('web'))).toEqual({ code: 101 })
    expect(attached).toEqual([['jane', 'console', 'web']])
  })

  test.each<[string, string, Partial<ApiOptions> | undefined, number, string]>([
    ['of a subresource that does not exist', `${consoleOf('web')}s`, undefined, 404, 'does not exist; valid'],
    ['of a power request', stopWeb, { api: subresourcesApi }, 400, 'cannot be upgraded'],
    [
      'of a session at the API of another group',
      consoleOf('web'),
      { api: subresourcesApi, sessions },
      404,
      'not exist',
    ],
    ['of a URL that is too long', `${consoleOf('web')}?${'x'.repeat(9000)}`, undefined, 414, 'at most 2048'],
    ['of a VM that does not run', consoleOf('off'), undefined, 409, 'its phase is Pending'],
    ['while the API server does not respond', consoleOf('broken'), undefined, 503, 'could not reach the API server'],
    ['without a token for handlers', consoleOf('web'), {}, 503, 'no token for the handlers'],
    [
      'beyond the limit',
      consoleOf('web'),
      { sessions, limits: { requests: 0, bytes: 0, responseBytes: 0 } },
      429,
      'too many requests',
    ],
  ])('%s is refused with a Status', async (_, path, given, code, message) => {
    expect(await upgrade(path, given)).toEqual({
      code,
      body: expect.objectContaining({
        kind: 'Status',
        status: 'Failure',
        code,
        message: expect.stringContaining(message),
      }),
    })
  })

  test('takes the share of its tenant while the session opens, as other requests do', async () => {
    const opening = Promise.withResolvers<void>()
    let asked = 0
    const waiting: Sessions = {
      ...sessions,
      async attach(user, wanted, request, socket, accept) {
        asked++
        await opening.promise
        return sessions.attach(user, wanted, request, socket, accept)
      },
    }
    const { port } = await startSessions({ sessions: waiting, share: 2 })
    const inTeam = (name: string) => upgradeAt(port, consoleOf('web'), `system:serviceaccount:team:${name}`)
    const held = [inTeam('a'), inTeam('b')]
    await until(() => asked === 2)
    expect((await inTeam('c')).code).toBe(429)
    const other = upgradeAt(port, consoleOf('web'), 'jane')
    await until(() => asked === 3)
    opening.resolve()
    expect((await Promise.all([...held, other])).map(({ code }) => code)).toEqual([101, 101, 101])
    expect((await inTeam('c')).code).toBe(101)
  })

  test('loses its place to one of a user that has fewer', async () => {
    let asked = 0
    const opening = Promise.withResolvers<void>()
    const waiting: Sessions = {
      ...sessions,
      async attach(...given) {
        asked++
        await opening.promise
        return sessions.attach(...given)
      },
    }
    const { port } = await startSessions({ sessions: waiting, limits: { requests: 4, bytes: 0, responseBytes: 0 } })
    const first = [upgradeAt(port, consoleOf('web'), 'busy'), upgradeAt(port, consoleOf('web'), 'busy')]
    await until(() => asked === 2)
    const latest = upgradeAt(port, consoleOf('web'), 'busy')
    await until(() => asked === 3)
    const other = upgradeAt(port, consoleOf('web'), 'calm')
    expect((await latest).code).toBe(429)
    expect((await upgradeAt(port, consoleOf('web'), 'busy')).code).toBe(429)
    await until(() => asked === 4)
    opening.resolve()
    expect((await Promise.all([...first, other])).map(({ code }) => code)).toEqual([101, 101, 101])
  })

  test.each([
    ['with the request', (head: string) => [`${head}x`]],
    ['while the session opens', (head: string) => [head, 'x']],
  ])('of a client that sends a byte %s is disconnected', async (_, partsOf) => {
    const { port } = await startSessions({ sessions: { ...sessions, attach: () => new Promise(() => {}) } })
    const head = headOf('GET', consoleOf('web'), 'connection: Upgrade', 'upgrade: websocket')
    const socket = await sendRaw(port, ...partsOf(head))
    expect(await text(socket).catch(() => '')).toBe('')
  })

  test.each<[string, (wire: Wire, client: TLSSocket) => unknown, number]>([
    ['records of one byte are joined', (wire, client) => wire.sendEach(client, 'x'.repeat(900)), 900],
    // Node parses all frames of a chunk, whatever is done meanwhile.
    ['a record of 16 KiB is divided', (_, client) => client.write('x'.repeat(16_384)), 16_384],
  ])('of what the client sends once it is accepted, %s', async (_, send, bytes) => {
    const opening = Promise.withResolvers<Duplex>()
    const { port } = await startSessions({
      sessions: {
        ...sessions,
        attach: async (_user, _wanted, _request, socket, accept) => {
          accept()
          opening.resolve(socket)
        },
      },
    })
    const wire = dial(port)
    const client = connect({ socket: wire, cert: proxy.certificate, key: proxy.key, rejectUnauthorized: false })
    closing.unshift(async () => client.destroy())
    const headers = 'Connection: Upgrade\r\nUpgrade: websocket\r\nHost: a\r\nX-Remote-User: jane\r\n'
    client.on('error', () => {}).write(`GET ${consoleOf('web')} HTTP/1.1\r\n${headers}\r\n`)
    const socket = await opening.promise
    await send(wire, client)
    await until(() => socket.readableLength > 0)
    const chunks: number[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk.length))
    await until(() => chunks.reduce((sum, length) => sum + length, 0) === bytes)
    expect(chunks.length).toBeLessThan(10)
    expect(Math.max(...chunks)).toBeLessThanOrEqual(4096)
  })

  test('of a client that is not the front proxy is refused', async () => {
    expect((await upgrade(consoleOf('web'), { sessions }, otherClient)).code).toBe(401)
    expect(attached).toEqual([])
  })
})
