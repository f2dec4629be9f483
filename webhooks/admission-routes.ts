import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { jsonBytes } from '../api/json-bytes.ts'
import type { Clock } from '../runtime/clock.ts'
import { createLimitedLog } from '../runtime/limited-log.ts'
import type { Logger } from '../runtime/log.ts'
import { createTurns, type Owner, type Turns } from '../runtime/turns.ts'
import { headOf } from './admission/head.ts'
import { admissionReviewOf, failedReview, parseAdmissionReview } from './admission/request.ts'
import type { AdmissionRequest, AdmissionResult, AdmissionReview } from './admission/request.ts'
import { BodyRejected, maxBodyBytes, parseBody, readBody } from './body.ts'
import { callerOf, isApiServer } from './caller.ts'
import { budgetMs, inTime } from './deadline.ts'
import { discoveryOf, version } from './discovery.ts'
import { createGate } from './gate.ts'
import type { Limits, Pass } from './gate.ts'
import { streamOf } from './http2.ts'
import { createLateResponses } from './late-response.ts'
import type { AdmissionMetrics } from './metrics.ts'
import { loggedFor, logResult, spanAttributes } from './request-log.ts'
import { notApiServer, notFound, sendStatus, timeout } from './respond.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'
import { subresourcesApi } from './subresources/user-api.ts'
import { tenantOfRequest } from './tenant-requests.ts'
import type { Span, Tracer } from './tracing.ts'

/**
 * In characters. Parsing this much takes at most half a millisecond, and 30 ms for 256 KiB of properties with names of
 * their own. Smaller bodies do not wait: all of them are parsed in each round of the event loop, beside one large body
 * and one request that takes its turn.
 */
const parsedAtOnce = 16 * 1024

/**
 * Of heap, together with what each request may hold in any case: 128 MiB; requests for subresources may hold 64 more. Of
 * the 512 MiB of the manifest, V8 gives the heap 280, and an idle process takes 55 of them.
 */
export const defaultLimits: Limits = { requests: 256, bytes: 96 * 1024 * 1024, responseBytes: 48 * 1024 * 1024 }

/** A patch is there in base64, in the text of the response, and encrypted, until the API server has read it. */
const copies = 3
/** Bytes: of the causes and the name of an object, with six for each character. */
const longestRefusal = 2 * 1024 * 1024

const group = 'admission.virtset.io'

/** The path below which the API server's aggregator sends admission requests. */
export const admissionPath = `/apis/${group}/${version}/admissionreviews`

/** Those of `--presets`, of the aggregator, and of the webhook configurations of version 0.1. */
const prefixes = ['', admissionPath, `/apis/${subresourcesApi.group}/${version}/admissionreviews`]

/** The aggregator considers an API available if the document of its version is served. */
const documents = new Map(
  [...discoveryOf(subresourcesApi.group, []), ...discoveryOf(group, [])].map(([path, document]) => [
    path,
    JSON.stringify(document),
  ]),
)

/** What does not exist is requested by users with rights in all API groups, thousands of times at once. */
const mostLate = 2048
/** Bytes. */
const smallBody = 4096

/** Resolves when the request may be handled; undefined if that is now. */
export type Turn = () => Promise<void> | undefined

/**
 * Returns synchronously, except for the few requests that need the API server, and while other requests are handled.
 * The signal aborts when the response is no longer awaited; the result then does not matter.
 */
export type AdmissionHandler = (
  request: AdmissionRequest,
  turn?: Turn,
  signal?: AbortSignal,
) => AdmissionResult | Promise<AdmissionResult>

export interface AdmissionOptions {
  readonly mutate: AdmissionHandler
  readonly validate: AdmissionHandler
  /** Applies presets to objects of other APIs; if absent, `/objects` is not served. */
  readonly objects?: AdmissionHandler
  readonly metrics: AdmissionMetrics
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: Limits
  /**
   * Identifies the API server by its client certificate. If present, the TLS handshake fails for every other client,
   * and only the API server itself can send admission requests. If absent, every client can; for use without a cluster.
   */
  readonly frontProxy?: () => FrontProxy | undefined
  /** The order in which requests are handled. */
  readonly turns?: Turns
  /** Exports spans of admission requests. */
  readonly tracer?: Tracer
}

