import { randomBytes } from 'node:crypto'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'

/** A span in progress, which belongs to the caller's trace. */
export interface Span {
  /** Adds a child span that ends now. */
  readonly part: (name: string, seconds: number) => void
  /** Ends the span and queues it for export; later calls have no effect. */
  readonly end: (attributes: Readonly<Record<string, string>>, isError: boolean) => void
}

export interface Tracer {
  /** Undefined if the caller does not record a trace; nothing is traced here then either. */
  begin(name: string, traceparent: string | undefined): Span | undefined
  /** Sends the queued spans. */
  stop(): Promise<void>
}

export interface TracerOptions {
  /** A collector's endpoint for OTLP over HTTP in JSON: `http://collector:4318/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly service: string
  readonly clock: Clock
  readonly log: Logger
}

/** How long a span waits to be sent in a batch. */
const waitMs = 2000
/** As many spans as fit in a few MiB. Without a reachable collector spans are lost, but admission continues. */
const maxWaiting = 4096
const maxSendMs = 10_000

/**
 * https://www.w3.org/TR/trace-context/: version, trace, parent, flags; the last bit of the flags is set if the caller
 * records.
 */
const traceparentShape = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f][13579bdf]$/

/** Sends spans by OTLP/HTTP in JSON (opentelemetry-proto 1.x), many at a time. */
export function createTracer({ url, headers, service, clock, log }: TracerOptions): Tracer {
  let waiting: object[] = []
  let lost = 0
  let isUnavailable = false
  let cancel: (() => void) | undefined
  let sending: Promise<void> = Promise.resolve()
  const add = (span: object) => {
    if (waiting.length >= maxWaiting) lost++
    else waiting.push(span)
    cancel ??= clock.after(waitMs, send)
  }
  function send(): void {
    cancel?.()
    cancel = undefined
    const spans = waiting
    waiting = []
    if (spans.length > 0) sending = Promise.all([sending, post(spans)]).then(() => {})
  }
  async function post(spans: readonly object[]): Promise<void> {
    const resource = { attributes: attributesOf({ 'service.name': service }) }
    const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'virtset' }, spans }] }] })
    const all = { 'content-type': 'application/json', ...headers }
    try {
      const response = await fetch(url, { method: 'POST', headers: all, body, signal: AbortSignal.timeout(maxSendMs) })
      await response.arrayBuffer()
      if (!response.ok) throw new Error(`the collector responded with ${response.status}`)
      if (isUnavailable || lost > 0) log.info({ url, lostSpans: lost }, 'the collector accepts spans again')
      isUnavailable = false
      lost = 0
    } catch (error) {
      lost += spans.length
      // Logged once, not every two seconds while the collector is unavailable.
      if (!isUnavailable)
        log.warn({ err: error, url, lostSpans: lost }, 'the collector does not accept spans; they are lost')
      isUnavailable = true
    }
  }
  return {
    begin(name, traceparent = '') {
      const [, traceId, parentSpanId] = traceparentShape.exec(traceparent) ?? []
      if (traceId === undefined || parentSpanId === undefined) return undefined
      const spanId = newId()
      const beginMs = clock.monotonic()
      const epochMs = clock.now() - beginMs
      const span = (id: string, parent: string, called: string, fromMs: number, toMs: number) => ({
        traceId,
        spanId: id,
        parentSpanId: parent,
        name: called,
        startTimeUnixNano: nanoseconds(epochMs + fromMs),
        endTimeUnixNano: nanoseconds(epochMs + toMs),
      })
      let parts: object[] | undefined = []
      return {
        part(called, seconds) {
          const nowMs = clock.monotonic()
          parts?.push({ ...span(newId(), spanId, called, nowMs - seconds * 1000, nowMs), kind: spanKinds.internal })
        },
        end(attributes, isError) {
          const whole = span(spanId, parentSpanId, name, beginMs, clock.monotonic())
          const status = isError ? { status: { code: errorStatus } } : {}
          const ended = { ...whole, kind: spanKinds.server, attributes: attributesOf(attributes), ...status }
          if (parts !== undefined) for (const one of [ended, ...parts]) add(one)
          parts = undefined
        },
      }
    },
    async stop() {
      send()
      await sending
    },
  }
}

const spanKinds = { internal: 1, server: 2 } as const
const errorStatus = 2

const newId = (): string => randomBytes(8).toString('hex')

/** A JSON number is exact to microseconds only. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1000)}000`

const attributesOf = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([key, stringValue]) => ({ key, value: { stringValue } }))

/**
 * Reads OpenTelemetry's environment variables for the exporter; undefined if they set no endpoint.
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
export function tracingFrom(env: Readonly<Record<string, string | undefined>>) {
  const base = env['OTEL_EXPORTER_OTLP_ENDPOINT']?.replace(/\/$/, '')
  const url = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] ?? (base && `${base}/v1/traces`)
  if (!url) return undefined
  const pairs = (env['OTEL_EXPORTER_OTLP_TRACES_HEADERS'] ?? env['OTEL_EXPORTER_OTLP_HEADERS'] ?? '').split(',')
  const headers = pairs.flatMap((pair) => {
    const [, key = '', value = ''] = /^([^=\s]+)\s*=(.*)$/.exec(pair.trim()) ?? []
    return key === '' ? [] : [[key, decodeURIComponent(value.trim())] as const]
  })
  return { url, headers: Object.fromEntries(headers), service: env['OTEL_SERVICE_NAME'] ?? 'virtset-webhooks' }
}
