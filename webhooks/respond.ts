import type { FastifyReply } from 'fastify'
import type { Status } from './admission/request.ts'
import { ApiUnreachable } from '../runtime/api-error.ts'
import { BodyRejected, MalformedBody, maxBodyBytes } from './body.ts'
import type { RejectionReason } from './metrics.ts'

/** Kubernetes' clients retry a 429 only if the response states when. */
export const withRetryAfter = (reply: FastifyReply, code: number, seconds = 1): FastifyReply =>
  code === 429 ? reply.header('retry-after', String(seconds)) : reply

/** A `metav1.Status`, whose message the API server shows to the user. */
export const sendStatus = (reply: FastifyReply, status: Status) =>
  withRetryAfter(reply, status.code)
    .code(status.code)
    .send({ apiVersion: 'v1', kind: 'Status', status: 'Failure', metadata: {}, ...status })

export const timeout: Status = {
  code: 504,
  reason: 'Timeout',
  message: 'virtset did not finish in time: it is busy, or waits for the API server; try again',
}

export const notApiServer: Status = {
  code: 403,
  reason: 'Forbidden',
  message: 'only the API server can send admission requests',
}

export const notFound: Status = { code: 404, reason: 'NotFound', message: 'there is nothing at this path' }

/** The response to a request that was not handled, and how metrics count it. */
export interface Failure extends Status {
  readonly rejection: RejectionReason
}

export function failureOf(error: unknown): Failure {
  if (error instanceof BodyRejected && error.reason === 'overloaded') {
    const message = 'too many admission requests at once; try again'
    return { code: 429, rejection: 'overloaded', reason: 'TooManyRequests', message }
  }
  if (error instanceof BodyRejected) {
    const message = `an admission request must be at most ${maxBodyBytes} bytes (7 MiB)`
    return { code: 413, rejection: 'too-large', reason: 'BadRequest', message }
  }
  if (error instanceof ApiUnreachable) {
    const message = 'virtset could not reach the API server; try again'
    return { code: 503, rejection: 'error', reason: 'ServiceUnavailable', message }
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
