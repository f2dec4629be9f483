/** Time as an argument, so that tests need not wait for it. */
export interface Clock {
  /** Milliseconds since the epoch; can jump. For texts that people read. */
  now(): number
  /** Milliseconds since an arbitrary start; never goes back. For durations. */
  monotonic(): number
  /** Runs `run` once after `delayMs`; the returned function cancels it. */
  after(delayMs: number, run: () => void): () => void
}

/** Node fires a longer timer at once (2^31 - 1 ms are 24.8 days). */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, run) {
    let timer: NodeJS.Timeout
    const wait = (remainingMs: number) => {
      const stepMs = Math.min(remainingMs, longestTimerMs)
      timer = setTimeout(() => (remainingMs > stepMs ? wait(remainingMs - stepMs) : run()), stepMs)
    }
    wait(Math.max(0, delayMs))
    return () => clearTimeout(timer)
  },
}

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it is aborted. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = () => {
      cancel()
      reject(signal?.reason)
    }
    const cancel = clock.after(delayMs, () => {
      signal?.removeEventListener('abort', abort)
      resolve()
    })
    signal?.addEventListener('abort', abort, { once: true })
  })
}

/** RFC 3339 with seconds, as `metav1.Time` is written. */
export function timestamp(clock: Pick<Clock, 'now'>): string {
  return `${new Date(clock.now()).toISOString().slice(0, 19)}Z`
}

/** RFC 3339 with microseconds, as `metav1.MicroTime` is written. */
export function microTimestamp(clock: Pick<Clock, 'now'>): string {
  return `${new Date(clock.now()).toISOString().slice(0, 23)}000Z`
}
