import { createBucket, type Rate } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'
import { createFairQueue } from '../runtime/fair-queue.ts'

/**
 * Lets writes begin at a rate, by their weight. A write begins once all earlier ones are paid for, whatever it weighs
 * itself. Namespaces take turns, so those of another namespace wait for one write of each that has some.
 */
export interface WriteTurns {
  /** Resolves when the write can begin; rejects with the signal's reason if that aborts before. */
  take(namespace: string, weight: number, signal: AbortSignal): Promise<void>
}

export function createWriteTurns(rate: Rate, clock: Pick<Clock, 'monotonic' | 'after'>): WriteTurns {
  const bucket = createBucket(rate.perSecond, rate.burst, clock)
  const waiting = createFairQueue<() => void>()
  let isInDebt = false

  const pump = () => {
    while (!isInDebt) {
      const begin = waiting.take()
      if (begin === undefined) return
      begin()
      const debtMs = Math.ceil(bucket.take(0))
      if (debtMs === 0) continue
      isInDebt = true
      clock.after(debtMs, () => {
        isInDebt = false
        pump()
      })
    }
  }

  return {
    take(namespace, weight, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const remove = waiting.add(namespace, () => {
        signal.removeEventListener('abort', abort)
        bucket.take(weight)
        resolve()
      })
      const abort = () => {
        remove()
        reject(signal.reason)
      }
      signal.addEventListener('abort', abort)
      if (signal.aborted) abort()
      pump()
      return promise
    },
  }
}
