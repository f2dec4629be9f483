import { createBuckets } from '../runtime/bucket.ts'
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

const thisThread: ThreadTimes = { cpuMs: threadMs, availableMs }
