import type { Clock } from './clock.ts'

export interface BackOff {
  /** How long to wait before the next try, in milliseconds. */
  next(): number
}

/**
 * Waits that double from `firstMs` to `longestMs`, each with a random jitter of up to its own length, so that many
 * clients do not retry at the same moment. After `healthyMs` without a failure it starts over.
 */
export function createBackOff(options: {
  firstMs: number
  longestMs: number
  healthyMs: number
  clock: Clock
  random: () => number
}): BackOff {
  const { firstMs, longestMs, healthyMs, clock, random } = options
  let nextMs = firstMs
  let lastMs = -Infinity
  return {
    next() {
      if (clock.monotonic() - lastMs > healthyMs) nextMs = firstMs
      const waitMs = nextMs * (1 + random())
      nextMs = Math.min(nextMs * 2, longestMs)
      lastMs = clock.monotonic() + waitMs
      return waitMs
    },
  }
}
