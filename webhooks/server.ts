import { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { fastify } from 'fastify'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../runtime/clock.ts'
import { sleep } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { isTrustedClient } from './client-certificate.ts'
import type { TrustedClients } from './client-certificate.ts'
import { budgetMs, inTime } from './deadline.ts'
import { createGate } from './gate.ts'
import type { Limits } from './gate.ts'
import type { ReviewMetrics } from './metrics.ts'
import { answerFailure, answerReview, parseReview } from './review.ts'
import type { Review, ReviewAnswer, Status, Verdict } from './review.ts'
import type { Api } from './subresources/api.ts'
import type { Span, Tracer } from './tracing.ts'

/** The API server sends at most two objects of 3 MiB and a 1 MiB envelope. */
export const maxBodyBytes = 7 * 1024 * 1024

/**
 * Measured: 50 bodies of 3 MiB at once, each with 14,000 disks, take 260 MiB beside the 120 that the process has anyway. Usual bodies have a few
 * KiB: all that may come at once fit.
 */
export const defaultLimits: Limits = { requests: 256, bytes: 16 * 1024 * 1024 }

/** Longer than the 90 s after which Go's client drops an idle connection: the client is the one who closes. */
const keepAliveTimeoutMs = 95_000

/** No review takes this long to arrive; a client that trickles its body is let go. */
const requestTimeoutMs = 15_000

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
  /** Whose reviews are answered; everybody's where absent. */
  readonly clients?: TrustedClients
  /** Where spans of reviews go; nowhere where absent. */
  readonly tracer?: Tracer
  /** What else is served here; with it, clients are asked for a certificate. */
  readonly api?: Api
}

export interface WebhookServer {
  readonly port: number
  /** New connections get it; those that are open go on. */
  use(certificate: Certificate): void
  /**
   * The end without a lost request: for `propagationMs` everything is served as before, but each answer asks its client to
   * connect anew, elsewhere; then nothing new is taken, and what is under way is finished.
   */
  drain(propagationMs: number): Promise<void>
}

/** HTTPS on `port` (0: any free one) of `host`: `POST /mutate` and `POST /validate`, and what is below those. */
export async function startServer(options: ServerOptions, port: number, host = '::'): Promise<WebhookServer> {
  const { certificate, metrics, log, clock, api, clients, tracer } = options
  const gate = createGate(options.limits ?? defaultLimits)
  const arrivals = new WeakMap<FastifyRequest, number>()
  let isDraining = false

  const app = fastify({
    // Who sends no certificate, or one of whatever authority, is served all the same: reviews want none, and the API judges for itself.
    https: {
      ...certificate,
      minVersion: 'TLSv1.2',
      ...(api === undefined && clients === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
    },
    bodyLimit: maxBodyBytes,
    keepAliveTimeout: keepAliveTimeoutMs,
    requestTimeout: requestTimeoutMs,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // A key called `__proto__` is data like any other: it is refused as an unknown field, by name.
    onProtoPoisoning: 'ignore',
    onConstructorPoisoning: 'ignore',
    logger: false,
  })

  app.addHook('onRequest', async (request, reply) => {
    if (isDraining) reply.header('connection', 'close')
    if (api?.owns(request.url)) return undefined
    if (clients !== undefined && !isKnown(clients, request.raw.socket, clock.now())) {
      metrics.turnedAway(pathOf(request), 'stranger')
      return sendStatus(reply, { code: 403, reason: 'Forbidden', message: 'only the API server may ask here' })
    }
    arrivals.set(request, clock.monotonic())
    const leave = gate.enter(Number(request.headers['content-length'] ?? maxBodyBytes))
    if (leave === undefined) {
      metrics.turnedAway(pathOf(request), 'shed')
      return sendStatus(reply, { code: 429, reason: 'TooManyRequests', message: 'too many reviews at once; try again' })
    }
    reply.raw.once('close', leave)
  })

  app.setErrorHandler((error, request, reply) => {
    const { code, why, message } = failureOf(error)
    metrics.turnedAway(pathOf(request), why)
    if (code >= 500) log.error({ err: error, path: pathOf(request) }, 'a review failed')
    else log.warn({ path: pathOf(request), why, message }, 'a request that is no review')
    return sendStatus(reply, { code, reason: code >= 500 ? 'InternalError' : 'BadRequest', message })
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
    const leftMs = budgetMs(request.url) - (startedMs - (arrivals.get(request) ?? startedMs))
    const asked = leftMs > 0 ? judge(span ? { ...review, onPart: span.part } : review) : undefined
    const verdict = asked instanceof Promise ? await inTime(asked, leftMs, clock) : asked
    const durationMs = clock.monotonic() - startedMs
    span?.end(spanAttributes(review, verdict), verdict === undefined)
    if (verdict === undefined) {
      metrics.turnedAway(path, 'late')
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

  // What follows the path says to people what to do when nobody answers (manifests/webhooks/configurations.yaml).
  const route = (path: string, review: Reviewer) => {
    const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<ReviewAnswer | FastifyReply> => {
      const parsed = parseReview(request.body)
      if ('problem' in parsed) {
        metrics.turnedAway(path, 'malformed')
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
    app.post(path, handle)
    app.post(`${path}/*`, handle)
  }
  route('/mutate', options.mutate)
  route('/validate', options.validate)
  api?.register(app)

  await app.listen({ port, host })
  const address = app.server.address()
  return {
    port: typeof address === 'object' && address ? address.port : port,
    use(next) {
      if (app.server instanceof HttpsServer) app.server.setSecureContext({ ...next, minVersion: 'TLSv1.2' })
    },
    async drain(propagationMs) {
      isDraining = true
      await sleep(clock, propagationMs)
      await app.close()
    },
  }
}

const tooLate = 'virtset could not review this in time: it is busy, or waits for the API server; try again'

/** TLS has shown that the client has the key; one may be shown anew with each connection only. */
function isKnown(clients: TrustedClients, socket: Socket, nowMs: number): boolean {
  const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
  return certificate !== undefined && isTrustedClient(clients, certificate, nowMs)
}

const textOf = (header: unknown): string | undefined => (typeof header === 'string' ? header : undefined)

const pathOf = (request: FastifyRequest): string => (request.routeOptions.url ?? 'other').replace('/*', '')

/** Fastify's own codes for what can be wrong with a request before a route sees it. */
function failureOf(error: unknown): { readonly code: number; readonly why: string; readonly message: string } {
  const code = error instanceof Error && 'statusCode' in error ? error.statusCode : 500
  if (code === 413) {
    return { code, why: 'too-large', message: `a review may have at most ${maxBodyBytes} bytes (7 MiB)` }
  }
  if (typeof code === 'number' && code >= 400 && code < 500) {
    return { code, why: 'malformed', message: error instanceof Error ? error.message : 'malformed' }
  }
  return { code: 500, why: 'error', message: 'virtset could not review this; its log says why' }
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
