import type { IncomingMessage } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import { fastify } from 'fastify'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createArrivalDeadlines } from '../runtime/arrival-deadline.ts'
import type { Clock } from '../runtime/clock.ts'
import { sleep } from '../runtime/clock.ts'
import type { ConnectionLimits } from '../runtime/connections.ts'
import { guardConnections } from '../runtime/guard.ts'
import type { Logger } from '../runtime/log.ts'
import { createOneByOne } from '../runtime/one-by-one.ts'
import { createTurns, type Turns } from '../runtime/turns.ts'
import { BodyRejected, readBody } from './body.ts'
import { callerOf, isApiServer } from './caller.ts'
import { budgetMs, inTime } from './deadline.ts'
import { createGate, freeBytes } from './gate.ts'
import type { Limits, Pass } from './gate.ts'
import type { RejectionReason, AdmissionMetrics } from './metrics.ts'
import { failedReview, admissionReviewOf, parseAdmissionReview } from './admission/request.ts'
import type { AdmissionRequest, AdmissionReview, Status, AdmissionResult } from './admission/request.ts'
import type { Api } from './subresources/api.ts'
import { groupVersion } from './subresources/discovery.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'
import type { Span, Tracer } from './tracing.ts'

/** The API server sends at most two objects of 3 MiB and a 1 MiB envelope. */
export const maxBodyBytes = 7 * 1024 * 1024
/**
 * In characters; parsing this much takes two or three milliseconds. Smaller bodies do not wait: all of them are parsed
 * in each round of the event loop, beside one large body or one request that takes its turn.
 */
const parsedAtOnce = 256 * 1024

/**
 * Measured: 50 bodies of 3 MiB at once, each with 14,000 disks, need 260 MiB on top of the 120 MiB of an idle process.
 * Usual bodies have a few KiB, so 256 of them fit.
 */
export const defaultLimits: Limits = { requests: 256, bytes: 16 * 1024 * 1024 }

/**
 * An API server has at most 600 requests in flight by default, and opens a connection for each when a replica has just
 * started. A burst of 256 is about half of that. A pending connection takes 14 KiB.
 */
export const connectionLimits: ConnectionLimits = {
  pending: 1024,
  pendingPerAddress: 256,
  burst: 256,
  perSecond: 32,
  proven: 2048,
}

/** 1.25 s for the handshake and for each 64 KiB of a body, so that fifty bodies of 3 MiB can arrive concurrently. */
const deadlineTurns = 5

/**
 * Longer than the 90 s after which Go's client drops an idle connection, so that the client closes it. Go opens
 * connections in advance, so the time before the first request also counts as idle.
 */
const keepAliveTimeoutMs = 95_000

/** Slower requests are logged at info. */
const slowMs = 100

export interface Certificate {
  readonly key: string
  /** The leaf and its intermediate certificates. */
  readonly cert: string
}

/** Resolves when the request may be handled; undefined if that is now. */
export type Turn = () => Promise<void> | undefined

/**
 * Returns synchronously, except for the few requests that need the API server, and while other requests are handled.
 */
export type AdmissionHandler = (request: AdmissionRequest, turn?: Turn) => AdmissionResult | Promise<AdmissionResult>

export interface ServerOptions {
  readonly certificate: Certificate
  readonly mutate: AdmissionHandler
  readonly validate: AdmissionHandler
  readonly metrics: AdmissionMetrics
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: Limits
  /**
   * Identifies the API server by its client certificate. If present, the TLS handshake fails for every other client,
   * and only the API server itself can send admission requests. If absent, every client can; for use without a cluster.
   */
  readonly frontProxy?: () => FrontProxy | undefined
  readonly connections?: ConnectionLimits
  /** The order in which requests are handled. */
  readonly turns?: Turns
  /** Exports spans of admission requests. */
  readonly tracer?: Tracer
  /** Also served here; if present, the server requests client certificates. */
  readonly api?: Api
}

export interface WebhookServer {
  readonly port: number
  /** Serves this certificate to new connections; open ones continue. */
  use(certificate: Certificate): void
  /** To be called after the front proxy's authorities changed. New connections are checked against the new ones. */
  renewTrust(): void
  /**
   * Shuts down without losing a request: serves for another `propagationMs`, with `connection: close` in each response
   * so that clients reconnect to another replica; then stops listening and finishes the requests in progress.
   */
  drain(propagationMs: number): Promise<void>
}

/** The path below which the API server's aggregator sends admission requests. */
export const admissionPath = `/apis/${groupVersion}/admissionreviews`

/**
 * Serves HTTPS on `port` (0: any free one) of `host`: POST to `/mutate` and `/validate`, also below `admissionPath` for
 * the aggregator, and the API.
 */
