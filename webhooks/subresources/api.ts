import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { BodyRejected, readBody } from '../body.ts'
import { callerOf } from '../caller.ts'
import { createGate } from '../gate.ts'
import type { Limits, Pass } from '../gate.ts'
import type { MayAccess } from '../admission/permission.ts'
import type { User } from '../admission/request.ts'
import { group } from './discovery.ts'
import type { FrontProxy } from './front-proxy.ts'
import type { PowerResponse, Power } from './power.ts'
import { route } from './route.ts'
import { createShares } from './shares.ts'
import type { PowerRequest } from './route.ts'

export interface ApiOptions {
  readonly power: Power
  readonly mayAccess: MayAccess
  readonly frontProxy: () => FrontProxy | undefined
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: Limits
  /** How many requests one user, and one namespace, may have in progress. */
  readonly share?: number
}

/** The members of a `metav1.Status` with status Failure. */
interface Failure {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly details?: object
}

/** Serves an aggregated API on the webhooks' port, beside admission. */
export interface Api {
  readonly register: (app: FastifyInstance) => void
}

/** DeleteOptions are a few hundred bytes. */
const maxBodyBytes = 64 * 1024
/** A start may wait 45 s. Admission requests have their own limit, so these cannot delay them. */
const defaultLimits: Limits = { requests: 512, bytes: 0 }
const defaultShare = 64

/**
 * The aggregated API `subresources.virtset.io`. It trusts only requests from the API server's front proxy. The API
 * server has authorized only the verb of the method, which for GET is `get`, and readers have that. So every request is
 * authorized again here, as `update`.
 */
export function createApi(options: ApiOptions): Api {
  const { power, mayAccess, frontProxy, log, clock } = options
  const gate = createGate(options.limits ?? defaultLimits)
  const { share = defaultShare } = options
  const users = createShares(share)
  const namespaces = createShares(share)
  const admitted = new WeakMap<IncomingMessage, { readonly user: User; readonly pass: Pass }>()

  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const user = admitted.get(request.raw)?.user
    if (user === undefined) return send(reply, unauthorized)
    const found = route(request.method, request.url, typeof request.body === 'string' ? request.body : '')
    if (found.kind === 'document') return found.document
    if (found.kind === 'refused') return send(reply, found.status)
    const wanted = found.request
    if (!(await mayAccess(user, accessOf(wanted)))) return send(reply, forbidden(user, wanted))
    const leave = namespaces.take(wanted.namespace)
    if (leave === undefined) return send(reply, tooMany)
    const disconnected = new AbortController()
    reply.raw.once('close', () => disconnected.abort())
    const response = await power(wanted, disconnected.signal).finally(leave)
    const code = 'refused' in response ? response.refused.code : response.code
    log.info({ ...wanted, user: user.username, code }, 'subresource request')
    return sendResponse(reply, wanted, response)
  }

  return {
    register(app) {
      void app.register(async (own) => {
        // The body is optional. `route` parses it regardless of its content type.
        own.removeAllContentTypeParsers()
        own.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
          const pass = admitted.get(payload)?.pass
          return pass === undefined ? '' : readBody(payload, maxBodyBytes, pass)
        })
        own.addHook('onRequest', async (request, reply) => {
          const user = callerOf(request.raw, frontProxy(), clock.now())
          if (user === undefined) return send(reply, unauthorized)
          const leave = users.take(user.username)
          if (leave === undefined) return send(reply, tooMany)
          reply.raw.once('close', leave)
          const pass = gate.enter()
          if (pass === undefined) return send(reply, tooMany)
          admitted.set(request.raw, { user, pass })
          reply.raw.once('close', pass.leave)
          return undefined
        })
        own.setErrorHandler((error, request, reply) => {
          const status = statusOf(error)
          if (status.code >= 500) log.error({ err: error, url: request.url }, 'a subresource request failed')
          return send(reply, status)
        })
        for (const path of ['/apis', '/apis/*', '/openapi/*']) own.all(path, handle)
      })
    },
  }
}

const accessOf = ({ verb, namespace, name }: PowerRequest) => ({
  verb: 'update',
  group,
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
  reply.code(status.code).send({ apiVersion: 'v1', kind: 'Status', metadata: {}, ...status, status: 'Failure' })

/** Errors of the API server are passed on unchanged, with all their causes. */
function statusOf(error: unknown): Failure {
  if (error instanceof ApiError) {
    const { code, reason, message, details } = error.status
    return { code, reason, message, ...(details === undefined ? {} : { details }) }
  }
  if (error instanceof ApiUnreachable) {
    return { code: 503, reason: 'ServiceUnavailable', message: 'virtset could not reach the API server; try again' }
  }
  // The client disconnected while it waited; no one reads the response.
  if (error instanceof Error && error.name === 'AbortError') {
    return { code: 499, reason: 'ClientClosedRequest', message: error.message }
  }
  if (error instanceof BodyRejected) {
    const message = `the body must be at most ${maxBodyBytes} bytes`
    return error.reason === 'overloaded' ? tooMany : { code: 413, reason: 'RequestEntityTooLarge', message }
  }
  const code = error instanceof Error && 'statusCode' in error ? error.statusCode : 500
  if (typeof code === 'number' && code >= 400 && code < 500) {
    return { code, reason: 'BadRequest', message: error instanceof Error ? error.message : 'malformed' }
  }
  return { code: 500, reason: 'InternalError', message: 'internal error of virtset; see the log of virtset-webhooks' }
}

const unauthorized: Failure = {
  code: 401,
  reason: 'Unauthorized',
  message: "only the API server's front proxy can send requests here",
}

const tooMany: Failure = { code: 429, reason: 'TooManyRequests', message: 'too many requests at once; try again' }

/** In the API server's wording. */
const forbidden = ({ username }: User, { verb, namespace, name }: PowerRequest): Failure => ({
  code: 403,
  reason: 'Forbidden',
  message:
    `virtualmachineconfigs.${group} "${name}" is forbidden: User "${username}" cannot update resource ` +
    `"virtualmachineconfigs/${verb}" in API group "${group}" in the namespace "${namespace}"`,
})
