import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createBuckets, type Rate } from '../../runtime/bucket.ts'
import type { Clock } from '../../runtime/clock.ts'
import { refuseEarlyBytes } from '../../runtime/early-bytes.ts'
import { createLimitedLog } from '../../runtime/limited-log.ts'
import type { Logger } from '../../runtime/log.ts'
import { limitRecords } from '../../runtime/record-limit.ts'
import { BodyRejected, readBody } from '../body.ts'
import { callerOf } from '../caller.ts'
import { createLateResponses } from '../late-response.ts'
import { withRetryAfter } from '../respond.ts'
import { createGate } from '../gate.ts'
import type { Limits, Pass } from '../gate.ts'
import type { MayAccess } from '../admission/permission.ts'
import type { User } from '../admission/request.ts'
import { failure, maxBodyBytes, statusOf, tooMany, unauthorized, type Failure } from './failure.ts'
import type { FrontProxy } from './front-proxy.ts'
import type { PowerResponse, Power } from './power.ts'
import { boundedUrl, powerRequest, route } from './route.ts'
import type { PowerRequest, Route } from './route.ts'
import type { Sessions } from './sessions.ts'
import { createShares } from '../../runtime/shares.ts'
import { deliverPiecewise } from '../../runtime/untrusted-response.ts'
import { userTenant } from '../tenant-requests.ts'
import { tenantOf } from './tenant.ts'
import { subresourcesApi, type UserApi } from './user-api.ts'

export interface ApiOptions {
  readonly api: UserApi
  readonly power: Power
  /** Absent: sessions are refused. */
  readonly sessions?: Sessions
  readonly mayAccess: MayAccess
  readonly frontProxy: () => FrontProxy | undefined
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: Limits
  /** How many requests one tenant, and one namespace, may have in progress. */
  readonly share?: number
  /** How many requests for discovery documents may wait. */
  readonly mostLate?: number
}

interface Admitted {
  readonly user: User
  readonly found: Wanted
  readonly pass: Pass
  /** Aborts when the request loses its place to one of a tenant that has fewer. */
  readonly displaced: AbortSignal
}

/** What takes a place while it is answered. */
type Wanted = Extract<Route, { readonly kind: 'power' | 'session' }>

/** Serves an aggregated API. */
type Trust = (socket: Socket) => void

export interface Api {
  /** @param trust delivers at once what arrives on a connection; for those of sessions */
  readonly register: (app: FastifyInstance, trust?: Trust) => void
}

/** A start may wait 45 s. Admission requests have their own limit, so these cannot delay them. */
const defaultLimits: Limits = { requests: 512, bytes: 0, responseBytes: 0 }
const defaultShare = 64

/**
 * How often a tenant, such as the controllers of the cluster together, can read discovery documents without waiting.
 * kubectl reads three at most, a controller when it starts and then every 30 s.
 */
const discovery: Rate = { perSecond: 4, burst: 64 }
const mostTenants = 4096

/**
 * To refuse a document takes as long as to send it: what takes time is the head of the request, up to a millisecond. So
 * a document that is read too often comes late. Half of the connections, so that these requests cannot take all of them.
 */
const defaultMostLate = 320

/**
 * An aggregated API of users. It trusts only requests from the API server's front proxy. The API server has authorized
 * only the verb of the method, which for GET is `get`, and readers have that. So every request is authorized again here.
 */