export async function startServer(options: ServerOptions, port: number, host = '::'): Promise<WebhookServer> {
  const { certificate, metrics, log, clock, api, frontProxy, tracer } = options
  const gate = createGate(options.limits ?? defaultLimits)
  const turns = options.turns ?? createTurns()
  // Parsing a megabyte takes ten milliseconds or more, and the user is known only from the parsed body. So large bodies
  // are parsed one by one, in the order of their arrival.
  const parsing = createOneByOne<string>({ compare: () => 0 })
  const deadlines = createArrivalDeadlines(clock, deadlineTurns)
  const arrivals = new WeakMap<IncomingMessage, number>()
  const passes = new WeakMap<IncomingMessage, Pass>()
  let isDraining = false
  let current = certificate

  const contextOf = (one: Certificate) => ({
    ...one,
    minVersion: 'TLSv1.2' as const,
    // As in Go, an authority need not be a root.
    ...(frontProxy === undefined ? {} : { ca: authoritiesOf(frontProxy()), allowPartialTrustChain: true }),
  })

  const app = fastify({
    https: {
      ...contextOf(certificate),
      // Without a front proxy the API itself identifies the caller, so the handshake must not fail.
      ...(api === undefined && frontProxy === undefined
        ? {}
        : { requestCert: true, rejectUnauthorized: frontProxy !== undefined }),
      // Node also counts the time before the first byte. A request that has begun to arrive has a deadline below.
      headersTimeout: keepAliveTimeoutMs,
    },
    keepAliveTimeout: keepAliveTimeoutMs,
    requestTimeout: keepAliveTimeoutMs,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    logger: false,
  })
  guardConnections(app.server, {
    limits: options.connections ?? connectionLimits,
    deadlines,
    clock,
    rejected: metrics.connectionRejected,
  })

  app.addHook('onRequest', async (request, reply) => {
    if (isDraining) reply.header('connection', 'close')
    expectBody(request.raw, pathOf(request.routeOptions.url))
  })

  /** Closes the connection unless 64 KiB of the body, or its end, arrive within each deadline. */
  const expectBody = (message: IncomingMessage, path: string): void => {
    const { socket } = message
    const before = socket.bytesRead
    const cancel = deadlines.start(() => {
      if (message.complete || message.destroyed) return
      if (socket.bytesRead - before >= freeBytes) return expectBody(message, path)
      metrics.rejected(path, 'deadline')
      socket.destroy()
    })
    message.once('close', cancel)
  }

  app.setErrorHandler((error, request, reply) => {
    const path = pathOf(request.routeOptions.url)
    const { code, rejection, reason, message } = failureOf(error)
    metrics.rejected(path, rejection)
    if (code >= 500) log.error({ err: error, path }, 'an admission request failed')
    else log.warn({ path, reason: rejection, message }, 'an admission request was rejected')
    return sendStatus(reply, { code, reason, message })
  })

  const passOf = (message: IncomingMessage): Pass => {
    const pass = passes.get(message)
    if (pass === undefined) throw new Error('reading the body of a request without a pass')
    return pass
  }

  const respond = async (
    path: string,
    handle: AdmissionHandler,
    http: FastifyRequest,
    reply: FastifyReply,
    request: AdmissionRequest,
    span: Span | undefined,
  ): Promise<AdmissionReview | FastifyReply> => {
    const startedMs = clock.monotonic()
    const leftMs = budgetMs(http.url) - (startedMs - (arrivals.get(http.raw) ?? startedMs))
    const { namespace, user } = request
    let isOver = false
    const displaced = Promise.withResolvers<never>()
    // Without a handler, a rejection before anything awaits the promise would end the process.
    displaced.promise.catch(() => {})
    passOf(http.raw).assign(namespace, () => {
      isOver = true
      displaced.reject(new BodyRejected('overloaded'))
    })
    if (isOver) return displaced.promise
    // A timer can fire a fraction of a millisecond before its time on the clock.
    const isLate = () => isOver || clock.monotonic() - startedMs >= leftMs
    const turn = () => turns.take({ namespace, username: user.username }, isLate)
    const pending = leftMs > 0 ? handle(span ? { ...request, onPart: span.part } : request, turn) : undefined
    const result =
      pending instanceof Promise ? await Promise.race([inTime(pending, leftMs, clock), displaced.promise]) : pending
    isOver = true
    const durationMs = clock.monotonic() - startedMs
    span?.end(spanAttributes(request, result), result === undefined)
    if (result === undefined) {
      metrics.rejected(path, 'timeout')
      const { uid } = request
      log.warn({ path, uid, durationMs, leftMs }, "an admission request exceeded the caller's timeout")
      return sendStatus(reply, { code: 504, reason: 'Timeout', message: timedOut })
    }
    metrics.handled(path, request, result, durationMs / 1000)
    logResult(log, path, http, request, result, durationMs)
    const review = admissionReviewOf(request, result)
    if (review.response.patch !== undefined) metrics.patched(review.response.patch.length * 0.75)
    return review
  }

  /** Checks that the caller is the API server before any of the body is read. */
  const admit = async (request: FastifyRequest, reply: FastifyReply) => {
    const path = pathOf(request.routeOptions.url)
    if (frontProxy !== undefined) {
      const caller = callerOf(request.raw, frontProxy(), clock.now())
      if (caller === undefined || !isApiServer(caller)) {
        metrics.rejected(path, 'unauthenticated')
        return sendStatus(reply, {
          code: 403,
          reason: 'Forbidden',
          message: 'only the API server can send admission requests',
        })
      }
    }
    const pass = gate.enter()
    if (pass === undefined) throw new BodyRejected('overloaded')
    arrivals.set(request.raw, clock.monotonic())
    passes.set(request.raw, pass)
    reply.raw.once('close', pass.leave)
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

  const serveAdmission = async (admission: FastifyInstance) => {
    admission.addHook('onRequest', admit)
    admission.removeAllContentTypeParsers()
    admission.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
      const pass = passOf(payload)
      // JSON.parse keeps a key `__proto__` as data, so it is refused by name as an unknown field.
      const text = await readBody(payload, maxBodyBytes, pass)
      if (text.length > parsedAtOnce) await parsing.take(text)
      return parseJson(text)
    })
    for (const prefix of ['', admissionPath]) {
      admission.post(`${prefix}/mutate`, handle('/mutate', options.mutate))
      admission.post(`${prefix}/validate`, handle('/validate', options.validate))
    }
  }
  void app.register(serveAdmission)
  api?.register(app)

  await app.listen({ port, host })
  const address = app.server.address()
  const renewTrust = () => {
    if (app.server instanceof HttpsServer) app.server.setSecureContext(contextOf(current))
  }
  return {
    port: typeof address === 'object' && address ? address.port : port,
    use(next) {
      current = next
      renewTrust()
    },
    renewTrust,
    async drain(propagationMs) {
      isDraining = true
      await sleep(clock, propagationMs)
      await app.close()
    },
  }
}