/** Why what a request waits for is aborted. One for all, because an error has a stack trace, which takes time. */
const ended = new Error('the admission request has ended')

/** A request whose body may not be parsed yet. */
interface Arrival {
  readonly pass: Pass
  readonly sinceMs: number
  /** Aborts when the response is no longer awaited. */
  readonly signal: AbortSignal
  readonly end: () => void
  /** Rejects when the request loses its place. */
  readonly displaced: Promise<never>
  readonly displace: () => void
}

/**
 * POST to `/mutate`, `/validate` and `/objects`, also below `admissionPath` for the aggregator. Whoever has rights in
 * all API groups can send any other request, which is therefore answered before anything of it is read.
 */
export const admissionRoutes = (options: AdmissionOptions) => (app: FastifyInstance) => {
  const beLate = createLateResponses(mostLate, options.clock)
  void app.register(reviewRoutes(options))
  void app.register(async (others) => {
    others.addHook('onRequest', async (request, reply) => {
      const document = documents.get(request.routeOptions.url ?? '')
      if (document !== undefined) return reply.type('application/json').send(document)
      // By HTTP/1.1, it would occupy a connection.
      if (streamOf(request.raw) !== undefined) {
        // A body that is not read has a deadline, and reading one without end would take all of the CPU.
        if (Number(request.headers['content-length']) <= smallBody) request.raw.resume()
        await beLate(request.raw)
      }
      return sendStatus(reply, notFound)
    })
    for (const path of documents.keys()) others.get(path, async () => undefined)
    others.all('/*', async () => undefined)
  })
}

