/** Work in progress whose result all callers with the same key share. */
export interface SharedWork<T> {
  /**
   * Begins the work, or joins it. Rejects with the signal's reason if that aborts first; the work itself is aborted
   * when the last of its callers has left.
   */
  run(key: string, work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T>
}

interface Running<T> {
  readonly result: Promise<T>
  readonly controller: AbortController
  callers: number
}

export function createSharedWork<T>(): SharedWork<T> {
  const running = new Map<string, Running<T>>()

  const begin = (key: string, work: (signal: AbortSignal) => Promise<T>): Running<T> => {
    const controller = new AbortController()
    const result = work(controller.signal).finally(() => {
      if (running.get(key)?.controller === controller) running.delete(key)
    })
    // Without a handler, a failure after the last caller has left would end the process.
    result.catch(() => {})
    const begun = { result, controller, callers: 0 }
    running.set(key, begun)
    return begun
  }

  return {
    async run(key, work, signal) {
      signal?.throwIfAborted()
      const joined = running.get(key) ?? begin(key, work)
      joined.callers++
      const { promise: aborted, reject } = Promise.withResolvers<never>()
      const abort = () => reject(signal?.reason)
      signal?.addEventListener('abort', abort)
      try {
        return await Promise.race([joined.result, aborted])
      } finally {
        signal?.removeEventListener('abort', abort)
        joined.callers--
        if (joined.callers === 0 && running.get(key) === joined) {
          running.delete(key)
          joined.controller.abort(signal?.reason)
        }
      }
    },
  }
}
