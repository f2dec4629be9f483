import { once } from 'node:events'
import { connect as connectHttp2, constants } from 'node:http2'
import { Readable } from 'node:stream'
import { connect } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import { Agent, request } from 'undici'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createLogger } from '../runtime/log.ts'
import { createMetrics } from '../runtime/metrics.ts'
import { createAuthority, issueLeaf } from './certificates/authority.ts'
import type { Authority } from './certificates/plan.ts'
import { parseAuthorities } from './certificates/client.ts'
import { createAdmissionMetrics } from './metrics.ts'
import type { AdmissionResult } from './admission/request.ts'
import type { Limits } from './gate.ts'
import { maxBodyBytes } from './body.ts'
import {
  admissionPath,
  admissionRoutes,
  defaultLimits,
  type AdmissionHandler,
  type AdmissionOptions,
} from './admission-routes.ts'
import { startServer, type ServerOptions, type WebhookServer } from './server.ts'
import { writePatch } from './admission/patch.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'
import type { Owner, Turns } from '../runtime/turns.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** Whether clients speak HTTP/2. */
let allowH2 = true

const serverLeaf = async (authority: Authority) => {
  const leaf = await issueLeaf(authority, ['localhost'], Date.now())
  return { key: leaf.key, cert: leaf.pem }
}

interface Response {
  code: number
  body: { kind?: string; code?: number; reason?: string; response?: object }
  connection: unknown
  retryAfter: unknown
}

type Headers = { readonly [name: string]: string | string[] }

interface Running {
  server: WebhookServer
  authority: Authority
  post: (path: string, body: string | Buffer, agent?: Agent, headers?: Headers) => Promise<Response>
  metrics: () => Promise<string>
}

async function start(
  handle: AdmissionHandler,
  limits = defaultLimits,
  more: Partial<ServerOptions & AdmissionOptions> = {},
): Promise<Running> {
  const authority = await createAuthority(Date.now())
  const registry = createMetrics()
  const options = {
    mutate: handle,
    validate: handle,
    metrics: createAdmissionMetrics(registry),
    log: createLogger({ process: 'test', level: 'silent' }),
    clock: systemClock,
    limits,
    ...more,
    ...(allowH2 ? { multiplexing: { above: -1, head: { bytes: 128 * 1024, headers: 1200 } } } : {}),
  }
  const certificate = await serverLeaf(authority)
  const server = await startServer({ certificate, routes: admissionRoutes(options), ...options }, 0, '127.0.0.1')
  const shared = new Agent({ allowH2, connect: { ca: authority.pem } })
  closing.push(
    () => server.drain(0),
    () => shared.close(),
  )
  return {
    server,
    authority,
    metrics: () => registry.metrics(),
    async post(path, body, agent = shared, headers = {}) {
      const response = await request(`https://localhost:${server.port}${path}`, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', ...headers },
        dispatcher: agent,
      })
      return {
        code: response.statusCode,
        body: (await response.body.json()) as Response['body'],
        connection: response.headers['connection'],
        retryAfter: response.headers['retry-after'],
      }
    },
  }
}

/** Closing the server does not wait for this fake clock. */
const closable = (clock: Clock): Clock => ({
  ...clock,
  after: (ms, run) => (ms === 0 ? systemClock : clock).after(ms, run),
})

const reviewOf = (object: unknown, uid = 'u-1') =>
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    // In the order of the API server.
    request: {
      uid,
      kind: { kind: 'VirtualMachine' },
      namespace: '',
      operation: 'CREATE',
      userInfo: { username: '' },
      object,
    },
  })

const allowed = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: { uid: 'u-1', allowed: true } }

