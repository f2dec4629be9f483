import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { BodyRejected, readBody } from '../body.ts'
import { callerOf } from '../caller.ts'
import { createGate } from '../gate.ts'
import type { Limits, Pass } from '../gate.ts'
import type { MayAccess } from '../permission.ts'
import type { User } from '../review.ts'
import { group } from './discovery.ts'
import type { FrontProxy } from './front-proxy.ts'
import type { Answer, Power } from './power.ts'
import { route } from './route.ts'
import type { Wish } from './route.ts'

export interface ApiOptions {
  readonly power: Power
  readonly mayAccess: MayAccess
  readonly frontProxy: () => FrontProxy | undefined
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: Limits
}

/** A `metav1.Status` that says no. */
interface Failure {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly details?: object
}

/** What serves more than reviews on the webhooks' port; it asks clients for a certificate. */
export interface Api {
  readonly register: (app: FastifyInstance) => void
}

/** DeleteOptions are a few hundred bytes. */
const maxBodyBytes = 64 * 1024
/** A start may wait for most of a minute; reviews have a limit of their own and never wait for these. */
const defaultLimits: Limits = { requests: 512, bytes: 0 }

/**
 * The aggregated API `subresources.virtset.io`. Only what the API server's front proxy sends is believed, and each wish is authorised once more here, always as
 * `update`: the API server has asked for the verb of the method, and `get` is what readers have.
 */
export function createApi(options: ApiOptions): Api {
  const { power, mayAccess, frontProxy, log, clock } = options
  const gate = createGate(options.limits ?? defaultLimits)
  const admitted = new WeakMap<IncomingMessage, { readonly user: User; readonly pass: Pass }>()

  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const user = admitted.get(request.raw)?.user
    if (user === undefined) return send(reply, unauthorized)
    const found = route(request.method, request.url, typeof request.body === 'string' ? request.body : '')
    if (found.kind === 'document') return found.document
    if (found.kind === 'refused') return send(reply, found.status)
    const { wish } = found
    if (!(await mayAccess(user, accessOf(wish)))) return send(reply, forbidden(user, wish))
    const gone = new AbortController()
    reply.raw.once('close', () => gone.abort())
    const outcome = await power(wish, gone.signal)
    const code = 'refused' in outcome ? outcome.refused.code : outcome.code
    log.info({ ...wish, user: user.username, code }, 'sub-resource')
    return sendAnswer(reply, wish, outcome)
  }

  return {
    register(app) {
      void app.register(async (own) => {
        // Whatever a body is called, what it says is for the route; an empty one is as good as none.
        own.removeAllContentTypeParsers()
        own.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => {
          const pass = admitted.get(payload)?.pass
          return pass === undefined ? '' : readBody(payload, maxBodyBytes, pass)
        })
        own.addHook('onRequest', async (request, reply) => {
          const user = callerOf(request.raw, frontProxy(), clock.now())
          if (user === undefined) return send(reply, unauthorized)
          const pass = gate.enter()
          if (pass === undefined) return send(reply, tooMany)
          admitted.set(request.raw, { user, pass })
          reply.raw.once('close', pass.leave)
          return undefined
        })
        own.setErrorHandler((error, request, reply) => {
          const status = statusOf(error)
          if (status.code >= 500) log.error({ err: error, url: request.url }, 'a sub-resource failed')
          return send(reply, status)
        })
        for (const path of ['/apis', '/apis/*', '/openapi/*']) own.all(path, answer)
      })
    },
  }
}

const accessOf = ({ verb, namespace, name }: Wish) => ({
  verb: 'update',
  group,
  resource: 'virtualmachineconfigs',
  subresource: verb,
  namespace,
  name,
})

function sendAnswer(reply: FastifyReply, wish: Wish, answer: Answer): FastifyReply {
  if ('refused' in answer) return send(reply, answer.refused)
  if (answer.code === 201) return reply.code(201).send(answer.object)
  const details = { name: wish.name, group: 'virtset.io', kind: 'virtualmachineconfigs', uid: answer.uid }
  const { code, message } = answer
  return reply
    .code(code)
    .send({ apiVersion: 'v1', kind: 'Status', metadata: {}, status: 'Success', code, message, details })
}

const send = (reply: FastifyReply, status: Failure): FastifyReply =>
  reply.code(status.code).send({ apiVersion: 'v1', kind: 'Status', metadata: {}, ...status, status: 'Failure' })

/** What the API server refused is passed on as it came, with all its causes. */
function statusOf(error: unknown): Failure {
  if (error instanceof ApiError) {
    const { code, reason, message, details } = error.status
    return { code, reason, message, ...(details === undefined ? {} : { details }) }
  }
  if (error instanceof ApiUnreachable) {
    return { code: 503, reason: 'ServiceUnavailable', message: 'virtset could not reach the API server; try again' }
  }
  // Who asked has gone away while it waited, and reads no answer.
  if (error instanceof Error && error.name === 'AbortError') {
    return { code: 499, reason: 'ClientClosedRequest', message: error.message }
  }
  if (error instanceof BodyRejected) {
    const message = `a body may have at most ${maxBodyBytes} bytes`
    return error.reason === 'overloaded' ? tooMany : { code: 413, reason: 'RequestEntityTooLarge', message }
  }
  const code = error instanceof Error && 'statusCode' in error ? error.statusCode : 500
  if (typeof code === 'number' && code >= 400 && code < 500) {
    return { code, reason: 'BadRequest', message: error instanceof Error ? error.message : 'malformed' }
  }
  return { code: 500, reason: 'InternalError', message: 'virtset could not do this; its log says why' }
}

const unauthorized: Failure = {
  code: 401,
  reason: 'Unauthorized',
  message: "only the API server's front proxy is believed here",
}

const tooMany: Failure = { code: 429, reason: 'TooManyRequests', message: 'too many requests at once; try again' }

/** In the words of the API server itself. */
const forbidden = ({ username }: User, { verb, namespace, name }: Wish): Failure => ({
  code: 403,
  reason: 'Forbidden',
  message:
    `virtualmachineconfigs.${group} "${name}" is forbidden: User "${username}" cannot update resource ` +
    `"virtualmachineconfigs/${verb}" in API group "${group}" in the namespace "${namespace}"`,
})
