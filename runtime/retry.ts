import { ApiError } from './api-error.ts'
import { sleep } from './clock.ts'
import type { Clock } from './clock.ts'

const tries = 5
/** A longer Retry-After is not waited for: the caller has its own back-off. */
const longestRetryAfterMs = 30_000

/** Sends again what the API server refused with a 429, or with a 5xx and Retry-After: after that time, up to four times. */
export async function withRetries<T>(
  send: () => Promise<T>,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send()
    } catch (error) {
      if (attempt >= tries || !isWorthWaiting(error)) throw error
      await sleep(clock, error.retryAfterMs ?? 1000, signal)
    }
  }
}

function isWorthWaiting(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false
  const { status, retryAfterMs } = error
  if (retryAfterMs !== undefined && retryAfterMs > longestRetryAfterMs) return false
  return status.code === 429 || (status.code >= 500 && retryAfterMs !== undefined)
}
