import type { Clock } from './clock.ts'

/**
 * Deadlines for what a client still has to send. They count turns of the event loop in addition to time: after a second
 * of computation, this process has not yet read what arrived meanwhile, and the client must not be disconnected for
 * that.
 */
export interface ArrivalDeadlines {
  /** Calls `expire` once, after the deadline, unless the returned function was called before. */
  start(expire: () => void): () => void
}

const turnMs = 250

/** Deadlines of `turns` turns: between `turns - 1` and `turns` times 250 ms on an idle process. */
export function createArrivalDeadlines(clock: Pick<Clock, 'after'>, turns: number): ArrivalDeadlines {
  interface Entry {
    readonly expire: () => void
    turnsLeft: number
  }
  const waiting = new Set<Entry>()
  let isTicking = false
  const tick = () => {
    for (const entry of waiting) {
      entry.turnsLeft -= 1
      if (entry.turnsLeft > 0) continue
      waiting.delete(entry)
      entry.expire()
    }
    isTicking = waiting.size > 0
    if (isTicking) clock.after(turnMs, tick)
  }
  return {
    start(expire) {
      const entry = { expire, turnsLeft: turns }
      waiting.add(entry)
      if (!isTicking) {
        isTicking = true
        clock.after(turnMs, tick)
      }
      return () => waiting.delete(entry)
    },
  }
}
