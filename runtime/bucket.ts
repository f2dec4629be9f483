import type { Clock } from './clock.ts'

export interface Bucket {
  /** Takes a token, on credit if there is none: how long to wait until it is paid, in milliseconds. */
  take(): number
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
    take() {
      fill()
      tokens--
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
