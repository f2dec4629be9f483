import type { Clock } from './clock.ts'

export interface Bucket {
  /** Takes so many tokens, on credit if there are too few: how long to wait until they are paid, in milliseconds. `take(0)` only reads the debt. */
  take(count?: number): number
  /** Takes a token if there is one. */
  takeIfAny(): boolean
}

/** Tokens that grow with time, up to `burst`. */
export function createBucket(perSecond: number, burst: number, clock: Clock): Bucket {
  let tokens = burst
  let atMs = clock.monotonic()
  const fill = () => {
    const nowMs = clock.monotonic()
    tokens = Math.min(burst, tokens + ((nowMs - atMs) / 1000) * perSecond)
    atMs = nowMs
  }
  return {
    take(count = 1) {
      fill()
      tokens -= count
      return tokens >= 0 ? 0 : (-tokens / perSecond) * 1000
    },
    takeIfAny() {
      fill()
      if (tokens < 1) return false
      tokens--
      return true
    },
  }
}
