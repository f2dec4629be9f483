import { LRUCache } from 'lru-cache'
import type { Clock } from './clock.ts'

/**
 * Whose work has been slow lately. A tenant can make requests of its namespace last for ten seconds, for example with
 * thousands of quotas: with turns alone, a few such namespaces would have all places, and each turn would last as long.
 * So all that are slow count as one, and the others have the rest.
 */
export interface Pace {
  isSlow(namespace: string): boolean
  /** To be called when work begins; returns what to call when it ends. */
  begin(namespace: string): () => void
}

/** Requests take milliseconds, and passes with many of them a tenth of a second. */
const slowMs = 500
/** Of the average, for each call: ten fast calls make up for one of ten seconds. */
const weightOfLast = 1 / 4
const mostNamespaces = 4096

export function createPace(clock: Pick<Clock, 'monotonic'>): Pace {
  const averageMs = new LRUCache<string, number>({ max: mostNamespaces })
  /** When each call in progress has begun, the oldest first. */
  const running = new Map<string, Set<{ readonly sinceMs: number }>>()
  return {
    isSlow(namespace) {
      const [oldest] = running.get(namespace) ?? []
      const isLate = oldest !== undefined && clock.monotonic() - oldest.sinceMs > slowMs
      return isLate || (averageMs.get(namespace) ?? 0) > slowMs
    },
    begin(namespace) {
      const call = { sinceMs: clock.monotonic() }
      const calls = running.get(namespace) ?? new Set()
      running.set(namespace, calls.add(call))
      return () => {
        if (!calls.delete(call)) return
        if (calls.size === 0) running.delete(namespace)
        const ms = clock.monotonic() - call.sinceMs
        const before = averageMs.get(namespace) ?? ms
        averageMs.set(namespace, before + (ms - before) * weightOfLast)
      }
    },
  }
}
