import { createBucket } from './bucket.ts'
import type { Bucket } from './bucket.ts'
import { systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import { createLimitedLog } from './limited-log.ts'
import type { Logger } from './log.ts'
import { isUnavailable } from './api-error.ts'
import { createPacedPlaces } from './pace.ts'

export interface WorkQueueOptions {
  /** Reconciles the object with this key. Its errors are logged, up to a rate for each group, and the key is retried. */
  readonly reconcile: (key: string) => Promise<void>
  /** Keys in progress at once that are not late. */
  readonly concurrency: number
  /** Without it, all keys are in one group, which can use the whole concurrency. */
  readonly groups?: {
    readonly of: (key: string) => string
    /** Keys of one group in progress at once. */
    readonly concurrency: number
  }
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * A queue of keys to reconcile. A key is never in progress twice at a time; adding it while it waits changes nothing;
 * adding it while it is in progress runs it once more afterwards, so no addition is lost. A failing key is retried
 * after 5 ms, 10 ms, … up to 1000 s, or 5 s while the API server is unavailable. All failing keys of a group together
 * are retried ten times a second, after a first hundred.
 *
 * Groups take turns, one key at a time, so a group that is slow or fails delays its own keys only. Groups whose keys take
 * long leave a quarter of the concurrency to the others, and a key that takes long gives its place to others. Between two passes the event loop gets a turn, even if passes
 * only compute: a lease is renewed, a probe answered.
 */
export interface WorkQueue {
  add(key: string): void
  /** Adds the key after `delayMs`; of several requests for a key the earliest counts. */
  addAfter(key: string, delayMs: number): void
  statistics(): WorkQueueStatistics
  /**
   * Accepts no more keys, and resolves when those in progress are done. Waiting keys are dropped: the next process
   * finds them again.
   */
  drain(): Promise<void>
}

export interface WorkQueueStatistics {
  readonly waiting: number
  readonly working: number
  readonly delayed: number
  /** Keys whose last attempt failed. */
  readonly failing: number
  readonly done: number
  readonly failures: number
}

interface Group {
  readonly name: string
  /** In insertion order. */
  readonly waiting: Set<string>
  readonly retries: Bucket
  working: number
  failing: number
}

/** All as in client-go's default controller rate limiter. */
const firstRetryMs = 5
const longestRetryMs = 1_000_000
/** While the API server is unavailable: it must not take longer than this to continue once it is back. */
const longestRetryUnavailableMs = 5000
const retriesPerSecond = 10
const retryBurst = 100

/** A pass takes milliseconds. One of many requests can be slow as well, and ends when it takes twice as long. */
export const slowPassMs = 1000

interface Delayed {
  readonly dueMs: number
  readonly cancel: () => void
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export function startWorkQueue(options: WorkQueueOptions): WorkQueue {
  const { reconcile, concurrency, log, clock = systemClock } = options
  const limitedLog = createLimitedLog(log, clock)
  const { of: groupOf, concurrency: groupConcurrency } = options.groups ?? { of: () => '', concurrency }
  /** Groups with a key that waits, is in progress or fails. */
  const groups = new Map<string, Group>()
  /** Groups with a key that waits, in the order of their turns. */
  const turns = new Set<Group>()
  const working = new Set<string>()
  /** Added while in progress. */
  const again = new Set<string>()
  const delayed = new Map<string, Delayed>()
  const failures = new Map<string, number>()
  const counts = { done: 0, failures: 0 }
  const limits = { all: concurrency, perNamespace: groupConcurrency }
  const places = createPacedPlaces(limits, { slowMs: slowPassMs, clock, wake: () => continueOrEnd() })
  let drained: (() => void) | undefined

  const add = (key: string) => {
    if (drained) return
    if (working.has(key)) again.add(key)
    else {
      const group = enter(groupOf(key))
      group.waiting.add(key)
      turns.add(group)
      pump()
    }
  }

  const addAfter = (key: string, delayMs: number) => {
    if (drained) return
    const dueMs = clock.monotonic() + delayMs
    const before = delayed.get(key)
    if (before && before.dueMs <= dueMs) return
    before?.cancel()
    const fire = () => {
      delayed.delete(key)
      add(key)
    }
    delayed.set(key, { dueMs, cancel: clock.after(delayMs, fire) })
  }

  const enter = (name: string): Group => {
    const known = groups.get(name)
    if (known) return known
    const retries = createBucket(retriesPerSecond, retryBurst, clock)
    const group: Group = { name, waiting: new Set(), retries, working: 0, failing: 0 }
    groups.set(name, group)
    return group
  }

  const pump = () => {
    // A group that has had its turn goes to the end of the set, where this loop meets it again.
    for (const group of turns) {
      if (places.isFull()) return
      const [key] = group.waiting
      if (key === undefined || group.working >= groupConcurrency) continue
      const leave = places.take(group.name)
      if (leave === undefined) continue
      group.waiting.delete(key)
      turns.delete(group)
      if (group.waiting.size > 0) turns.add(group)
      group.working++
      working.add(key)
      void work(key, group).finally(() => {
        leave()
        continueOrEnd()
      })
    }
  }

  const continueOrEnd = () => {
    if (!drained) pump()
    else if (working.size === 0) drained()
  }

  const work = async (key: string, group: Group): Promise<void> => {
    try {
      await reconcile(key)
      counts.done++
      if (failures.delete(key)) group.failing--
    } catch (error) {
      retryLater(key, group, error)
    }
    await nextTurn()
    working.delete(key)
    group.working--
    if (again.delete(key)) add(key)
    if (group.waiting.size + group.working + group.failing === 0) groups.delete(groupOf(key))
  }

  const retryLater = (key: string, group: Group, error: unknown) => {
    const failed = failures.get(key) ?? 0
    counts.failures++
    if (failed === 0) group.failing++
    const longestMs = isUnavailable(error) ? longestRetryUnavailableMs : longestRetryMs
    const ownMs = Math.min(firstRetryMs * 2 ** failed, longestMs)
    // Not incremented at the limit: an error of another kind, after an outage, must not begin with the longest delay.
    failures.set(key, ownMs < longestMs ? failed + 1 : failed)
    const waitMs = Math.max(ownMs, group.retries.take())
    // Changes of an object bypass the delay of its retries.
    limitedLog(groupOf(key), { err: error, key, waitMs }, 'reconcile failed; retrying', 'warn')
    addAfter(key, waitMs)
  }

  return {
    add,
    addAfter,
    statistics: () => ({
      waiting: [...turns].reduce((sum, group) => sum + group.waiting.size, 0),
      working: working.size,
      delayed: delayed.size,
      failing: failures.size,
      ...counts,
    }),
    drain() {
      const { promise, resolve } = Promise.withResolvers<void>()
      const before = drained
      drained = () => {
        before?.()
        resolve()
      }
      for (const group of turns) group.waiting.clear()
      turns.clear()
      again.clear()
      failures.clear()
      for (const { cancel } of delayed.values()) cancel()
      delayed.clear()
      if (working.size === 0) drained()
      return promise
    },
  }
}
