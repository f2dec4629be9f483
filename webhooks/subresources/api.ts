import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { createGate } from '../gate.ts'
import type { Limits } from '../gate.ts'
import type { MayAccess } from '../permission.ts'
import type { User } from '../review.ts'
import { group } from './discovery.ts'
import { identify, readHeaders } from './front-proxy.ts'
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
  /** Whether a URL is of this API; the limits of reviews are not for it. */
  readonly owns: (url: string) => boolean
  readonly register: (app: FastifyInstance) => void
}

/** DeleteOptions are a few hundred bytes. */
const maxBodyBytes = 64 * 1024
/** Whoever sends more than this is cut off. */
const mostRead = 64 * 1024 * 1024
/** A start may wait for most of a minute; reviews have a limit of their own and never wait for these. */
const defaultLimits: Limits = { requests: 512, bytes: 512 * maxBodyBytes }

/**
 * The aggregated API `subresources.virtset.io`. Only what the API server's front proxy sends is believed, and each wish is authorised once more here, always as
 * `update`: the API server has asked for the verb of the method, and `get` is what readers have.
 */
export function createApi(options: ApiOptions): Api {
  const { power, mayAccess, frontProxy, log, clock } = options
  const gate = createGate(options.limits ?? defaultLimits)
  const owns = (url: string) => /^\/(apis|openapi)(\/|$|\?)/.test(url)

  const userOf = (request: FastifyRequest): User | undefined => {
    const known = frontProxy()
    const { socket, headersDistinct } = request.raw
    const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
    return known && identify(known, certificate, readHeaders(headersDistinct), clock.now())
  }

  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const user = userOf(request)
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
    owns,
    register(app) {
      void app.register(async (own) => {
        // Whatever a body is called, what it says is for the route; an empty one is as good as none.
        own.removeAllContentTypeParsers()
        own.addContentTypeParser('*', (_request: FastifyRequest, payload: IncomingMessage) => readBody(payload))
        own.addHook('onRequest', async (_request, reply) => {
          const leave = gate.enter(maxBodyBytes)
          if (leave === undefined) return send(reply, tooMany)
          reply.raw.once('close', leave)
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

/**
 * A body as text. One that is too large is read to its end all the same, without keeping it: who is answered in the middle of sending may never see the answer.
 */
async function readBody(payload: AsyncIterable<unknown>): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of payload) {
    if (!Buffer.isBuffer(chunk)) continue
    size += chunk.length
    if (size <= maxBodyBytes) chunks.push(chunk)
    if (size > mostRead) break
  }
  if (size > maxBodyBytes) throw new BodyTooLarge(`a body may have at most ${maxBodyBytes} bytes`)
  return Buffer.concat(chunks).toString('utf8')
}

class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge'
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
  if (error instanceof BodyTooLarge) return { code: 413, reason: 'RequestEntityTooLarge', message: error.message }
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
