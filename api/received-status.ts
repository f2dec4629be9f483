import { isRecord } from './schema.ts'

/** The fields of `metav1.Status` that are used. */
export interface Status {
  readonly status?: string
  readonly code: number
  /** Kubernetes' reason: `NotFound`, `Conflict`, `AlreadyExists`, `Expired`, `Invalid`, … */
  readonly reason: string
  readonly message: string
  readonly details?: {
    readonly name?: string
    readonly kind?: string
    readonly causes?: readonly ReceivedCause[]
    readonly retryAfterSeconds?: number
  }
}

/** Of any webhook or proxy, not only of virtset. */
export interface ReceivedCause {
  readonly reason?: string
  readonly field?: string
  readonly message?: string
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

/** A failed response as a Status: proxies and starting servers respond with plain text. */
export function statusOf(code: number, body: unknown): Status {
  const reason = reasons.get(code) ?? 'Unknown'
  if (!isRecord(body))
    return { code, reason, message: (typeof body === 'string' && body.trim().slice(0, 1024)) || reason }
  const details = isRecord(body['details']) ? body['details'] : undefined
  return {
    code: typeof body['code'] === 'number' ? body['code'] : code,
    reason: typeof body['reason'] === 'string' && body['reason'] ? body['reason'] : reason,
    message: typeof body['message'] === 'string' ? body['message'] : reason,
    ...(details ? { details: { ...details, causes: causesIn(details['causes']) } } : {}),
  }
}

/** Webhooks of others, and proxies, choose them. */
const causesIn = (causes: unknown): readonly ReceivedCause[] =>
  (Array.isArray(causes) ? causes : [])
    .filter(isRecord)
    .map((cause) => Object.fromEntries(Object.entries(cause).filter(([, text]) => typeof text === 'string')))
