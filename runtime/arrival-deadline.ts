import type { Clock } from './clock.ts'

/**
 * Deadlines for what a client still has to send. They count turns of the event loop and not time alone: after a second in which this process computed, nothing
 * that arrived meanwhile has been read yet, and a client must not pay for that.
 */
export interface ArrivalDeadlines {
  /** Calls `expire` once after the deadline, unless the returned function was called before. */
  start(expire: () => void): () => void
}

export const turnMs = 250

/** Deadlines of `turns` turns: between `turns - 1` and `turns` times 250 ms on an idle process. */
export function createArrivalDeadlines(clock: Pick<Clock, 'after'>, turns: number): ArrivalDeadlines {
  const waiting = new Map<() => void, number>()
  let isTicking = false
  const tick = () => {
    for (const [expire, turnsLeft] of waiting) {
      if (turnsLeft > 1) waiting.set(expire, turnsLeft - 1)
      else {
        waiting.delete(expire)
        expire()
      }
    }
    isTicking = waiting.size > 0
    if (isTicking) clock.after(turnMs, tick)
  }
  return {
    start(expire) {
      const entry = () => expire()
      waiting.set(entry, turns)
      if (!isTicking) {
        isTicking = true
        clock.after(turnMs, tick)
      }
      return () => waiting.delete(entry)
    },
  }
}