function reviewRoutes(options: AdmissionOptions): FastifyPluginAsync {
  const { metrics, log, clock, frontProxy, tracer } = options
  const limitedLog = createLimitedLog(log, clock)
  const gate = createGate(options.limits ?? defaultLimits)
  const turns = options.turns ?? createTurns()
  // Parsing a megabyte takes ten milliseconds or more.
  const parsing = createTurns()
  const arrivals = new WeakMap<IncomingMessage, Arrival>()

  const arrivalOf = (message: IncomingMessage): Arrival => {
    const arrival = arrivals.get(message)
    if (arrival === undefined) throw new Error('reading the body of a request without a pass')
    return arrival
  }

  const respond = async (
    path: string,
    handle: AdmissionHandler,
    http: FastifyRequest,
    reply: FastifyReply,
    request: AdmissionRequest,
    span: Span | undefined,
  ): Promise<AdmissionReview | FastifyReply> => {
    const { pass, sinceMs, signal, end, displaced } = arrivalOf(http.raw)
    if (signal.aborted) return displaced
    const startedMs = clock.monotonic()
    const leftMs = budgetMs(http.url) - (startedMs - sinceMs)
    const owner = ownerOf(request)
    // A timer can fire a fraction of a millisecond before its time on the clock.
    const isLate = () => signal.aborted || clock.monotonic() - startedMs >= leftMs
    const turn = () => turns.take(owner, isLate)
    const pending = leftMs > 0 ? handle(span ? { ...request, onPart: span.part } : request, turn, signal) : undefined
    const result =
      pending instanceof Promise ? await Promise.race([inTime(pending, leftMs, clock), displaced]) : pending
    end()
    const durationMs = clock.monotonic() - startedMs
    span?.end(spanAttributes(request, result), result === undefined)
    if (result === undefined) {
      metrics.rejected(path, 'timeout')
      const { uid } = request
      const late = "an admission request exceeded the caller's timeout"
      limitedLog(loggedFor(request), { path, uid, durationMs, leftMs }, late, 'warn')
      return sendStatus(reply, timeout)
    }
    const review = admissionReviewOf(request, result)
    const { patch, status } = review.response
    const text = patch?.length ?? jsonBytes(status, longestRefusal)
    if (!pass.respond(copies * text)) throw new BodyRejected('overloaded')
    // From now on, it cannot become a refusal, and would still take memory.
    displaced.catch(() => reply.raw.writableFinished || reply.raw.destroy())
    metrics.handled(path, request, result, durationMs / 1000)
    logResult({ log, limitedLog }, path, http, request, result, durationMs)
    if (patch !== undefined) metrics.patched(patch.length * 0.75)
    return review
  }

  /** Checks that the caller is the API server before any of the body is read. */
  const admit = async (request: FastifyRequest, reply: FastifyReply) => {
    const path = pathOf(request.routeOptions.url)
    if (frontProxy !== undefined) {
      const caller = callerOf(request.raw, frontProxy(), clock.now())
      if (caller === undefined || !isApiServer(caller)) {
        metrics.rejected(path, 'unauthenticated')
        return sendStatus(reply, notApiServer)
      }
    }
    const pass = gate.enter()
    if (pass === undefined) throw new BodyRejected('overloaded')
    const { promise: displaced, reject } = Promise.withResolvers<never>()
    // Without a handler, a rejection before anything awaits the promise would end the process.
    displaced.catch(() => {})
    const over = new AbortController()
    const end = () => over.abort(ended)
    const displace = () => {
      reject(new BodyRejected('overloaded'))
      end()
    }
    arrivals.set(request.raw, { pass, sinceMs: clock.monotonic(), signal: over.signal, end, displaced, displace })
    reply.raw.once('close', () => {
      pass.leave()
      // Its place is free again, so what it waits for must not remain.
      end()
    })
    return undefined
  }

  const handle =
    (path: string, handler: AdmissionHandler) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<AdmissionReview | FastifyReply> => {
      const parsed = parseAdmissionReview(request.body)
      if ('problem' in parsed) {
        metrics.rejected(path, 'malformed')
        return failedReview(parsed.uid, { code: 400, reason: 'BadRequest', message: parsed.problem })
      }
      const span = tracer?.begin(`admission ${path}`, textOf(request.headers.traceparent))
      try {
        return await respond(path, handler, request, reply, parsed.request, span)
      } catch (error) {
        span?.end({ 'virtset.outcome': 'error' }, true)
        throw error
      }
    }

  return async (admission) => {
    admission.addHook('onRequest', admit)
    admission.removeAllContentTypeParsers()
    admission.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
      const { pass, signal, displaced, displace } = arrivalOf(payload)
      const text = await readBody(payload, maxBodyBytes, pass)
      const head = headOf(text)
      const owner = head === undefined ? unknownOwner : ownerOf(head)
      pass.assign(owner.tenant, displace)
      const turn = text.length > parsedAtOnce ? parsing.take(owner, () => signal.aborted) : undefined
      await Promise.race([displaced, turn])
      // JSON.parse keeps a key `__proto__` as data, so it is refused by name as an unknown field.
      return parseBody(text)
    })
    for (const prefix of prefixes) {
      admission.post(`${prefix}/mutate`, handle('/mutate', options.mutate))
      admission.post(`${prefix}/validate`, handle('/validate', options.validate))
      if (options.objects !== undefined) admission.post(`${prefix}/objects`, handle('/objects', options.objects))
    }
  }
}

const ownerOf = (request: AdmissionRequest): Owner => ({
  tenant: tenantOfRequest(request),
  username: request.user.username,
})

/** Of reviews that no API server writes. They share what a tenant has. */
const unknownOwner: Owner = { tenant: '', username: '' }

const textOf = (header: unknown): string | undefined => (typeof header === 'string' ? header : undefined)

/** `/mutate`, `/validate`, `/objects`, or `other` for every other path. */
export const pathOf = (url = ''): string =>
  ['/mutate', '/validate', '/objects'].find((path) => prefixes.some((prefix) => url === prefix + path)) ?? 'other'
