import { isRecord } from '../api/schema.ts'

/** The part of `metav1.Status` that we read. */
export interface Status {
  readonly status?: string
  readonly code: number
  /** Kubernetes' word for what went wrong: `NotFound`, `Conflict`, `AlreadyExists`, `Expired`, `Invalid`, … */
  readonly reason: string
  readonly message: string
  readonly details?: {
    readonly name?: string
    readonly kind?: string
    readonly causes?: readonly { readonly reason?: string; readonly field?: string; readonly message?: string }[]
    readonly retryAfterSeconds?: number
  }
}

/** The API server understood, and said no. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: Status
  /** What it asked us to wait before the next try. */
  readonly retryAfterMs: number | undefined

  constructor(request: string, status: Status, retryAfterMs?: number) {
    super(`${request}: ${status.message} (${status.code} ${status.reason})`)
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** The API server did not answer, or not in its language: nobody knows whether the request took effect. */
export class ApiUnreachable extends Error {
  override readonly name = 'ApiUnreachable'
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 404
}

/** Another write came first: read again. An existing name is not meant, see `isAlreadyExists`. */
export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 409 && error.status.reason !== 'AlreadyExists'
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.reason === 'AlreadyExists'
}

/** The resource version is too old to go on from: list again. */
export function isExpired(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status.code === 410 || error.status.reason === 'Expired')
}

/** Validation or an admission webhook refused the object. */
export function isInvalid(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 422
}

export function isForbidden(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 403
}

const reasons = new Map([
  [400, 'BadRequest'],
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [409, 'Conflict'],
  [410, 'Expired'],
  [422, 'Invalid'],
  [429, 'TooManyRequests'],
  [500, 'InternalError'],
  [503, 'ServiceUnavailable'],
  [504, 'Timeout'],
])

/** Any answer that is no success as a Status: proxies and half-started servers answer in plain text. */
export function statusOf(code: number, body: unknown): Status {
  const reason = reasons.get(code) ?? 'Unknown'
  if (!isRecord(body))
    return { code, reason, message: (typeof body === 'string' && body.trim().slice(0, 1024)) || reason }
  const details = isRecord(body['details']) ? body['details'] : undefined
  return {
    code: typeof body['code'] === 'number' ? body['code'] : code,
    reason: typeof body['reason'] === 'string' && body['reason'] ? body['reason'] : reason,
    message: typeof body['message'] === 'string' ? body['message'] : reason,
    ...(details ? { details } : {}),
  }
}

/** A conflict means that somebody has written since; the watch brings it, and with it another round. */
export function unlessOutdated(reconcile: (key: string) => Promise<void>): (key: string) => Promise<void> {
  return (key) =>
    reconcile(key).catch((error: unknown) => {
      if (!isConflict(error) && !isNotFound(error)) throw error
    })
}

/** A creation has nothing that somebody could have written since: where it conflicts a quota is being counted, no watch tells when it may go on, and it must be tried again. */
export function unlessCounting<T>(creation: Promise<T>): Promise<T> {
  return creation.catch((error: unknown) => {
    if (isConflict(error)) throw new Error('the API server could not count it', { cause: error })
    throw error
  })
}

/** What is not there is undefined, and no error. */
export function unlessNotFound<T>(answer: Promise<T>): Promise<T | undefined> {
  return answer.catch((error: unknown) => {
    if (isNotFound(error)) return undefined
    throw error
  })
}
