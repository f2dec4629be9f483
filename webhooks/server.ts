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
import { BodyRejected, readBody } from './body.ts'
import { callerOf, isApiServer } from './caller.ts'
import { budgetMs, inTime } from './deadline.ts'
import { createGate, freeBytes } from './gate.ts'
import type { Limits, Pass } from './gate.ts'
import type { RejectionReason, ReviewMetrics } from './metrics.ts'
import { answerFailure, answerReview, parseReview } from './review.ts'
import type { Review, ReviewAnswer, Status, Verdict } from './review.ts'
import type { Api } from './subresources/api.ts'
import { groupVersion } from './subresources/discovery.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'
import type { Span, Tracer } from './tracing.ts'

/** The API server sends at most two objects of 3 MiB and a 1 MiB envelope. */
export const maxBodyBytes = 7 * 1024 * 1024

/**
 * Measured: 50 bodies of 3 MiB at once, each with 14,000 disks, take 260 MiB beside the 120 that the process has anyway. Usual bodies have a few
 * KiB: all that may come at once fit.
 */
export const defaultLimits: Limits = { requests: 256, bytes: 16 * 1024 * 1024 }

/**
 * An API server has at most 600 requests in flight by default, and opens a connection for each when a replica has just started: a burst of 256 is half of that.
 * A pending connection takes 14 KiB.
 */
export const connectionLimits: ConnectionLimits = {
  pending: 1024,
  pendingPerAddress: 256,
  burst: 256,
  perSecond: 32,
  proven: 2048,
}

/** A second and a quarter for the handshake, and for each 64 KiB of a request's body: fifty bodies of 3 MiB may come together. */
const deadlineTurns = 5

/**
 * Longer than the 90 s after which Go's client drops an idle connection: the client is the one who closes. Go opens connections in advance, so the time
 * before the first request counts as idle too.
 */
const keepAliveTimeoutMs = 95_000

/** Reviews that took longer are worth a line at info. */
const slowMs = 100

export interface Certificate {
  readonly key: string
  /** The leaf, and what stands between it and an authority. */
  readonly cert: string
}

/** A verdict is there at once, but for the few reviews for which the API server has to be asked something. */
export type Reviewer = (review: Review) => Verdict | Promise<Verdict>

export interface ServerOptions {
  readonly certificate: Certificate
  readonly mutate: Reviewer
  readonly validate: Reviewer
  readonly metrics: ReviewMetrics
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: Limits
  /**
   * Whose client certificate proves that the API server is calling. With it, the TLS handshake fails for anybody else, and only the API server itself is given
   * reviews. Absent: anybody is; for use without a cluster.
   */
  readonly frontProxy?: () => FrontProxy | undefined
  readonly connections?: ConnectionLimits
  /** Where spans of reviews go; nowhere where absent. */
  readonly tracer?: Tracer
  /** What else is served here; with it, clients are asked for a certificate. */
  readonly api?: Api
}

export interface WebhookServer {
  readonly port: number
  /** New connections get it; those that are open go on. */
  use(certificate: Certificate): void
  /** The front proxy has other authorities: new connections are checked against them. */
  renewTrust(): void
  /**
   * The end without a lost request: for `propagationMs` everything is served as before, but each answer asks its client to
   * connect anew, elsewhere; then nothing new is taken, and what is under way is finished.
   */
  drain(propagationMs: number): Promise<void>
}

/** Where the API server's aggregator sends reviews. */
export const reviewsPath = `/apis/${groupVersion}/admissionreviews`

/**
 * HTTPS on `port` (0: any free one) of `host`: POST to `/mutate` and `/validate`, which the aggregator reaches below `reviewsPath`, and the API.
 */
