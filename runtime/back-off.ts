import type { Clock } from './clock.ts'

export interface BackOff {
  /** How long to wait before the next try, in milliseconds. */
  next(): number
}

/**
 * Waits that double from `firstMs` to `longestMs`, each stretched by chance to up to twice as long, so that many clients do
 * not come back at once. After `healthyMs` without a failure it starts anew.
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