export function createApi(options: ApiOptions): Api {
  const { api, power, sessions, mayAccess, frontProxy, log, clock } = options
  const gate = createGate(options.limits ?? defaultLimits)
  const limitedLog = createLimitedLog(log, clock)
  const { share = defaultShare, mostLate = defaultMostLate } = options
  const tenants = createShares(share)
  const namespaces = createShares(share)
  const admitted = new WeakMap<IncomingMessage, Admitted>()
  const discoveriesOf = createBuckets(discovery, mostTenants, clock)
  const beLate = createLateResponses(mostLate, clock)

  const paceDiscovery = async (user: User, message: IncomingMessage): Promise<void> => {
    if (!discoveriesOf(tenantOf(user)).takeIfAny()) await beLate(message)
  }

  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const { user, found, displaced } = admitted.get(request.raw) ?? {}
    if (user === undefined || found === undefined || displaced === undefined) return send(reply, unauthorized)
    displaced.throwIfAborted()
    if (found.kind === 'session') {
      if (sessions === undefined) return send(reply, noSessions)
      return unlessAborted(displaced, sessions.respond(user, found.request, reply))
    }
    const wanted = powerRequest(found, typeof request.body === 'string' ? request.body : '')
    if ('refused' in wanted) return send(reply, wanted.refused)
    const disconnected = new AbortController()
    reply.raw.once('close', () => disconnected.abort())
    const signal = AbortSignal.any([disconnected.signal, displaced])
    const isAllowed = await unlessAborted(
      displaced,
      mayAccess(user, accessOf(wanted), { tenant: userTenant(user), signal }),
    )
    if (!isAllowed) return send(reply, forbidden(user, wanted))
    const leave = namespaces.take(wanted.namespace)
    if (leave === undefined) return send(reply, tooMany)
    const response = await unlessAborted(displaced, power(wanted, signal).finally(leave))
    const code = 'refused' in response ? response.refused.code : response.code
    limitedLog(tenantOf(user), { ...wanted, user: user.username, code }, 'subresource request')
    return sendResponse(reply, wanted, response)
  }

  /** Upgrades bypass Fastify, so they are checked here as requests are above. */
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer, trust: Trust): void => {
    cutUrl(request)
    // An error without a listener would end the process.
    socket.on('error', (error) => log.debug({ err: error }, 'a session was disconnected'))
    deliverPiecewise(request.socket)
    limitRecords(request.socket, clock)
    // Opening the session takes up to 15 s.
    const deliver = refuseEarlyBytes(socket, head)
    const accept = () => {
      trust(request.socket)
      deliver()
    }
    const refuse = (status: Failure) => {
      if (!socket.writableEnded) refuseUpgrade(socket, status)
    }
    const user = callerOf(request, frontProxy(), clock.now())
    if (user === undefined) return refuse(unauthorized)
    const found = route(api, request.method ?? '', request.url ?? '')
    if (found.kind === 'refused') return refuse(found.status)
    if (found.kind === 'document') return void paceDiscovery(user, request).then(() => refuse(noUpgrade))
    if (found.kind !== 'session') return refuse(noUpgrade)
    if (sessions === undefined) return refuse(noSessions)
    const leave = tenants.take(tenantOf(user))
    if (leave === undefined) return refuse(tooMany)
    const pass = gate.enter()
    if (pass === undefined) {
      leave()
      return refuse(tooMany)
    }
    pass.assign(tenantOf(user), () => refuse(tooMany))
    if (socket.writableEnded) return leave()
    sessions
      .attach(user, found.request, request, socket, accept)
      .catch((error: unknown) => {
        const status = statusOf(error)
        if (status.code >= 500) {
          limitedLog(tenantOf(user), { err: error, url: request.url }, 'a session could not be opened', 'warn')
        }
        refuse(status)
      })
      .finally(() => {
        pass.leave()
        leave()
      })
  }

  return {
    register(app, trust = () => {}) {
      // Before anything routes it, or logs it.
      app.server.prependListener('request', cutUrl)
      app.server.on('upgrade', (request, socket, head) => upgrade(request, socket, head, trust))
      app.addHook('preClose', async () => sessions?.end())
      void app.register(async (own) => {
        // The body is optional. `powerRequest` parses it regardless of its content type.
        own.removeAllContentTypeParsers()
        own.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
          const pass = admitted.get(payload)?.pass
          return pass === undefined ? '' : readBody(payload, maxBodyBytes, pass)
        })
        own.addHook('onRequest', async (request, reply) => {
          const user = callerOf(request.raw, frontProxy(), clock.now())
          if (user === undefined) return send(reply, unauthorized)
          // Fastify does not read their bodies, and Node would store them until the response.
          if (['GET', 'HEAD'].includes(request.method)) request.raw.resume()
          // Clients do without the whole API if they cannot discover it, so it takes no place of their tenant's share.
          const found = route(api, request.method, request.url)
          if (found.kind === 'document') {
            await paceDiscovery(user, request.raw)
            return reply.send(found.document)
          }
          // The API server takes some names for long-running in every group, whether the group has them or not.
          if (found.kind === 'refused') return send(reply, found.status)
          const leave = tenants.take(tenantOf(user))
          if (leave === undefined) return send(reply, tooMany)
          reply.raw.once('close', leave)
          const pass = gate.enter()
          if (pass === undefined) return send(reply, tooMany)
          reply.raw.once('close', pass.leave)
          const displaced = new AbortController()
          pass.assign(tenantOf(user), () => {
            displaced.abort(new BodyRejected('overloaded'))
            // A response that has begun, such as a log, cannot become a refusal.
            if (reply.raw.headersSent) reply.raw.destroy()
          })
          if (displaced.signal.aborted) return send(reply, tooMany)
          admitted.set(request.raw, { user, found, pass, displaced: displaced.signal })
          return undefined
        })
        own.setErrorHandler((error, request, reply) => {
          const status = statusOf(error)
          if (status.code >= 500) {
            const user = admitted.get(request.raw)?.user
            const tenant = user === undefined ? '' : tenantOf(user)
            limitedLog(tenant, { err: error, url: request.url }, 'a subresource request failed', 'error')
          }
          return send(reply, status)
        })
        for (const path of ['/apis', '/apis/*', '/openapi/*']) own.all(path, handle)
      })
    },
  }
}

