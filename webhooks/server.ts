import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { fastify, type FastifyInstance } from 'fastify'
import type { Rate } from '../runtime/bucket.ts'
import { sleep } from '../runtime/clock.ts'
import type { ConnectionLimits } from '../runtime/connections.ts'
import { guardConnections } from '../runtime/guard.ts'
import { createLimitedLog } from '../runtime/limited-log.ts'
import { surviveBackpressure } from '../runtime/paused-parser.ts'
import { pathOf, type AdmissionOptions } from './admission-routes.ts'
import { createBodyDeadlines } from './body-deadline.ts'
import { deliverEach, dropIfReset, http2Options, streamOf, type Multiplexing } from './http2.ts'
import { failureOf, sendStatus } from './respond.ts'
import type { FrontProxy } from './subresources/front-proxy.ts'
import { unusedMs, watchUnused } from './unused-connections.ts'
import { createVersions } from './versions.ts'

/**
 * For admission. An API server has at most 600 requests in flight by default, and opens a connection for each when a
 * replica has just started. A burst of 256 is about half of that. A pending connection takes 19 KiB, and up to 100 KiB
 * with what it has sent.
 */
export const connectionLimits: ConnectionLimits = {
  pending: 512,
  pendingPerAddress: 256,
  burst: 256,
  perSecond: 32,
  proven: 768,
}

/**
 * For each API of users, who have connections opened for them. A connection takes 100 KB. There are at most 256 sessions,
 * which reconnect together when an API server restarts, and 384 requests in progress.
 */
export const apiConnectionLimits: ConnectionLimits = {
  ...connectionLimits,
  pending: 256,
  pendingPerAddress: 128,
  proven: 640,
}

/**
 * The API server dials as often as users like, thousands of times a second. If more were accepted than can be served, all
 * of them would be closed while they wait, and the time for their handshakes would be lost.
 */
export const sessionConnectionLimits: ConnectionLimits = {
  ...apiConnectionLimits,
  known: { perSecond: 64, burst: 256 },
}

/**
 * The milliseconds that heads of requests for each API of users may take of the event loop, which the other APIs need as
 * well. Opening a session takes one or two. A head of 100 KiB takes three.
 */
const apiRequests: Rate = { perSecond: 125, burst: 250 }

/**
 * Longer than the 90 s after which Go's client drops an idle connection, so that the client closes it. Go opens
 * connections in advance, so the time before the first request also counts as idle.
 */
const keepAliveTimeoutMs = 95_000

/**
 * The API server sends the groups of a user in a header each: 1,015 groups, as many as an access token of Windows can
 * have, of 100 characters. Node's default is 16 KiB, and 1,000 headers. Only the front proxy can send as much: the
 * handshake fails for every other client. A user has at most 64 requests in progress at the API, whose heads have 8 MiB.
 */
const headLimits = { bytes: 128 * 1024, headers: 1200 }

/**
 * For admission, two replicas have a hundred connections each if an API server has all of its 200 requests that write in
 * flight. Its own requests have a dozen headers, and users are in their bodies. From others, thousands of heads arrive at
 * once, and the native memory of each is freed late: with 14 KB each, that ends the process. So the API server refuses
 * users with more, such as 60 groups, while many connections are open.
 */
const multiplexing: Multiplexing = { above: 128, head: { bytes: 8 * 1024, headers: 64 } }

export interface Certificate {
  readonly key: string
  /** The leaf and its intermediate certificates. */
  readonly cert: string
}

export interface ServerOptions extends Pick<AdmissionOptions, 'metrics' | 'log' | 'clock' | 'frontProxy'> {
  readonly certificate: Certificate
  readonly connections?: ConnectionLimits
  readonly multiplexing?: Multiplexing
  /** If present, requests take turns in this budget, in milliseconds, until their connection is trusted. */
  readonly requests?: Rate
  /** Adds what is served: `admissionRoutes`, or the API, which trusts the connections of sessions. */
  readonly routes: (app: FastifyInstance, trust: (socket: Socket) => void) => void
}

