import { X509Certificate } from 'node:crypto'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { afterEach, expect, test } from 'vitest'
import { createAuthority, createCertificate } from '../../cluster/certificates.ts'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import type { Access } from '../permission.ts'
import { until } from '../../test/until.ts'
import { createApi, type ApiOptions } from './api.ts'
import type { Answer } from './power.ts'
import type { Wish } from './route.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const now = new Date()
const authority = await createAuthority('front-proxy', now)
const proxy = await createCertificate(authority, { commonName: 'front-proxy-client' }, now)
const stranger = await createCertificate(await createAuthority('other', now), { commonName: 'front-proxy-client' }, now)
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
const accepted: Answer = { code: 202, uid: 'u-1', message: 'stopping' }

/** An API server's request, and what came of it: the answer, the wishes carried out, the rights asked for. */
async function ask(
  given: Partial<ApiOptions> & { power?: ApiOptions['power'] } = {},
  sent: { client?: typeof proxy; path?: string; body?: string; signal?: AbortSignal } = {},
) {
  const wishes: Wish[] = []
  const asked: Access[] = []
  const app = fastify({
    https: { key: own.key, cert: own.certificate, requestCert: true, rejectUnauthorized: false },
  })
  createApi({
    power: async (wish) => {
      wishes.push(wish)
      return accepted
    },
    mayAccess: async (_, access) => asked.push(access) > 0,
    frontProxy: () => frontProxy,
    log: createLogger({ process: 'test', level: 'silent' }),
    clock: systemClock,
    ...given,
  }).register(app)
  await app.listen({ port: 0, host: '127.0.0.1' })
  closing.push(() => app.close())
  const { client = proxy, path = stopWeb, body = '{}', signal } = sent
  const { promise, resolve, reject } = Promise.withResolvers<{ code: number; body: { [key: string]: unknown } }>()
  const options = {
    host: '127.0.0.1',
    port: (app.server.address() as AddressInfo).port,
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', 'x-remote-user': 'jane', 'x-remote-group': 'devs' },
    ca: authority.certificate,
    cert: client.certificate,
    key: client.key,
    agent: false,
    ...(signal === undefined ? {} : { signal }),
  }
  request(options, (response) => {
    text(response).then((answer) => resolve({ code: response.statusCode ?? 0, body: JSON.parse(answer) }), reject)
  })
    .on('error', reject)
    .end(body)
  return { ...(await promise), wishes, asked }
}

test('a wish is authorised as an update of the sub-resource, carried out and told as a Status', async () => {
  const answer = await ask()
  expect(answer.asked).toEqual([
    {
      verb: 'update',
      group: 'subresources.virtset.io',
      resource: 'virtualmachineconfigs',
      subresource: 'stop',
      namespace: 'default',
      name: 'web',
    },
  ])
  expect(answer.wishes).toMatchObject([{ verb: 'stop', namespace: 'default', name: 'web' }])
  expect([answer.code, answer.body]).toEqual([
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

test.each<[string, Parameters<typeof ask>, number, object]>([
  ['somebody else’s certificate', [{}, { client: stranger }], 401, { reason: 'Unauthorized' }],
  ['no front proxy to believe', [{ frontProxy: () => undefined }], 401, { reason: 'Unauthorized' }],
  ['no right', [{ mayAccess: async () => false }], 403, { reason: 'Forbidden', message: /User "jane" cannot update/ }],
  ['no such path', [{}, { path: '/apis/other' }], 404, { reason: 'NotFound' }],
  ['more than may be at once', [{ limits: { requests: 0, bytes: 0 } }], 429, { reason: 'TooManyRequests' }],
  ['a body that is too large', [{}, { body: ' '.repeat(64 * 1024 + 1) }], 413, { reason: 'RequestEntityTooLarge' }],
  ['a refusal of the API server', [failing(new ApiError('POST', refusal))], 422, refusal],
  ['an API server that is away', [failing(new ApiUnreachable('POST'))], 503, { reason: 'ServiceUnavailable' }],
  ['our own fault', [failing(new Error('secret'))], 500, { message: 'virtset could not do this; its log says why' }],
])('%s is refused, and nothing done', async (_, [given, sent], code, said) => {
  const answer = await ask(given, sent)
  const { message, ...rest } = { message: '', ...said }
  expect(answer.code).toBe(code)
  expect(answer.body).toMatchObject({ kind: 'Status', status: 'Failure', code, ...rest })
  expect(answer.body['message']).toMatch(message)
  expect(answer.wishes).toEqual([])
})

test('who goes away while his start waits is no failure of ours', async () => {
  const lines: string[] = []
  const log = createLogger({ process: 'test', to: { write: (line) => lines.push(line) } })
  const impatient = new AbortController()
  let isOver = false
  const power: ApiOptions['power'] = (_, signal) =>
    new Promise((_resolve, reject) => {
      signal?.addEventListener('abort', () => {
        reject(signal.reason)
        isOver = true
      })
      impatient.abort()
    })
  await expect(ask({ power, log }, { signal: impatient.signal })).rejects.toThrow('aborted')
  await until(() => isOver)
  await new Promise(setImmediate)
  expect(lines).toEqual([])
})