const cutUrl = (message: IncomingMessage) => void (message.url = boundedUrl(message.url ?? ''))

/** Resolves like `work`, or rejects with the reason of the signal. */
async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort)
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

const accessOf = ({ verb, namespace, name }: PowerRequest) => ({
  verb: 'update',
  group: subresourcesApi.group,
  resource: 'virtualmachineconfigs',
  subresource: verb,
  namespace,
  name,
})

function sendResponse(reply: FastifyReply, { name }: PowerRequest, response: PowerResponse): FastifyReply {
  if ('refused' in response) return send(reply, response.refused)
  if (response.code === 201) return reply.code(201).send(response.object)
  const { code, message, uid } = response
  const details = { name, group: 'virtset.io', kind: 'virtualmachineconfigs', uid }
  return reply
    .code(code)
    .send({ apiVersion: 'v1', kind: 'Status', metadata: {}, status: 'Success', code, message, details })
}

const send = (reply: FastifyReply, status: Failure): FastifyReply =>
  withRetryAfter(reply, status.code, status.retryAfterSeconds).code(status.code).send(failure(status))

function refuseUpgrade(socket: Duplex, status: Failure): void {
  const body = JSON.stringify(failure(status))
  const retry = status.code === 429 ? `Retry-After: ${status.retryAfterSeconds ?? 1}\r\n` : ''
  const head = `Connection: close\r\n${retry}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`
  // Destroyed even if the client does not close its side.
  socket.end(`HTTP/1.1 ${status.code} ${status.reason}\r\n${head}\r\n\r\n${body}`, () => socket.destroy())
}

const noSessions: Failure = {
  code: 503,
  reason: 'ServiceUnavailable',
  message: 'these webhooks serve no sessions: they have no token for the handlers',
}

const noUpgrade: Failure = { code: 400, reason: 'BadRequest', message: 'this subresource cannot be upgraded' }

/** In the API server's wording. */
const forbidden = ({ username }: User, { verb, namespace, name }: PowerRequest): Failure => ({
  code: 403,
  reason: 'Forbidden',
  message:
    `virtualmachineconfigs.${subresourcesApi.group} "${name}" is forbidden: User "${username}" cannot update resource ` +
    `"virtualmachineconfigs/${verb}" in API group "${subresourcesApi.group}" in the namespace "${namespace}"`,
})