describe.each([
  ['HTTP/2', true],
  ['HTTP/1.1', false],
])('the server, by %s', (_, isHttp2) => {
  beforeAll(() => void (allowH2 = isHttp2))

  test.each(['/mutate', '/validate'])('serves POST %s', async (path) => {
    const { post, metrics } = await start(() => ({ allowed: true }))
    expect((await post(path, reviewOf({}))).body).toEqual(allowed)
    const line = `virtset_admission_reviews_total{path="${path}",kind="VirtualMachine",operation="CREATE",outcome="allowed"} 1`
    expect(await metrics()).toContain(line)
  })

  test('treats __proto__ as data', async () => {
    const seen: unknown[] = []
    const { post } = await start(({ object }) => {
      seen.push(JSON.stringify(object))
      return { allowed: true }
    })
    const hostile = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    await post('/mutate', reviewOf(JSON.parse(hostile)))
    expect([seen, Object.hasOwn(Object.prototype, 'polluted')]).toEqual([[hostile], false])
  })

  test.each<[string, string, number, string]>([
    ['a body that is not JSON', '{', 400, 'BadRequest'],
    ['an empty body', '', 400, 'BadRequest'],
    ['a body that is too large', ' '.repeat(maxBodyBytes + 1), 413, 'BadRequest'],
  ])('rejects %s with a Status', async (_, body, code, reason) => {
    const { post } = await start(() => ({ allowed: true }))
    const response = await post('/mutate', body)
    expect([response.code, response.body.kind, response.body.code, response.body.reason]).toEqual([
      code,
      'Status',
      code,
      reason,
    ])
  })

  test('responds to a malformed AdmissionReview with an AdmissionReview, with the uid if it has one', async () => {
    const { post } = await start(() => ({ allowed: true }))
    const body = JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { uid: 'x' } })
    expect((await post('/mutate', body)).body.response).toMatchObject({
      uid: 'x',
      allowed: false,
      status: { code: 400 },
    })
  })

  test('accepts a body of 7 MiB', async () => {
    // A slow machine takes longer than a request may.
    const { post } = await start(() => ({ allowed: true }), defaultLimits, { clock: closable(fakeClock()) })
    const empty = reviewOf('').length
    const body = reviewOf('x'.repeat(maxBodyBytes - empty))
    expect([body.length, (await post('/mutate', body)).code]).toEqual([maxBodyBytes, 200])
  })

  test('reports an internal error without its details when a handler throws', async () => {
    const { post } = await start(() => {
      throw new Error('secret of the spec')
    })
    const response = await post('/mutate', reviewOf({}))
    expect([response.code, JSON.stringify(response.body).includes('secret')]).toEqual([500, false])
  })

  test('serves a request that arrives while the response to the previous one is not sent yet', async () => {
    // More than the kernel buffers.
    const large = writePatch([{ op: 'add', path: '/large', value: 'x'.repeat(16 * 1024 * 1024) }])
    const seen: string[] = []
    const handle: AdmissionHandler = ({ uid }) => {
      seen.push(uid)
      return uid === 'large' ? { allowed: true, patch: large } : { allowed: true }
    }
    // The deadline of a body does not count here.
    const limits = { ...defaultLimits, responseBytes: Infinity }
    const { server, authority } = await start(handle, limits, { clock: closable(fakeClock()) })
    const post = (body: string) =>
      `POST /mutate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    const caller = connect({ port: server.port, host: 'localhost', ca: authority.pem }).on('error', () => {})
    closing.push(async () => caller.destroy())
    await once(caller, 'secureConnect')
    caller.write(post(reviewOf({}, 'large')))
    await once(caller, 'readable')
    // In several records of TLS, which arrive together.
    caller.write(post(reviewOf({ text: 'y'.repeat(60_000) }, 'small')))
    let end = ''
    const read = () => caller.on('data', (chunk: Buffer) => (end = (end + chunk.toString()).slice(-1000))).resume()
    setTimeout(read, 200)
    await until(() => end.includes('"uid":"small"') || caller.destroyed)
    expect([seen, end]).toEqual([['large', 'small'], expect.stringContaining('"uid":"small"')])
  })

  test('has no room for the refusals of many requests', async () => {
    const causes = Array.from({ length: 200 }, (_, index) => ({
      rule: 'r',
      field: `spec.${'\0'.repeat(1000)}${index}`,
      reason: 'FieldValueForbidden' as const,
      message: 'no',
    }))
    const refuse: AdmissionHandler = () => ({ allowed: false, causes })
    const codes = async (responseBytes: number) => {
      const { post } = await start(refuse, { requests: 8, bytes: 1024 * 1024, responseBytes })
      return (await post('/mutate', reviewOf({}))).code
    }
    expect([await codes(16 * 1024 * 1024), await codes(1024 * 1024)]).toEqual([200, 429])
  })

  test('ends a response that is not read, of the tenant with the most, for one of another', async () => {
    const patchOf = (bytes: number) => writePatch([{ op: 'add', path: '/large', value: 'x'.repeat(bytes) }])
    const small = patchOf(1024 * 1024)
    // More than the kernel buffers.
    const patch = patchOf(16 * 1024 * 1024)
    const handle: AdmissionHandler = ({ namespace }) => ({
      allowed: true,
      patch: namespace === 'calm' ? small : patch,
    })
    const { server, authority, post } = await start(handle, {
      ...defaultLimits,
      responseBytes: 6 * patch.encoded.length,
    })
    const agent = new Agent({ allowH2, connect: { ca: authority.pem } })
    closing.push(() => agent.destroy())
    const { request: plain, ...review } = JSON.parse(reviewOf({}))
    const bodyOf = (namespace: string) => JSON.stringify({ ...review, request: { ...plain, namespace } })
    const send = async (namespace: string) => {
      const headers = { 'content-type': 'application/json' }
      const path = `https://localhost:${server.port}/mutate`
      const response = await request(path, { method: 'POST', body: bodyOf(namespace), headers, dispatcher: agent })
      expect(response.statusCode).toBe(200)
      return response.body
    }
    const [first, second] = [await send('busy'), await send('accomplice')]
    expect((await post('/mutate', bodyOf('calm'))).code).toBe(200)
    const endOf = (body: typeof first) =>
      body.text().then(
        () => 'whole',
        () => 'ended',
      )
    expect(await Promise.all([endOf(first), endOf(second)])).toEqual(['whole', 'ended'])
  })

  test('rejects requests beyond the limit at once', async () => {
    const { promise, resolve } = Promise.withResolvers<AdmissionResult>()
    const { post, metrics } = await start(() => promise, { requests: 2, bytes: 1024 * 1024, responseBytes: 0 })
    const three = ['a', 'b', 'c'].map((uid) => post('/mutate', reviewOf({}, uid)))
    // The last one to arrive is rejected while the other two wait.
    const rejected = await Promise.race(three)
    expect([rejected.code, rejected.body.reason, rejected.retryAfter]).toEqual([429, 'TooManyRequests', '1'])
    expect(await metrics()).toContain('reason="overloaded"')
    resolve({ allowed: true })
    expect((await Promise.all(three)).map(({ code }) => code).toSorted((a, b) => a - b)).toEqual([200, 200, 429])
    expect((await post('/mutate', reviewOf({}))).code).toBe(200)
  })

  test('whoever creates Namespaces, whose names are invented, counts as one tenant', async () => {
    const { promise: never, resolve } = Promise.withResolvers<AdmissionResult>()
    const waiting: string[] = []
    const owners: unknown[] = []
    const turns: Turns = { take: (owner) => void owners.push(owner) }
    const handle: AdmissionHandler = ({ kind, uid }, turn) => {
      void turn?.()
      if (kind !== 'Namespace') return { allowed: true }
      waiting.push(uid)
      return never
    }
    const { post } = await start(handle, { requests: 8, bytes: 0, responseBytes: 0 }, { turns })
    closing.push(async () => resolve({ allowed: true }))
    const send = (kind: string, namespace: string, username: string) => {
      const { request: plain, ...review } = JSON.parse(reviewOf({}, namespace))
      return post(
        '/mutate',
        JSON.stringify({ ...review, request: { ...plain, kind: { kind }, namespace, userInfo: { username } } }),
      )
    }
    for (let count = 1; count <= 6; count++) {
      void send('Namespace', `invented-${count}`, 'mallory').catch(() => {})
      await until(() => waiting.length === count)
    }
    expect((await send('VirtualMachine', 'shop', 'jane')).code).toBe(200)
    const [creator, ...same] = owners.slice(0, 6)
    expect(same).toEqual(same.map(() => creator))
    expect(owners[6]).not.toEqual(creator)
  })

  describe('while a namespace sends more requests than there are places, and none is handled', () => {
    const bodyOf = (namespace: string, uid: string, padding = 0) => {
      const { request: plain, ...review } = JSON.parse(reviewOf({ padding: 'x'.repeat(padding) }, uid))
      return JSON.stringify({ ...review, request: { ...plain, namespace } })
    }
    const begin = async (limits: Limits) => {
      const { promise: never, resolve } = Promise.withResolvers<AdmissionResult>()
      const waiting: string[] = []
      const handle: AdmissionHandler = ({ namespace, uid }) => {
        if (namespace === 'calm') return { allowed: true }
        waiting.push(uid)
        return never
      }
      const running = await start(handle, limits)
      closing.push(async () => resolve({ allowed: true }))
      const codes: { [uid: string]: number } = {}
      const flood = async (uid: string, padding = 0) => {
        const before = waiting.length
        const response = running.post('/mutate', bodyOf('busy', uid, padding))
        void response.then(({ code }) => (codes[uid] = code)).catch(() => {})
        await until(() => waiting.length > before || codes[uid] !== undefined)
      }
      return { ...running, codes, flood }
    }

    test('another one is served', async () => {
      const { post, flood, codes } = await begin({ requests: 8, bytes: 0, responseBytes: 0 })
      for (let count = 1; count <= 8; count++) await flood(`u${count}`)
      expect(codes).toEqual({ u7: 429, u8: 429 })
      expect((await post('/mutate', bodyOf('calm', 'c'))).code).toBe(200)
      await until(() => codes['u6'] !== undefined)
      expect(codes).toEqual({ u6: 429, u7: 429, u8: 429 })
    })

    test('another one is served with a large body', async () => {
      const kiB = 1024
      const { post, flood, codes } = await begin({ requests: 8, bytes: 1024 * kiB, responseBytes: 0 })
      for (let count = 1; count <= 3; count++) await flood(`u${count}`, 282 * kiB)
      expect(codes).toEqual({ u2: 429, u3: 429 })
      expect((await post('/mutate', bodyOf('calm', 'c', 240 * kiB))).code).toBe(200)
      await until(() => codes['u1'] !== undefined)
      expect(codes['u1']).toBe(429)
    })
  })

  test('responds with a timeout before the caller gives up, and does not start work that cannot finish in time', async () => {
    const never = Promise.withResolvers<AdmissionResult>()
    const seen: string[] = []
    const handle: AdmissionHandler = ({ uid }) => {
      seen.push(uid)
      return never.promise
    }
    const clock = fakeClock()
    const { post, metrics } = await start(handle, defaultLimits, { clock: closable(clock) })
    const slow = post('/mutate?timeout=120ms', reviewOf({}, 'slow'))
    await until(() => seen.length === 1)
    await clock.advance(100)
    const late = await slow
    const gone = await post('/mutate?timeout=10ms', reviewOf({}, 'gone'))
    expect([late, gone].map(({ code, body: { kind, reason } }) => [code, kind, reason])).toEqual([
      [504, 'Status', 'Timeout'],
      [504, 'Status', 'Timeout'],
    ])
    expect(seen).toEqual(['slow'])
    expect(await metrics()).toContain('virtset_admission_rejected_total{path="/mutate",reason="timeout"} 2')
    never.resolve({ allowed: true })
  })

  test('aborts what a request waits for when its response is late, or its caller is gone', async () => {
    const signals: AbortSignal[] = []
    const handle: AdmissionHandler = (_request, _turn, signal) => {
      if (signal !== undefined) signals.push(signal)
      return new Promise(() => {})
    }
    const clock = fakeClock()
    const { post, authority } = await start(handle, defaultLimits, { clock: closable(clock) })
    const late = post('/mutate?timeout=120ms', reviewOf({}))
    await until(() => signals.length === 1)
    await clock.advance(100)
    expect((await late).code).toBe(504)
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
    const caller = new Agent({ allowH2, connect: { ca: authority.pem } })
    const answer = post('/mutate', reviewOf({}), caller).catch(() => 'gone')
    await until(() => signals.length === 2)
    expect(signals[1]?.aborted).toBe(false)
    await caller.destroy()
    expect(await answer).toBe('gone')
    await until(() => signals[1]?.aborted === true)
  })

  test('aborts what a request waits for when it loses its place', async () => {
    const { promise: never, resolve } = Promise.withResolvers<AdmissionResult>()
    const signals: AbortSignal[] = []
    const handle: AdmissionHandler = ({ namespace }, _turn, signal) => {
      if (namespace === 'calm') return { allowed: true }
      if (signal !== undefined) signals.push(signal)
      return never
    }
    const { post } = await start(handle, { requests: 4, bytes: 0, responseBytes: 0 })
    closing.push(async () => resolve({ allowed: true }))
    const { request: plain, ...review } = JSON.parse(reviewOf({}))
    const send = (namespace: string) =>
      post('/mutate', JSON.stringify({ ...review, request: { ...plain, namespace } })).catch(() => undefined)
    for (let count = 1; count <= 3; count++) {
      void send('busy')
      await until(() => signals.length === count)
    }
    expect((await send('calm'))?.code).toBe(200)
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, true])
  })

  test('logs few of the refusals of a user, and those of others', async () => {
    const lines: { [key: string]: unknown }[] = []
    const log = createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } })
    const refuse = async (): Promise<AdmissionResult> => ({ allowed: false, causes: [] })
    const { post } = await start(refuse, defaultLimits, { log, clock: closable(fakeClock()) })
    const send = (username: string, namespace = 'a') => {
      const review = JSON.parse(reviewOf({}))
      return post(
        '/validate',
        JSON.stringify({ ...review, request: { ...review.request, namespace, userInfo: { username } } }),
      )
    }
    for (let time = 0; time < 20; time++) await send('system:serviceaccount:virtset-system:virtset-controller')
    expect(lines.filter(({ msg }) => msg === 'refused')).toHaveLength(16)
    await send('jane')
    await send('system:serviceaccount:virtset-system:virtset-controller', 'b')
    expect(lines.filter(({ msg }) => msg === 'refused')).toHaveLength(18)
  })

  test('lets a request wait for the turn of its user', async () => {
    const taken: { owner: Owner; isLate: () => boolean; start: () => void }[] = []
    const turns: Turns = {
      take(owner, isLate = () => false) {
        const { promise, resolve: begin } = Promise.withResolvers<void>()
        taken.push({ owner, isLate, start: begin })
        return promise
      },
    }
    const handled: string[] = []
    const handle: AdmissionHandler = async ({ uid }, turn) => {
      await turn?.()
      handled.push(uid)
      return { allowed: true }
    }
    const clock = fakeClock()
    const { post } = await start(handle, defaultLimits, { turns, clock: closable(clock) })
    const { request: plain, ...review } = JSON.parse(reviewOf({}))
    const body = JSON.stringify({
      ...review,
      request: { ...plain, namespace: 'team', userInfo: { username: 'jane' } },
    })
    const answer = post('/mutate', body)
    await until(() => taken.length === 1)
    const owner = { tenant: 'namespace team', username: 'jane' }
    expect([taken[0]?.owner, taken[0]?.isLate(), handled]).toEqual([owner, false, []])
    taken[0]?.start()
    expect([(await answer).code, handled]).toEqual([200, ['u-1']])

    const late = post('/mutate?timeout=120ms', body)
    await until(() => taken.length === 2)
    await clock.advance(100)
    expect((await late).code).toBe(504)
    expect([taken[1]?.isLate(), handled]).toEqual([true, ['u-1']])
  })

  test('handles a request between many of another namespace, regardless of their bodies', async () => {
    let busy = 0
    const handle: AdmissionHandler = async ({ namespace }, turn) => {
      await turn?.()
      if (namespace === 'busy') busy++
      return { allowed: true }
    }
    const { post } = await start(handle, defaultLimits)
    const { request: plain, ...review } = JSON.parse(reviewOf({}))
    const bodyOf = (namespace: string, padding: number) =>
      JSON.stringify({ ...review, request: { ...plain, namespace, object: { padding: 'x'.repeat(padding) } } })
    const most = 500
    let isOver = false
    const sendAgain = async () => {
      while (!isOver && busy < most) await post('/mutate', bodyOf('busy', 1))
    }
    const flood = Promise.all(Array.from({ length: 20 }, sendAgain))
    await until(() => busy > 40)
    expect((await post('/mutate', bodyOf('other', 5000))).code).toBe(200)
    isOver = true
    await flood
    expect(busy).toBeLessThan(most)
  })

  test('parses a body between those of another namespace that have arrived before', async () => {
    const handled: string[] = []
    const handle: AdmissionHandler = ({ namespace }) => {
      handled.push(namespace)
      return { allowed: true }
    }
    const limits = { ...defaultLimits, bytes: 2 ** 30 }
    // The deadline of a body does not count here.
    const { server, authority, post } = await start(handle, limits, { clock: closable(fakeClock()) })
    const { request: plain, ...review } = JSON.parse(reviewOf({}))
    const object = Object.fromEntries(Array.from({ length: 4000 }, (_property, index) => [`k${index}`, index]))
    const end = Promise.withResolvers<void>()
    let waiting = 0
    const send = async (namespace: string) => {
      const body = Buffer.from(JSON.stringify({ ...review, request: { ...plain, namespace, object } }))
      async function* parts() {
        yield body.subarray(0, -1)
        waiting++
        await end.promise
        yield body.subarray(-1)
      }
      // Each on a connection of its own.
      const dispatcher = new Agent({ allowH2, connect: { ca: authority.pem } })
      closing.push(() => dispatcher.close())
      const path = `https://localhost:${server.port}/mutate?timeout=30s`
      const headers = { 'content-type': 'application/json' }
      const response = await request(path, { method: 'POST', body: Readable.from(parts()), headers, dispatcher })
      await response.body.dump()
      return response.statusCode
    }
    expect((await post('/mutate', reviewOf({}))).code).toBe(200)
    const namespaces = [...Array.from({ length: 12 }, () => 'busy'), 'other']
    const codes = namespaces.map(send)
    await until(() => waiting === namespaces.length)
    end.resolve()
    expect(new Set(await Promise.all(codes))).toEqual(new Set([200]))
    expect(handled.lastIndexOf('busy')).toBeGreaterThan(handled.indexOf('other') + 4)
  })

  describe('behind a front proxy', () => {
    const apiServer = { 'x-remote-user': 'system:apiserver', 'x-remote-group': ['system:masters'] }
    const agentOf = async (
      server: Authority,
      client: Authority,
      name = 'front-proxy-client',
      usage: 'client' | 'server' = 'client',
    ) => {
      const { key, pem } = await issueLeaf(client, [name], Date.now(), usage)
      const agent = new Agent({ allowH2, connect: { ca: server.pem, key, cert: pem } })
      closing.push(() => agent.close())
      return agent
    }
    const frontProxyOf = (authority: Authority): FrontProxy => ({
      authorities: parseAuthorities(authority.pem),
      allowedNames: ['front-proxy-client'],
      usernameHeaders: ['x-remote-user'],
      groupHeaders: ['x-remote-group'],
      uidHeaders: [],
      extraPrefixes: [],
    })
    const begin = async (clock: Clock = systemClock) => {
      const proxy = await createAuthority(Date.now())
      const seen: string[] = []
      const running = await start(
        ({ uid }) => {
          seen.push(uid)
          return { allowed: true }
        },
        defaultLimits,
        { frontProxy: () => frontProxyOf(proxy), clock },
      )
      return { ...running, proxy, seen }
    }

    test('serves the API server at the path of its aggregator', async () => {
      const { post, authority, proxy } = await begin()
      const agent = await agentOf(authority, proxy)
      expect((await post(`${admissionPath}/mutate`, reviewOf({}), agent, apiServer)).body).toEqual(allowed)
    })

    test.each([
      ['/apis/admission.virtset.io/v1alpha1', 200, 'APIResourceList'],
      ['/apis/admission.virtset.io', 200, 'APIGroup'],
      ['/openapi/v2', 200, undefined],
      // The aggregator asks for it while the APIService of version 0.1 leads here.
      ['/apis/subresources.virtset.io/v1alpha1', 200, 'APIResourceList'],
      ['/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachines/web/log', 404, 'Status'],
      ['/apis/admission.virtset.io/v1alpha1/namespaces/default/virtualmachines/web/log', 404, 'Status'],
    ])('answers GET %s with %s for any user', async (path, code, kind) => {
      const { server, authority, proxy } = await begin()
      const dispatcher = await agentOf(authority, proxy)
      const headers = { 'x-remote-user': 'jane' }
      const { statusCode, body } = await request(`https://localhost:${server.port}${path}`, { dispatcher, headers })
      expect([statusCode, ((await body.json()) as { kind?: string }).kind]).toEqual([code, kind])
    })

    test('parses no query', async () => {
      const authority = await createAuthority(Date.now())
      const options = {
        certificate: await serverLeaf(authority),
        metrics: createAdmissionMetrics(createMetrics()),
        log: createLogger({ process: 'test', level: 'silent' }),
        clock: systemClock,
        routes: (app: FastifyInstance) => void app.get('/', async ({ query }) => ({ query })),
      }
      const server = await startServer(options, 0, '127.0.0.1')
      const dispatcher = new Agent({ allowH2, connect: { ca: authority.pem } })
      closing.push(
        () => server.drain(0),
        () => dispatcher.close(),
      )
      const { body } = await request(`https://localhost:${server.port}/?a=1`, { dispatcher })
      expect(await body.json()).toEqual({ query: {} })
    })

    test('reads no body that is sent to another path', async () => {
      const { server, authority, proxy } = await begin()
      const { key, pem } = await issueLeaf(proxy, ['front-proxy-client'], Date.now(), 'client')
      const socket = connect({ port: server.port, ca: authority.pem, servername: 'localhost', key, cert: pem })
      closing.push(async () => socket.destroy())
      socket.write(`POST ${admissionPath} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n`)
      const [answer] = await once(socket, 'data')
      expect(String(answer)).toContain('HTTP/1.1 404')
    })

    test('serves the API server at the path of the webhook configurations of version 0.1', async () => {
      const { post, authority, proxy } = await begin()
      const agent = await agentOf(authority, proxy)
      const path = '/apis/subresources.virtset.io/v1alpha1/admissionreviews/validate'
      expect((await post(path, reviewOf({}), agent, apiServer)).body).toEqual(allowed)
    })

    describe('a large head', () => {
      const groups = Array.from({ length: 1015 }, (_, n) => `${'g'.repeat(96)}${String(n).padStart(4, '0')}`)
      const tooMany = { ...apiServer, x: Array.from({ length: 1500 }, () => 'y'.repeat(100)) }

      /** The codes of the responses to admission requests on one connection, or of errors. */
      const send = async (...heads: readonly Headers[]) => {
        const { server, authority, proxy } = await begin()
        const { key, pem: cert } = await issueLeaf(proxy, ['front-proxy-client'], Date.now(), 'client')
        const tls = { ca: authority.pem, key, cert }
        const origin = `https://localhost:${server.port}`
        const [body, codes] = [reviewOf({}), [] as unknown[]]
        if (isHttp2) {
          // By default, Node's client sends no head above 64 KiB.
          const session = connectHttp2(origin, { ...tls, maxSendHeaderBlockLength: 1024 * 1024 })
          closing.push(async () => session.close())
          for (const head of heads) {
            const stream = session.request({ ':method': 'POST', ':path': '/mutate', ...head })
            stream.once('response', ({ ':status': code }) => codes.push(code)).on('error', () => {})
            const { promise: closed, resolve } = Promise.withResolvers<void>()
            stream.once('close', resolve).resume().end(body)
            await closed
            if (stream.rstCode !== 0) codes.push(stream.rstCode)
          }
          return codes
        }
        const dispatcher = new Agent({ allowH2: false, connect: tls })
        closing.push(() => dispatcher.close())
        for (const headers of heads) {
          const response = await request(`${origin}/mutate`, { method: 'POST', body, headers, dispatcher })
          codes.push(response.statusCode)
          await response.body.dump()
        }
        return codes
      }

      test('has the groups of a user, 1,015 of them', async () => {
        expect(await send({ ...apiServer, 'x-remote-group': [...groups, 'system:masters'] })).toEqual([200])
      })

      test('is refused above the limit, and the next request served', async () => {
        const refusal = isHttp2 ? constants.NGHTTP2_ENHANCE_YOUR_CALM : 431
        expect(await send(apiServer, tooMany, apiServer)).toEqual([200, refusal, 200])
      })
    })

    test.each<[string, Headers, number]>([
      ['closes a connection 1.25 s after a body that the API server forwards began', { 'x-remote-user': 'jane' }, 5],
      ['waits 5 s longer for a body of the API server itself', apiServer, 25],
    ])('%s', async (_, headers, expectedTurns) => {
      const clock = fakeClock(Date.now())
      const { server, authority, proxy, metrics } = await begin(closable(clock))
      const { key, pem } = await issueLeaf(proxy, ['front-proxy-client'], Date.now(), 'client')
      const socket = connect({ port: server.port, ca: authority.pem, servername: 'localhost', key, cert: pem })
      closing.push(async () => socket.destroy())
      let isClosed = false
      socket.on('error', () => {}).once('close', () => (isClosed = true))
      const fields = Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}\r\n`)
      const rest = `content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n${fields.join('')}`
      socket.write(`POST /mutate HTTP/1.1\r\nhost: x\r\n${rest}\r\n{`)
      // The server has read the headers.
      await new Promise((resolve) => socket.once('data', resolve))
      const isRejected = async () =>
        (await metrics()).includes('virtset_admission_rejected_total{path="/mutate",reason="deadline"} 1')
      let turns = 0
      for (; !(await isRejected()) && turns < 100; turns++) await clock.advance(250)
      // The clock has already been ticking for the handshake.
      expect([expectedTurns, expectedTurns + 1]).toContain(turns)
      await until(() => isClosed)
    })

    test.each<[string, Headers]>([
      [
        'a cluster administrator through the API server',
        { 'x-remote-user': 'admin', 'x-remote-group': ['system:masters'] },
      ],
      [
        'a user with the name of the API server but not its group',
        { 'x-remote-user': 'system:apiserver', 'x-remote-group': ['devs'] },
      ],
      ['a request without a user', {}],
    ])('rejects %s', async (_, headers) => {
      const { post, authority, proxy, seen, metrics } = await begin()
      const agent = await agentOf(authority, proxy)
      expect((await post(`${admissionPath}/mutate`, reviewOf({}), agent, headers)).code).toBe(403)
      expect([
        seen,
        (await metrics()).includes('virtset_admission_rejected_total{path="/mutate",reason="unauthenticated"} 1'),
      ]).toEqual([[], true])
    })

    test('rejects a certificate of that authority with another name', async () => {
      const { post, authority, proxy } = await begin()
      const agent = await agentOf(authority, proxy, 'other')
      expect((await post('/mutate', reviewOf({}), agent, apiServer)).code).toBe(403)
    })

    test('the handshake fails without a certificate, with one of another authority, and with one for servers', async () => {
      const { post, authority, proxy, metrics } = await begin()
      const anonymous = new Agent({ allowH2, connect: { ca: authority.pem } })
      closing.push(() => anonymous.close())
      const agents = [
        anonymous,
        await agentOf(authority, await createAuthority(Date.now())),
        await agentOf(authority, proxy, 'front-proxy-client', 'server'),
      ]
      const results = agents.map((agent) => post('/mutate', reviewOf({}), agent, apiServer).catch(() => 'closed'))
      expect(await Promise.all(results)).toEqual(['closed', 'closed', 'closed'])
      expect(await metrics()).toContain('virtset_connections_rejected_total{reason="unauthenticated"} 3')
    })

    test('a new authority applies at once, also to open connections', async () => {
      let trusted = await createAuthority(Date.now())
      const { server, post, authority } = await start(() => ({ allowed: true }), defaultLimits, {
        frontProxy: () => frontProxyOf(trusted),
      })
      const before = await agentOf(authority, trusted)
      expect((await post('/mutate', reviewOf({}), before, apiServer)).code).toBe(200)
      trusted = await createAuthority(Date.now())
      server.renewTrust()
      expect((await post('/mutate', reviewOf({}), before, apiServer)).code).toBe(403)
      expect((await post('/mutate', reviewOf({}), await agentOf(authority, trusted), apiServer)).code).toBe(200)
    })
  })

  describe('a body that does not arrive', () => {
    /** A request that announces `announced` bytes and sends only `sent`. */
    const begin = async () => {
      const clock = fakeClock()
      const running = await start(() => ({ allowed: true }), defaultLimits, { clock: closable(clock) })
      const send = (announced: number, sent: string) => {
        const socket = connect({ port: running.server.port, ca: running.authority.pem, servername: 'localhost' })
        closing.push(async () => socket.destroy())
        const head = `POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${announced}\r\n\r\n`
        socket.on('error', () => {}).write(head + sent)
        return { socket, closed: new Promise((resolve) => socket.once('close', () => resolve('closed'))) }
      }
      return { ...running, clock, send }
    }

    test('does not block other requests, regardless of the announced size', async () => {
      const { post, send } = await begin()
      const many = Array.from({ length: 200 }, () => send(maxBodyBytes, '{'))
      await Promise.all(many.map(({ socket }) => new Promise((resolve) => socket.once('secureConnect', resolve))))
      expect((await post('/mutate', reviewOf({}))).code).toBe(200)
    })

    test('closes the connection at the deadline', async () => {
      const { clock, send, metrics } = await begin()
      const { closed } = send(100, '{')
      await until(
        async () => (await metrics()).includes('virtset_admission_rejected_total{path="/mutate",reason="deadline"} 1'),
        () => clock.advance(250),
      )
      expect(await closed).toBe('closed')
    })
  })

  test('measures patches in bytes', async () => {
    const patch = [{ op: 'add', path: '/metadata/labels', value: { a: 'b' } }] as const
    const { post, metrics } = await start(() => ({ allowed: true, patch: writePatch(patch) }))
    await post('/mutate', reviewOf({}))
    const sum = Number(/virtset_admission_patch_bytes_sum (\d+)/.exec(await metrics())?.[1])
    expect(Math.abs(sum - JSON.stringify(patch).length)).toBeLessThan(3)
  })

  test('serves another certificate to new connections, and open ones continue', async () => {
    const { server, authority, post } = await start(() => ({ allowed: true }))
    await post('/mutate', reviewOf({}))
    const other = await createAuthority(Date.now())
    server.use(await serverLeaf(other))
    expect((await post('/mutate', reviewOf({}))).code).toBe(200)
    const newcomer = new Agent({ allowH2, connect: { ca: other.pem } })
    const outdated = new Agent({ allowH2, connect: { ca: authority.pem } })
    closing.push(
      () => newcomer.close(),
      () => outdated.close(),
    )
    expect((await post('/mutate', reviewOf({}), newcomer)).code).toBe(200)
    await expect(post('/mutate', reviewOf({}), outdated)).rejects.toThrow('certificate')
  })

  test('drains: continues to serve, makes clients reconnect, finishes requests in progress, then stops listening', async () => {
    const slow = Promise.withResolvers<AdmissionResult>()
    const handle: AdmissionHandler = ({ uid }) => (uid === 'slow' ? slow.promise : { allowed: true })
    const clock = fakeClock()
    const { server, post } = await start(handle, defaultLimits, { clock: closable(clock) })
    const first = await post('/mutate', reviewOf({}))
    const inProgress = post('/mutate', reviewOf({}, 'slow'))
    const drained = server.drain(200)
    const during = await post('/mutate', reviewOf({}))
    expect([first.connection, during.connection, during.code]).toEqual(
      isHttp2 ? [undefined, undefined, 200] : ['keep-alive', 'close', 200],
    )
    await clock.advance(200)
    slow.resolve({ allowed: true })
    expect((await inProgress).code).toBe(200)
    await drained
    await expect(post('/mutate', reviewOf({}))).rejects.toThrow('ECONNREFUSED')
  })

  test('drains without waiting for a connection that its client has opened in advance', async () => {
    const { server } = await start(() => ({ allowed: true }))
    const unused = connect({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false })
    await once(unused, 'secureConnect')
    await Promise.all([server.drain(0), once(unused, 'close')])
    expect(unused.destroyed).toBe(true)
  })
})

describe('by HTTP/2, a request', () => {
  /** `send` sends a head, and pieces of a body. Its result has the status or `reset` in `code` later. */
  async function open(clock: Clock) {
    allowH2 = true
    const running = await start(() => ({ allowed: true }), defaultLimits, { clock: closable(clock) })
    const session = connectHttp2(`https://localhost:${running.server.port}`, { ca: running.authority.pem })
    closing.push(async () => session.destroy())
    const send = (head: object, ...pieces: readonly string[]) => {
      const seen: { code?: unknown } = {}
      const stream = session.request({ ...head }, { endStream: pieces.length === 0 })
      stream.on('response', (headers) => (seen.code = headers[':status'])).resume()
      stream.on('close', () => (seen.code ??= 'reset'))
      for (const piece of pieces) stream.write(piece)
      if (pieces.length > 0) stream.end()
      return seen
    }
    return { ...running, send }
  }

  test('to which nothing responds gets a late response, whatever its method, or is reset with its body', async () => {
    const clock = fakeClock()
    const { send, post } = await open(clock)
    const methods = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'FOO']
    const late = [
      ...methods.map((method) => send({ ':method': method, ':path': '/nothing' })),
      send({ ':method': 'CONNECT', ':authority': 'localhost' }),
      send({ ':method': 'GET', ':path': '/nothing', expect: 'a' }),
      send({ ':method': 'POST', ':path': '/nothing', 'content-length': '2' }, 'a', 'b'),
    ]
    const reset = [
      send({ ':method': 'POST', ':path': '/nothing' }, 'a', 'b'),
      send({ ':method': 'POST', ':path': '/nothing', expect: '100-continue' }, 'a'),
      send({ ':method': 'POST', ':path': '/nothing', 'content-length': '5000' }, 'a'.repeat(5000)),
    ]
    expect((await post('/mutate', reviewOf({}))).code).toBe(200)
    await clock.advance(1000)
    expect([...late, ...reset].filter(({ code }) => code !== undefined)).toEqual([])
    await clock.advance(1000)
    await until(() => late.every(({ code }) => code === 404) && reset.every(({ code }) => code === 'reset'))
  })

  test('has a body without a header that announces it', async () => {
    const { send } = await open(systemClock)
    const review = reviewOf({})
    const seen = send({ ':method': 'POST', ':path': '/mutate' }, review.slice(0, 9), review.slice(9))
    expect(await until(() => seen.code)).toBe(200)
  })
})