export async function startServer(options: ServerOptions, port: number, host = '::'): Promise<WebhookServer> {
  const { certificate, metrics, log, clock, api, frontProxy, tracer } = options
  const gate = createGate(options.limits ?? defaultLimits)
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
      // The API judges for itself who is calling where no front proxy is given.
      ...(api === undefined && frontProxy === undefined
        ? {}
        : { requestCert: true, rejectUnauthorized: frontProxy !== undefined }),
      // Node counts the time before anything has arrived, too. What has begun to arrive has a deadline below.
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

  /** Closes the connection unless the body arrives, 64 KiB in each deadline. */
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
    if (code >= 500) log.error({ err: error, path }, 'a review failed')
    else log.warn({ path, reason: rejection, message }, 'a request was rejected')
    return sendStatus(reply, { code, reason, message })
  })

  const answerTo = async (
    path: string,
    judge: Reviewer,
    request: FastifyRequest,
    reply: FastifyReply,
    review: Review,
    span: Span | undefined,
  ): Promise<ReviewAnswer | FastifyReply> => {
    const startedMs = clock.monotonic()
    const leftMs = budgetMs(request.url) - (startedMs - (arrivals.get(request.raw) ?? startedMs))
    const asked = leftMs > 0 ? judge(span ? { ...review, onPart: span.part } : review) : undefined
    const verdict = asked instanceof Promise ? await inTime(asked, leftMs, clock) : asked
    const durationMs = clock.monotonic() - startedMs
    span?.end(spanAttributes(review, verdict), verdict === undefined)
    if (verdict === undefined) {
      metrics.rejected(path, 'timeout')
      const { uid } = review
      log.warn({ path, uid, durationMs, leftMs }, 'a review could not be answered within the time of its caller')
      return sendStatus(reply, { code: 504, reason: 'Timeout', message: tooLate })
    }
    metrics.reviewed(path, review, verdict, durationMs / 1000)
    logReview(log, path, request, review, verdict, durationMs)
    const answer = answerReview(review, verdict)
    if (answer.response.patch !== undefined) metrics.patched(answer.response.patch.length * 0.75)
    return answer
  }

  /** Nothing of a request is read before it is known that the API server sends it. */
  const admit = async (request: FastifyRequest, reply: FastifyReply) => {
    const path = pathOf(request.routeOptions.url)
    if (frontProxy !== undefined) {
      const caller = callerOf(request.raw, frontProxy(), clock.now())
      if (caller === undefined || !isApiServer(caller)) {
        metrics.rejected(path, 'unauthenticated')
        return sendStatus(reply, { code: 403, reason: 'Forbidden', message: 'only the API server may send reviews' })
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
    (path: string, review: Reviewer) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<ReviewAnswer | FastifyReply> => {
      const parsed = parseReview(request.body)
      if ('problem' in parsed) {
        metrics.rejected(path, 'malformed')
        return answerFailure(parsed.uid, { code: 400, reason: 'BadRequest', message: parsed.problem })
      }
      const span = tracer?.begin(`review ${path}`, textOf(request.headers.traceparent))
      try {
        return await answerTo(path, review, request, reply, parsed.review, span)
      } catch (error) {
        span?.end({ 'virtset.outcome': 'error' }, true)
        throw error
      }
    }

  const serveReviews = async (reviews: FastifyInstance) => {
    reviews.addHook('onRequest', admit)
    reviews.removeAllContentTypeParsers()
    reviews.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
      const pass = passes.get(payload)
      if (pass === undefined) throw new Error('a request without a pass has a body that is read')
      // A key called `__proto__` is data like any other: it is refused as an unknown field, by name.
      return parseJson(await readBody(payload, maxBodyBytes, pass))
    })
    for (const prefix of ['', reviewsPath]) {
      reviews.post(`${prefix}/mutate`, handle('/mutate', options.mutate))
      reviews.post(`${prefix}/validate`, handle('/validate', options.validate))
    }
  }
  void app.register(serveReviews)
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

const tooLate = 'virtset could not review this in time: it is busy, or waits for the API server; try again'

const authoritiesOf = (frontProxy: FrontProxy | undefined): string[] =>
  (frontProxy?.authorities ?? []).map((authority) => authority.toString())

const textOf = (header: unknown): string | undefined => (typeof header === 'string' ? header : undefined)

/** `/mutate`, `/validate`, or `other` with all else that is asked for. */
const pathOf = (url = ''): string =>
  ['/mutate', '/validate'].find((path) => url === path || url === reviewsPath + path) ?? 'other'

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new MalformedBody('the body is not JSON', { cause })
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
    const message = 'too many reviews at once; try again'
    return { code: 429, rejection: 'overloaded', reason: 'TooManyRequests', message }
  }
  if (error instanceof BodyRejected) {
    const message = `a review may have at most ${maxBodyBytes} bytes (7 MiB)`
    return { code: 413, rejection: 'too-large', reason: 'BadRequest', message }
  }
  // Of Fastify's own errors those of the client have such a code.
  const code = error instanceof Error && 'statusCode' in error ? error.statusCode : 500
  const isMalformed = error instanceof MalformedBody || (typeof code === 'number' && code >= 400 && code < 500)
  if (isMalformed && error instanceof Error) {
    return { code: 400, rejection: 'malformed', reason: 'BadRequest', message: error.message }
  }
  const message = 'virtset could not review this; its log says why'
  return { code: 500, rejection: 'error', reason: 'InternalError', message }
}

/** Kubernetes' own form of an error: the API server shows its message to the user. */
const sendStatus = (reply: FastifyReply, status: Status) =>
  reply.code(status.code).send({ apiVersion: 'v1', kind: 'Status', status: 'Failure', metadata: {}, ...status })

/** As in the log: who was reviewed, and how it ended; no spec. */
const spanAttributes = (review: Review, verdict: Verdict | undefined) => ({
  'virtset.request.uid': review.uid,
  'virtset.object': objectOf(review),
  'virtset.operation': review.operation,
  'virtset.outcome': verdict === undefined ? 'late' : verdict.allowed ? 'allowed' : 'refused',
  ...(verdict?.allowed === false ? { 'virtset.rules': verdict.causes.map(({ rule }) => rule).join(' ') } : {}),
})

const objectOf = ({ kind, namespace, name }: Review): string =>
  `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`

/** At info only what somebody may ask about; no spec, it may hold secrets. */
function logReview(
  log: Logger,
  path: string,
  request: FastifyRequest,
  review: Review,
  verdict: Verdict,
  durationMs: number,
): void {
  const isNotable = !verdict.allowed || durationMs > slowMs
  if (!log.isLevelEnabled(isNotable ? 'info' : 'debug')) return
  const { uid, operation, isDryRun } = review
  const line = {
    path,
    uid,
    object: objectOf(review),
    operation,
    ...(isDryRun ? { isDryRun } : {}),
    durationMs: Math.round(durationMs * 100) / 100,
    ...(verdict.allowed
      ? { operations: verdict.patch?.operations ?? 0 }
      : { causes: verdict.causes.map(({ rule, field }) => `${rule} ${field}`).slice(0, 20) }),
    ...(request.headers.traceparent === undefined ? {} : { traceparent: request.headers.traceparent }),
  }
  if (isNotable) log.info(line, verdict.allowed ? 'slow review' : 'refused')
  else log.debug(line, 'allowed')
}
