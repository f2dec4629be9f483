import { systemClock, type Clock } from './clock.ts'
import { createFairQueue } from './fair-queue.ts'
import { createPacedPlaces } from './pace.ts'
import { createShares } from './shares.ts'

/**
 * Limits concurrent work in total and per namespace. Namespaces with waiting work take turns, and within a namespace its
 * users do. Namespaces whose work is slow leave a quarter to the others, and work that is late gives its place to
 * others.
 */
export interface Lanes {
  /** Rejects with the signal's reason if that aborts before the work begins. */
  run<T>(namespace: string, work: () => Promise<T>, signal?: AbortSignal, user?: string): Promise<T>
}

/** Requests take milliseconds. */
const slowRequestMs = 500

/**
 * @param limits the maximum number of calls in progress that are not late, in total, and of all calls of a namespace
 * @param slowMs how long a call takes that is slow
 */
export function createLanes(
  limits: { readonly all: number; readonly perNamespace: number },
  clock: Pick<Clock, 'monotonic' | 'after'> = systemClock,
  slowMs = slowRequestMs,
): Lanes {
  const waiting = createFairQueue<(leave: () => void) => void>()
  const shares = createShares(limits.perNamespace)
  const places = createPacedPlaces(limits, { slowMs, clock, wake: () => pump() })

  const take = (namespace: string): (() => void) | undefined => {
    const leaveShare = shares.take(namespace)
    const leavePlace = leaveShare && places.take(namespace)
    if (leavePlace === undefined) {
      leaveShare?.()
      return undefined
    }
    return () => {
      leavePlace()
      leaveShare?.()
    }
  }

  const pump = () => {
    while (!places.isFull()) {
      let leave: (() => void) | undefined
      const start = waiting.take((namespace) => (leave = take(namespace)) !== undefined)
      if (start === undefined) return
      start(() => {
        leave?.()
        pump()
      })
    }
  }

  const enter = (namespace: string, signal: AbortSignal | undefined, user?: string): Promise<() => void> => {
    const { promise, resolve, reject } = Promise.withResolvers<() => void>()
    const start = (leave: () => void) => {
      signal?.removeEventListener('abort', abort)
      resolve(leave)
    }
    const remove = waiting.add(namespace, start, user)
    const abort = () => {
      remove()
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', abort)
    pump()
    return promise
  }

  return {
    async run(namespace, work, signal, user) {
      signal?.throwIfAborted()
      const leave = await enter(namespace, signal, user)
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
