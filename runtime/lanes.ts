import { createFairQueue } from './fair-queue.ts'
import { createShares } from './shares.ts'

/**
 * Limits concurrent work in total and per namespace. Namespaces with waiting work take turns, and within a namespace its
 * users do.
 */
export interface Lanes {
  /** Rejects with the signal's reason if that aborts before the work begins. */
  run<T>(namespace: string, work: () => Promise<T>, signal?: AbortSignal, user?: string): Promise<T>
}

/** @param limits the maximum number of calls in progress, in total and per namespace */
export function createLanes(limits: { readonly all: number; readonly perNamespace: number }): Lanes {
  const waiting = createFairQueue<(leave: () => void) => void>()
  const shares = createShares(limits.perNamespace)
  let busy = 0

  const pump = () => {
    while (busy < limits.all) {
      let leaveShare: (() => void) | undefined
      const start = waiting.take((namespace) => (leaveShare = shares.take(namespace)) !== undefined)
      if (start === undefined) return
      busy++
      start(() => {
        leaveShare?.()
        busy--
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
