import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { Counter, Registry } from 'prom-client'
import { Agent, Client, request } from 'undici'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createLogger } from './log.ts'
import { startMetricsServer } from './metrics-server.ts'
import type { MetricsServer } from './metrics-server.ts'

const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })
let server: MetricsServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

/**
 * An API server where `good` is Prometheus' token, `other` another user's, `slow` gets a late response, and `down`
 * none.
 */
async function setUp() {
  const asked: unknown[] = []
  const slow: (() => void)[] = []
  const kube = {
    request: (_method: string, path: string, body?: object): Promise<unknown> => {
      asked.push([path.split('/').at(-1), body && 'spec' in body ? body.spec : undefined])
      const text = JSON.stringify(body)
      if (text.includes('slow')) return new Promise((resolve) => slow.push(() => resolve({ status: {} })))
      if (text.includes('down')) return Promise.reject(new Error('unreachable'))
      if (path.endsWith('subjectaccessreviews'))
        return Promise.resolve({ status: { allowed: text.includes('prometheus') } })
      const user = text.includes('good') ? 'prometheus' : text.includes('other') ? 'other' : undefined
      const status = user === undefined ? {} : { authenticated: true, user: { username: user, groups: ['g'] } }
      return Promise.resolve({ status })
    },
  }
  const registry = new Registry()
  new Counter({ name: 'things', help: 'Things', registers: [registry] }).inc(3)
  const clock = fakeClock()
  const log = createLogger({ process: 'test', level: 'silent' })
  server = await startMetricsServer({ port: 0, host: '127.0.0.1', registry, kube, log, clock })
  const { port } = server
  const ask = async (authorization?: string, path = '/metrics', method: 'GET' | 'POST' = 'GET') => {
    const headers = authorization === undefined ? {} : { authorization }
    const answer = await request(`https://127.0.0.1:${port}${path}`, { method, headers, dispatcher })
    return `${answer.statusCode} ${await answer.body.text()}`
  }
  return { ask, asked, clock, slow }
}

test.each<[string | undefined, string]>([
  [undefined, '401 unauthenticated\n'],
  ['Basic good', '401 unauthenticated\n'],
  ['Bearer made-up', '401 unauthenticated\n'],
  ['Bearer other', '403 forbidden\n'],
  ['Bearer down', '503 the API server does not respond\n'],
])('authorization %s: %s', async (authorization, answer) => {
  const { ask } = await setUp()
  expect(await ask(authorization)).toBe(answer)
})

test('a user with the permission to get /metrics reads them', async () => {
  const { ask, asked } = await setUp()
  expect(await ask('Bearer good')).toContain('\nthings 3\n')
  expect(asked).toEqual([
    ['tokenreviews', { token: 'good' }],
    [
      'subjectaccessreviews',
      { user: 'prometheus', groups: ['g'], nonResourceAttributes: { path: '/metrics', verb: 'get' } },
    ],
  ])
})

test('the result of a review is cached for a minute', async () => {
  const { ask, asked, clock } = await setUp()
  // lru-cache takes a start at 0 for none at all. No process is as young.
  await clock.advance(1)
  await ask('Bearer good')
  await ask('Bearer good')
  expect(asked.length).toBe(2)
  await clock.advance(60_001)
  await ask('Bearer good')
  expect(asked.length).toBe(4)
})

test.each<[string, 'GET' | 'POST']>([
  ['/', 'GET'],
  ['/log-level', 'GET'],
  ['/metrics', 'POST'],
])('there is nothing at %s for %s', async (path, method) => {
  const { ask, asked } = await setUp()
  expect([await ask('Bearer good', path, method), asked]).toEqual(['404 not found\n', []])
})

test('a client with invented tokens does not make it busy for good', async () => {
  const { ask, slow, clock } = await setUp()
  const waiting = [1, 2, 3].map((n) => ask(`Bearer slow-${n}`))
  await until(() => slow.length === 2)
  await clock.advance(5000)
  expect(await waiting[2]).toBe('503 busy\n')
  for (const answer of slow) answer()
  expect(await Promise.all(waiting.slice(0, 2))).toEqual(['401 unauthenticated\n', '401 unauthenticated\n'])
  expect(await ask('Bearer good')).toMatch(/^200 /)
})

test('the body of an authenticated client is not stored while another token is reviewed', async () => {
  const { ask, slow } = await setUp()
  let received: IncomingMessage | undefined
  const channel = 'http.server.request.start'
  const see = (message: unknown) => (received = (message as { readonly request: IncomingMessage }).request)
  subscribe(channel, see)
  onTestFinished(() => void unsubscribe(channel, see))
  const client = new Client(`https://127.0.0.1:${server?.port}`, { connect: { rejectUnauthorized: false } })
  onTestFinished(() => client.close())
  const get = (token: string, body: string | null = null) =>
    client.request({ path: '/metrics', method: 'GET', headers: { authorization: `Bearer ${token}` }, body })
  await (await get('good')).body.dump()
  const answered = get('slow', 'x'.repeat(20_000))
  await until(() => slow.length === 1 && received?.complete === true)
  expect(received?.readableLength).toBe(0)
  slow[0]?.()
  expect((await answered).statusCode).toBe(401)
  expect(await ask('Bearer good')).toContain('things 3')
})
