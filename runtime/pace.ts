import { LRUCache } from 'lru-cache'
import type { Clock } from './clock.ts'

/**
 * Whose work has been slow lately. A tenant can make requests of its namespace last for ten seconds, for example with
 * thousands of quotas: with turns alone, a few such namespaces would have all places, and each turn would last as long.
 * So those that are slow leave some places to the others.
 */
export interface Pace {
  isSlow(namespace: string): boolean
  /** To be called when work begins; returns what to call when it ends. */
  begin(namespace: string): () => void
}

/**
 * After a slow call, for how many times as long its namespace is slow; later calls do not shorten that. Namespaces that
 * take turns in being slow must be as many as the calls of this time that hold all places: more than a hundred.
 */
const factor = 60
const longestMs = 600_000
const mostNamespaces = 4096

/**
 * Places that namespaces may have together that are slow, each within its own limit. A quarter is left to the others,
 * who need it for milliseconds. If all are slow, because the API server is, they have nearly what they had.
 */
export const placesOfSlow = ({ all, perNamespace }: { readonly all: number; readonly perNamespace: number }): number =>
  Math.max(perNamespace, all - Math.max(1, Math.floor(all / 4)))

/**
 * Places for work at once. Namespaces whose work is slow leave a quarter of them to the others. Work that is late gives
 * its place to others: it only waits for the API server, and it may be of a namespace that was never slow before.
 */
export interface PacedPlaces {
  /** Whether no namespace gets a place. */
  isFull(): boolean
  /** Returns the function that gives the place back, which can be called twice; undefined if there is none. */
  take(namespace: string): (() => void) | undefined
}

export interface PaceOptions {
  /** For how long work takes a place that is slow. */
  readonly slowMs: number
  readonly clock: Pick<Clock, 'monotonic' | 'after'>
  /** Called when there may be a place without one having been given back. */
  readonly wake: () => void
}

/** As much work as this at most is in progress in addition to the places. */
const mostLate = 32

/** @param limits the number of places, in total and those that the caller lets one namespace have */
export function createPacedPlaces(
  limits: { readonly all: number; readonly perNamespace: number },
  { slowMs, clock, wake }: PaceOptions,
): PacedPlaces {
  const pace = createPace(clock, slowMs)
  const mostSlow = placesOfSlow(limits)
  const lateLimit = Math.min(limits.all, mostLate)
  let taken = 0
  /** Those of namespaces that were slow when they took them. */
  let slow = 0
  let late = 0
  const isFull = () => taken - Math.min(late, lateLimit) >= limits.all
  return {
    isFull,
    take(namespace) {
      const isSlow = pace.isSlow(namespace)
      if (isFull() || (isSlow && slow >= mostSlow)) return undefined
      const end = pace.begin(namespace)
      taken++
      if (isSlow) slow++
      let isLate = false
      const cancel = clock.after(slowMs, () => {
        isLate = true
        late++
        wake()
      })
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        cancel()
        end()
        taken--
        if (isSlow) slow--
        if (isLate) late--
      }
    },
  }
}

/** @param slowMs how long a call takes that is slow */
export function createPace(clock: Pick<Clock, 'monotonic'>, slowMs: number): Pace {
  const slowUntilMs = new LRUCache<string, number>({ max: mostNamespaces })
  /** When each call in progress has begun, the oldest first. */
  const running = new Map<string, Set<{ readonly sinceMs: number }>>()
  return {
    isSlow(namespace) {
      // Of cluster-scoped objects: no tenant makes these slow.
      if (namespace === '') return false
      const nowMs = clock.monotonic()
      const [oldest] = running.get(namespace) ?? []
      const isLate = oldest !== undefined && nowMs - oldest.sinceMs > slowMs
      return isLate || (slowUntilMs.get(namespace) ?? -Infinity) > nowMs
    },
    begin(namespace) {
      const call = { sinceMs: clock.monotonic() }
      const calls = running.get(namespace) ?? new Set()
      running.set(namespace, calls.add(call))
      return () => {
        if (!calls.delete(call)) return
        if (calls.size === 0) running.delete(namespace)
        const nowMs = clock.monotonic()
        const ms = nowMs - call.sinceMs
        if (ms <= slowMs) return
        const untilMs = nowMs + Math.min(longestMs, factor * ms)
        slowUntilMs.set(namespace, Math.max(untilMs, slowUntilMs.get(namespace) ?? 0))
      }
    },
  }
}
