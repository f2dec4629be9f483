import { LRUCache } from 'lru-cache'
import type { Clock } from './clock.ts'

export interface Bucket {
  /**
   * Takes tokens, on credit if there are too few. Returns the milliseconds until the debt is paid; `take(0)` only reads
   * it.
   */
  take(count?: number): number
  /** Takes a token if there is one. Returns whether it did. */
  takeIfAny(): boolean
  /** The milliseconds until there is a token. */
  waitMs(): number
}

/** How fast a bucket fills, and up to how much. */
export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

/** A bucket for each key. Of more than `most`, the one that was used least recently is forgotten. */
export function createBuckets(
  { perSecond, burst }: Rate,
  most: number,
  clock: Pick<Clock, 'monotonic'>,
): (key: string) => Bucket {
  const buckets = new LRUCache<string, Bucket>({ max: most })
  return (key) => {
    const bucket = buckets.get(key) ?? createBucket(perSecond, burst, clock)
    buckets.set(key, bucket)
    return bucket
  }
}

/** A token bucket: it fills with time, up to `burst`. */
export function createBucket(perSecond: number, burst: number, clock: Pick<Clock, 'monotonic'>): Bucket {
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
    waitMs() {
      fill()
      return (Math.max(0, 1 - tokens) / perSecond) * 1000
    },
  }
}