describe('a request that is reset together with its head', () => {
  const frame = (type: number, flags: number, id: number, payload: Buffer) => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head.writeUInt8(type, 3)
    head.writeUInt8(flags, 4)
    head.writeUInt32BE(id, 5)
    return Buffer.concat([head, payload])
  }
  /** Literals that are not indexed (RFC 7541, 6.2.2). */
  const fieldsOf = (fields: readonly (readonly [string, string])[]) =>
    Buffer.concat(
      fields.flat().map((text, at) => Buffer.from([...(at % 2 === 0 ? [0] : []), text.length, ...Buffer.from(text)])),
    )

  const [noError, cancelled] = [Buffer.alloc(4), Buffer.from([0, 0, 0, 8])]
  test.each<[string, Buffer, readonly (readonly [string, string])[]]>([
    ['and waits for 100 Continue', cancelled, [['expect', '100-continue']]],
    ['without an error, and waits for 100 Continue', noError, [['expect', '100-continue']]],
    ['and announces a body', cancelled, []],
    ['without an error, and announces a body', noError, []],
  ])('%s ends nothing, and takes no place', async (_, code, more) => {
    allowH2 = true
    const one = { requests: 1, bytes: 64 * 1024, responseBytes: 0 }
    const { server, authority, post } = await start(() => ({ allowed: true }), one)
    const socket = connect({ port: server.port, servername: 'localhost', ca: authority.pem, ALPNProtocols: ['h2'] })
    closing.push(async () => socket.destroy())
    await once(socket, 'secureConnect')
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]))
    await once(socket, 'data')
    const head = fieldsOf([
      [':method', 'POST'],
      [':scheme', 'https'],
      [':authority', 'localhost'],
      [':path', '/mutate'],
      ...more,
    ])
    const endOfHeaders = 4
    for (const id of [1, 3, 5]) socket.write(Buffer.concat([frame(1, endOfHeaders, id, head), frame(3, 0, id, code)]))
    const ping = once(socket, 'data')
    socket.write(frame(6, 0, 0, Buffer.alloc(8)))
    await ping
    expect((await post('/mutate', reviewOf({}))).body).toEqual(allowed)
  })
})