/** For each API of users. */
export const forUsers: Pick<ServerOptions, 'multiplexing' | 'requests'> = {
  multiplexing: { ...multiplexing, isTemporary: true },
  requests: apiRequests,
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

/** Serves HTTPS on `port` (0: any free one) of `host`. */
export async function startServer(options: ServerOptions, port: number, host = '::'): Promise<WebhookServer> {
  const { certificate, metrics, log, clock, frontProxy } = options
  const limitedLog = createLimitedLog(log, clock)
  const deadlines = createBodyDeadlines(options)
  let isDraining = false
  let current = certificate
  const { above, head, isTemporary = false } = options.multiplexing ?? multiplexing
  const versions = createVersions(above, isTemporary ? clock : undefined)

  const contextOf = (one: Certificate) => ({
    ...one,
    minVersion: 'TLSv1.2' as const,
    // As in Go, an authority need not be a root.
    ...(frontProxy === undefined ? {} : { ca: authoritiesOf(frontProxy()), allowPartialTrustChain: true }),
  })

  const app = fastify({
    http2: true,
    http2SessionTimeout: keepAliveTimeoutMs,
    https: {
      ...contextOf(certificate),
      ...http2Options(head),
      ALPNCallback: versions.choose,
      ...http1Options,
      ...(frontProxy === undefined ? {} : { requestCert: true, rejectUnauthorized: true }),
    },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // Whoever needs the query parses it: thousands of parameters take milliseconds.
    routerOptions: { querystringParser: () => ({}) },
    logger: false,
    // Requests of both versions, with the interface of HTTP/1.1.
  }) as unknown as FastifyInstance<HttpsServer>
  app.server.maxHeadersCount = headLimits.headers
  const { requests } = options
  const { trust, isKnown, acceptedOf } = guardConnections(app.server, {
    limits: options.connections ?? connectionLimits,
    provenBy: 'handshake',
    deadlines: deadlines.handshake,
    clock,
    rejected: metrics.connectionRejected,
    ...(requests === undefined ? {} : { requests: { budget: requests, mostHeadBytes: headLimits.bytes } }),
  })

  versions.watch(app.server, isKnown)
  deliverEach(app.server)

  // The API server sends requests of one tenant on a connection on which those of another were answered.
  surviveBackpressure(app.server)

  app.addHook('onRequest', async (request, reply) => {
    // It may emit no `close` that would give a place back.
    if (dropIfReset(request.raw)) return reply.hijack()
    if (isDraining && streamOf(request.raw) === undefined) reply.header('connection', 'close')
    deadlines.expectBody(request.raw, pathOf(request.routeOptions.url))
    return undefined
  })

  app.setErrorHandler((error, request, reply) => {
    const path = pathOf(request.routeOptions.url)
    const { code, rejection, reason, message } = failureOf(error)
    metrics.rejected(path, rejection)
    if (code >= 500) limitedLog(path, { err: error, path }, 'an admission request failed', 'error')
    else limitedLog(path, { path, reason: rejection, message }, 'an admission request was rejected', 'warn')
    return sendStatus(reply, { code, reason, message })
  })

  options.routes(app, (socket) => {
    trust(socket)
    versions.discount(acceptedOf(socket))
  })
  const closeUnused = watchUnused(app.server, clock, app.server.listenerCount('upgrade') > 0)

  await app.listen({ port, host })
  const address = app.server.address()
  const renewTrust = () => app.server.setSecureContext(contextOf(current))
  return {
    port: typeof address === 'object' && address ? address.port : port,
    use(next) {
      current = next
      renewTrust()
    },
    renewTrust,
    async drain(propagationMs) {
      isDraining = true
      versions.leaveHttp2()
      await sleep(clock, propagationMs)
      let isClosed = false
      const closed = app.close().then(() => (isClosed = true))
      while (!isClosed) {
        closeUnused()
        await Promise.race([closed, sleep(clock, unusedMs / 4)])
      }
    },
  }
}

const http1Options = {
  maxHeaderSize: headLimits.bytes,
  // Node also counts the time before the first byte. A request that has begun to arrive has a deadline of its own.
  headersTimeout: keepAliveTimeoutMs,
  keepAliveTimeout: keepAliveTimeoutMs,
  requestTimeout: keepAliveTimeoutMs,
}

const authoritiesOf = (frontProxy: FrontProxy | undefined): string[] =>
  (frontProxy?.authorities ?? []).map((authority) => authority.toString())
