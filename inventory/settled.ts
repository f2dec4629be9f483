import { createBuckets, type Rate } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'

/**
 * Lets through the changes of each key at a rate. What comes faster is let through once, when its key has a turn again:
 * the last state counts.
 */
export interface Settled {
  /** Calls `apply` at once or later. */
  change(key: string, apply: () => void): void
  stop(): void
}

export function createSettled(rate: Rate, mostKeys: number, clock: Clock): Settled {
  const bucketOf = createBuckets(rate, mostKeys, clock)
  const waiting = new Map<string, { apply: () => void; readonly cancel: () => void }>()
  return {
    change(key, apply) {
      const pending = waiting.get(key)
      if (pending !== undefined) {
        pending.apply = apply
        return
      }
      const bucket = bucketOf(key)
      if (bucket.takeIfAny()) return apply()
      const cancel = clock.after(bucket.waitMs(), () => {
        const last = waiting.get(key)
        waiting.delete(key)
        bucket.takeIfAny()
        last?.apply()
      })
      waiting.set(key, { apply, cancel })
    },
    stop() {
      for (const { cancel } of waiting.values()) cancel()
      waiting.clear()
    },
  }
}
