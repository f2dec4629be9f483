import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'
import { afterEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { createMetrics } from '../runtime/metrics.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createAuthority, issueLeaf } from './certificates/authority.ts'
import { createAdmissionMetrics } from './metrics.ts'
import type { AdmissionRequest, AdmissionResult } from './admission/request.ts'
import { admissionRoutes } from './admission-routes.ts'
import { startServer } from './server.ts'
import { createTracer, tracingFrom } from './tracing.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

interface Received {
  readonly path: string | undefined
  readonly type: string | undefined
  readonly token: unknown
  readonly body: { readonly resourceSpans: readonly ResourceSpans[] }
}

interface ResourceSpans {
  readonly resource: object
  readonly scopeSpans: readonly { readonly scope: object; readonly spans: readonly ReceivedSpan[] }[]
}

interface ReceivedSpan {
  readonly spanId: string
  readonly name: string
}

/** A collector for OTLP over HTTP. */
async function startCollector(status: number | (() => number) = 200) {
  const received: Received[] = []
  const server = createServer((incoming, response) => {
    let text = ''
    incoming.on('data', (chunk: Buffer) => (text += chunk.toString()))
    incoming.on('end', () => {
      const { 'content-type': type, 'x-token': token } = incoming.headers
      received.push({ path: incoming.url, type, token, body: JSON.parse(text) })
      response
        .writeHead(typeof status === 'number' ? status : status(), { 'content-type': 'application/json' })
        .end('{"partialSuccess":{}}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as AddressInfo
  const spans = () =>
    received.flatMap(({ body }) => body.resourceSpans.flatMap((of) => of.scopeSpans.flatMap((scope) => scope.spans)))
  return { endpoint: `http://127.0.0.1:${port}`, received, spans }
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${traceId}-b7ad6b7169203331-01`

function tracing(endpoint: string) {
  const clock = fakeClock(Date.UTC(2030, 0, 1))
  const lines: { msg?: string; lostSpans?: number }[] = []
  const log = createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } })
  const settings = tracingFrom({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: 'x-token=a%20b' })
  if (settings === undefined) throw new Error('no endpoint')
  const tracer = createTracer({ ...settings, clock, log })
  closing.push(() => tracer.stop())
  return { clock, lines, tracer }
}

test('sends a span and its parts as OTLP', async () => {
  const { endpoint, received } = await startCollector()
  const { clock, tracer } = tracing(endpoint)
  const span = tracer.begin('admission /mutate', traceparent)
  await clock.advance(3)
  span?.part('presets', 0.002)
  await clock.advance(1)
  span?.end({ 'virtset.outcome': 'refused' }, true)
  span?.end({}, false)
  await clock.advance(2000)
  await until(() => received.length > 0)
  const id: unknown = expect.stringMatching(/^[0-9a-f]{16}$/)
  const own = received[0]?.body.resourceSpans[0]?.scopeSpans[0]?.spans[0]?.spanId
  expect(received).toEqual([
    {
      path: '/v1/traces',
      type: 'application/json',
      token: 'a b',
      body: {
        resourceSpans: [
          {
            resource: { attributes: [{ key: 'service.name', value: { stringValue: 'virtset-webhooks' } }] },
            scopeSpans: [
              {
                scope: { name: 'virtset' },
                spans: [
                  {
                    traceId,
                    spanId: id,
                    parentSpanId: 'b7ad6b7169203331',
                    name: 'admission /mutate',
                    kind: 2,
                    startTimeUnixNano: '1893456000000000000',
                    endTimeUnixNano: '1893456000004000000',
                    attributes: [{ key: 'virtset.outcome', value: { stringValue: 'refused' } }],
                    status: { code: 2 },
                  },
                  {
                    traceId,
                    spanId: id,
                    parentSpanId: own,
                    name: 'presets',
                    kind: 1,
                    startTimeUnixNano: '1893456000001000000',
                    endTimeUnixNano: '1893456000003000000',
                  },
                ],
              },
            ],
          },
        ],
      },
    },
  ])
})

test.each([
  ['the request has no traceparent', undefined],
  ['the caller does not record', `00-${traceId}-b7ad6b7169203331-00`],
  ['the traceparent is malformed', 'traced'],
])('begins no span if %s', (_, header) => {
  expect(tracing('http://localhost:1').tracer.begin('admission', header)).toBeUndefined()
})

test.each<[string, number]>([
  ['is unreachable', 0],
  ['responds with an error', 503],
])('logs the lost spans if the collector %s', async (_, status) => {
  const endpoint = status === 0 ? 'http://127.0.0.1:1' : (await startCollector(status)).endpoint
  const { lines, tracer } = tracing(endpoint)
  for (let count = 0; count < 5000; count++) tracer.begin('admission', traceparent)?.end({}, false)
  await tracer.stop()
  expect(lines).toMatchObject([
    { level: 'warn', msg: 'the collector does not accept spans; they are lost', lostSpans: 5000 },
  ])
})

test('logs once that the collector is unavailable, and once that it is back, with the number of lost spans', async () => {
  const statuses = [200, 503, 503, 503, 200, 200, 503]
  const { endpoint, received } = await startCollector(() => statuses[received.length - 1] ?? 200)
  const { lines, tracer } = tracing(endpoint)
  for (const _ of statuses) {
    tracer.begin('admission', traceparent)?.end({}, false)
    await tracer.stop()
  }
  expect(lines.map(({ msg, lostSpans }) => [msg, lostSpans])).toEqual([
    ['the collector does not accept spans; they are lost', 1],
    ['the collector accepts spans again', 3],
    ['the collector does not accept spans; they are lost', 1],
  ])
})

test.each([
  [{}, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:4318/' }, 'http://a:4318/v1/traces'],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/x' }, 'http://b/x'],
])('%j sends to %s', (env, url) => expect(tracingFrom(env)?.url).toBe(url))

test.each<[string, () => AdmissionResult | Promise<AdmissionResult>, string]>([
  ['allowed', () => ({ allowed: true }), 'allowed'],
  ['late', () => new Promise<AdmissionResult>(() => {}), 'timeout'],
  [
    'failed',
    () => {
      throw new Error('internal')
    },
    'error',
  ],
])('a request that is %s is a span of the API server’s trace', async (_, decide, outcome) => {
  const { endpoint, spans } = await startCollector()
  const { clock, tracer } = tracing(endpoint)
  const authority = await createAuthority(Date.now())
  const { key, pem } = await issueLeaf(authority, ['localhost'], Date.now())
  const handle = (incoming: AdmissionRequest) => {
    incoming.onPart?.('presets', 0.001)
    return decide()
  }
  const shared = {
    metrics: createAdmissionMetrics(createMetrics()),
    log: createLogger({ process: 'test', level: 'silent' }),
    clock,
  }
  const routes = admissionRoutes({ ...shared, mutate: handle, validate: handle, tracer })
  const server = await startServer({ ...shared, certificate: { key, cert: pem }, routes }, 0, '127.0.0.1')
  closing.push(() => Promise.all([server.drain(0), clock.advance(1)]))
  const dispatcher = new Agent({ connect: { ca: authority.pem } })
  closing.push(() => dispatcher.close())
  const reviewed = { uid: 'u', kind: { kind: 'VirtualMachine' }, operation: 'CREATE', name: 'a', namespace: 'ns' }
  const response = request(`https://localhost:${server.port}/mutate`, {
    method: 'POST',
    dispatcher,
    headers: { 'content-type': 'application/json', traceparent },
    body: JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: reviewed }),
  })
  await until(
    () => spans().length === 2,
    () => clock.advance(1000),
  )
  await (await response).body.dump()
  expect(spans()).toMatchObject([{ name: 'admission /mutate' }, { name: 'presets' }])
  expect(JSON.stringify(spans()[0])).toContain(JSON.stringify({ stringValue: outcome }))
})
