import { createBuckets } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import { availableMs, threadMs } from '../runtime/thread-time.ts'
import type { ThreadTimes } from '../runtime/time-budget.ts'

/**
 * Limits the CPU time that checks of VMs take, for each namespace. A tenant decides how large VMs are, how many of them
 * wait, and when all are checked again: turns between namespaces alone would leave to it what time there is, and the
 * event loop to each request of others for a moment between two checks.
 */
export interface CheckTime {
  /** The milliseconds for which no VM of the namespace is to be checked. */
  waitMs(namespace: string): number
  /** Runs a check, and counts its CPU time. */
  measure<T>(namespace: string, check: () => T): T
}

/** In milliseconds. A usual VM takes one or two: more of them than can start otherwise. */
const rate = { perSecond: 250, burst: 1000 }

const mostNamespaces = 4096

export function createCheckTime({ cpuMs, availableMs: monotonic }: ThreadTimes = thisThread): CheckTime {
  const bucketOf = createBuckets(rate, mostNamespaces, { monotonic })
  return {
    waitMs: (namespace) => Math.ceil(bucketOf(namespace).take(0)),
    measure(namespace, check) {
      const began = cpuMs()
      try {
        return check()
      } finally {
        bucketOf(namespace).take(cpuMs() - began)
      }
    },
  }
}

/**
 * How far apart the VMs of a namespace that wait are at least. Were all tried again at once, they would find that the
 * first check has used up the time, thousands of times a second.
 */
const gapMs = 10

/** Where VMs wait whose namespace has used up its time. They are released one at a time, in the order of their arrival. */
export interface WaitingRoom {
  /** Whether the VM with this key must wait; it is released later. */
  enter(namespace: string, key: string): boolean
  /** The VM is checked now. */
  leave(namespace: string, key: string): void
}

export function createWaitingRoom(
  checkTime: Pick<CheckTime, 'waitMs'>,
  clock: Pick<Clock, 'after'>,
  release: (key: string) => void,
): WaitingRoom {
  const waiting = new Map<string, Set<string>>()
  const releaseAfter = (namespace: string, keys: Set<string>, ms: number, released?: string): void => {
    clock.after(ms, () => {
      const waitMs = checkTime.waitMs(namespace)
      const [key] = keys
      const isReleased = waitMs === 0 && key !== undefined
      // It keeps its place until it is checked. If it is still there after its release, its VM may be gone.
      if (isReleased && key === released) keys.delete(key)
      else if (isReleased) release(key)
      if (keys.size === 0) waiting.delete(namespace)
      else releaseAfter(namespace, keys, Math.max(waitMs, gapMs), isReleased ? key : released)
    })
  }
  return {
    enter(namespace, key) {
      const waitMs = checkTime.waitMs(namespace)
      if (waitMs === 0) return false
      const keys = waiting.get(namespace) ?? new Set()
      if (!waiting.has(namespace)) {
        waiting.set(namespace, keys)
        releaseAfter(namespace, keys, waitMs)
      }
      keys.add(key)
      return true
    },
    leave: (namespace, key) => void waiting.get(namespace)?.delete(key),
  }
}

const thisThread: ThreadTimes = { cpuMs: threadMs, availableMs }