const timedOut = 'virtset did not finish in time: it is busy, or waits for the API server; try again'

const authoritiesOf = (frontProxy: FrontProxy | undefined): string[] =>
  (frontProxy?.authorities ?? []).map((authority) => authority.toString())

const textOf = (header: unknown): string | undefined => (typeof header === 'string' ? header : undefined)

/** `/mutate`, `/validate`, or `other` for every other path. */
const pathOf = (url = ''): string =>
  ['/mutate', '/validate'].find((path) => url === path || url === admissionPath + path) ?? 'other'

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new MalformedBody('the body is not valid JSON', { cause })
  }
}

class MalformedBody extends Error {
  override readonly name = 'MalformedBody'
}

interface Failure extends Status {
  readonly rejection: RejectionReason
}

function failureOf(error: unknown): Failure {
  if (error instanceof BodyRejected && error.reason === 'overloaded') {
    const message = 'too many admission requests at once; try again'
    return { code: 429, rejection: 'overloaded', reason: 'TooManyRequests', message }
  }
  if (error instanceof BodyRejected) {
    const message = `an admission request must be at most ${maxBodyBytes} bytes (7 MiB)`
    return { code: 413, rejection: 'too-large', reason: 'BadRequest', message }
  }
  // Fastify's errors carry a status code.
  const code = error instanceof Error && 'statusCode' in error ? error.statusCode : 500
  const isMalformed = error instanceof MalformedBody || (typeof code === 'number' && code >= 400 && code < 500)
  if (isMalformed && error instanceof Error) {
    return { code: 400, rejection: 'malformed', reason: 'BadRequest', message: error.message }
  }
  const message = 'internal error of virtset; see the log of virtset-webhooks'
  return { code: 500, rejection: 'error', reason: 'InternalError', message }
}

/** A `metav1.Status`, whose message the API server shows to the user. */
const sendStatus = (reply: FastifyReply, status: Status) =>
  reply.code(status.code).send({ apiVersion: 'v1', kind: 'Status', status: 'Failure', metadata: {}, ...status })

/** The object and the outcome, without the spec, as in the log. */
const spanAttributes = (request: AdmissionRequest, result: AdmissionResult | undefined) => ({
  'virtset.request.uid': request.uid,
  'virtset.object': objectOf(request),
  'virtset.operation': request.operation,
  'virtset.outcome': result === undefined ? 'timeout' : result.allowed ? 'allowed' : 'refused',
  ...(result?.allowed === false ? { 'virtset.rules': result.causes.map(({ rule }) => rule).join(' ') } : {}),
})

const objectOf = ({ kind, namespace, name }: AdmissionRequest): string =>
  `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`

/** Logs refusals and slow requests at info, others at debug; never the spec, which may contain secrets. */
function logResult(
  log: Logger,
  path: string,
  { headers: { traceparent } }: FastifyRequest,
  request: AdmissionRequest,
  result: AdmissionResult,
  durationMs: number,
): void {
  const isNotable = !result.allowed || durationMs > slowMs
  if (!log.isLevelEnabled(isNotable ? 'info' : 'debug')) return
  const { uid, operation, isDryRun } = request
  const line = {
    path,
    uid,
    object: objectOf(request),
    operation,
    ...(isDryRun ? { isDryRun } : {}),
    durationMs: Math.round(durationMs * 100) / 100,
    ...(result.allowed
      ? { operations: result.patch?.operations ?? 0 }
      : { causes: result.causes.map(({ rule, field }) => `${rule} ${field}`).slice(0, 20) }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
  if (isNotable) log.info(line, result.allowed ? 'slow admission request' : 'refused')
  else log.debug(line, 'allowed')
}
