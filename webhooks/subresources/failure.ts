import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import { BodyRejected, MalformedBody } from '../body.ts'
import { SessionRefusal } from './session-client.ts'

/** The members of a `metav1.Status` with status Failure. */
export interface Failure {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly details?: object
  /** For a 429; one second if absent. */
  readonly retryAfterSeconds?: number
}

/** DeleteOptions are a few hundred bytes. */
export const maxBodyBytes = 64 * 1024

/** The `metav1.Status`. */
export const failure = ({ retryAfterSeconds, ...status }: Failure): object => ({
  apiVersion: 'v1',
  kind: 'Status',
  metadata: {},
  ...status,
  ...(retryAfterSeconds === undefined ? {} : { details: { ...status.details, retryAfterSeconds } }),
  status: 'Failure',
})

/** Errors of the API server are passed on unchanged, with all their causes. */
export function statusOf(error: unknown): Failure {
  if (error instanceof ApiError) {
    const { code, reason, message, details } = error.status
    return { code, reason, message, ...(details === undefined ? {} : { details }) }
  }
  if (error instanceof SessionRefusal) return error.status
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
  if (error instanceof MalformedBody) return { code: 400, reason: 'BadRequest', message: error.message }
  const code = error instanceof Error && 'statusCode' in error ? error.statusCode : 500
  if (typeof code === 'number' && code >= 400 && code < 500) {
    return { code, reason: 'BadRequest', message: error instanceof Error ? error.message : 'malformed' }
  }
  return { code: 500, reason: 'InternalError', message: 'internal error of virtset; see the log of virtset-webhooks' }
}

export const unauthorized: Failure = {
  code: 401,
  reason: 'Unauthorized',
  message: "only the API server's front proxy can send requests here",
}

export const tooMany: Failure = {
  code: 429,
  reason: 'TooManyRequests',
  message: 'too many requests at once; try again',
}
