import { createBucket, type Rate } from '../runtime/bucket.ts'
import type { Clock } from '../runtime/clock.ts'

/**
 * Lets writes begin at a rate, by their weight. A write begins once all earlier ones are paid for, whatever it weighs
 * itself, and as much of them has ended that it fits into what may be in progress, or all of them. The weight is shared
 * equally by the namespaces that have writes: one that had none for a while is next.
 */
export interface WriteTurns {
  /**
   * Resolves when the write can begin, with the function to be called when it has ended; rejects with the signal's
   * reason if that aborts before.
   */
  take(namespace: string, weight: number, signal: AbortSignal): Promise<() => void>
}

interface WriteLimits extends Rate {
  /** The weight of the writes in progress together; one alone can have more. */
  readonly inProgress: number
}

interface Waiting {
  readonly weight: number
  /** The weights of its namespace before it and with it, as if that had always had writes. */
  readonly from: number
  readonly to: number
  readonly begin: () => void
}

export function createWriteTurns(limits: WriteLimits, clock: Pick<Clock, 'monotonic' | 'after'>): WriteTurns {
  const bucket = createBucket(limits.perSecond, limits.burst, clock)
  const waiting = new Set<Waiting>()
  /** By namespace, the `to` of its last write. */
  const next = new Map<string, number>()
  /** The `from` of the write that began last. */
  let reached = 0
  let isInDebt = false
  const progress = new Set<Waiting>()

  const first = (): Waiting | undefined => {
    let found: Waiting | undefined
    for (const one of waiting) if (found === undefined || one.to < found.to) found = one
    return found
  }

  const fits = ({ weight }: Waiting): boolean =>
    progress.size === 0 || [...progress].reduce((sum, one) => sum + one.weight, weight) <= limits.inProgress

  const pump = () => {
    while (!isInDebt) {
      const one = first()
      if (one === undefined || !fits(one)) return
      waiting.delete(one)
      progress.add(one)
      reached = Math.max(reached, one.from)
      for (const [namespace, to] of next) if (to <= reached) next.delete(namespace)
      one.begin()
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
      const { promise, resolve, reject } = Promise.withResolvers<() => void>()
      const from = Math.max(reached, next.get(namespace) ?? 0)
      const to = from + weight
      next.set(namespace, to)
      const begin = () => {
        signal.removeEventListener('abort', abort)
        bucket.take(weight)
        resolve(end)
      }
      const one = { weight, from, to, begin }
      const end = () => {
        progress.delete(one)
        pump()
      }
      const abort = () => {
        waiting.delete(one)
        reject(signal.reason)
      }
      waiting.add(one)
      signal.addEventListener('abort', abort)
      if (signal.aborted) abort()
      pump()
      return promise
    },
  }
}
