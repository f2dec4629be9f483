import type { Status } from '../api/received-status.ts'

/** The API server refused the request. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: Status
  /** From Retry-After. */
  readonly retryAfterMs: number | undefined

  constructor(request: string, status: Status, retryAfterMs?: number) {
    super(`${request}: ${status.message} (${status.code} ${status.reason})`)
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** The API server did not respond, or not with valid JSON: whether the request took effect is unknown. */
export class ApiUnreachable extends Error {
  override readonly name = 'ApiUnreachable'
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 404
}

/** Another write came first: read again. Excludes existing names, see `isAlreadyExists`. */
export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 409 && error.status.reason !== 'AlreadyExists'
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.reason === 'AlreadyExists'
}

/** The resource version is too old to continue from: list again. */
export function isExpired(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status.code === 410 || error.status.reason === 'Expired')
}

/** The API server does not respond, is not ready, or has lost its etcd: a retry can succeed. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof ApiUnreachable || (error instanceof ApiError && error.status.code >= 500)
}

/** Validation or an admission webhook refused the object. */
export function isInvalid(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 422
}

/**
 * Permissions, a quota, validation or an admission webhook refused the object: only a change of it or of the rules can
 * help. The API server gives the code 400 to a refusal for which a webhook states none.
 */
export function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && [400, 403, 422].includes(error.status.code)
}

export function isForbidden(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 403
}

/** A conflict means that another client has written since; the watch delivers that, and queues another round. */
export function unlessOutdated(reconcile: (key: string) => Promise<void>): (key: string) => Promise<void> {
  return (key) =>
    reconcile(key).catch((error: unknown) => {
      if (!isConflict(error) && !isNotFound(error)) throw error
    })
}

/** A create can only conflict while a quota is counted. No watch shows when that is over, so it must be retried. */
export function unlessCounting<T>(creation: Promise<T>): Promise<T> {
  return creation.catch((error: unknown) => {
    if (isConflict(error)) throw new Error('the API server could not count it', { cause: error })
    throw error
  })
}

/** Undefined in place of a 404. */
export function unlessNotFound<T>(response: Promise<T>): Promise<T | undefined> {
  return response.catch((error: unknown) => {
    if (isNotFound(error)) return undefined
    throw error
  })
}
