import type { Clock } from '../runtime/clock.ts'

interface Timer {
  readonly dueMs: number
  readonly order: number
  readonly run: () => void
}

/** A clock that only moves when a test advances it. */
export interface FakeClock extends Clock {
  /** Advances by `ms` and fires the due timers in order; after each, all pending promises run. */
  advance(ms: number): Promise<void>
  /** Sets the wall clock, as NTP does. Timers and the monotonic clock are not affected. */
  setWallClock(nowMs: number): void
  /** Timers that have not fired yet. */
  pending(): number
  /** Milliseconds until the next timer, if there is one. */
  nextMs(): number | undefined
}

/** Lets promises settle that wait only for other promises. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

export function fakeClock(startMs = Date.UTC(2030, 0, 1)): FakeClock {
  const timers = new Set<Timer>()
  let elapsedMs = 0
  let bootMs = startMs
  let order = 0
  const next = (): Timer | undefined => [...timers].toSorted((a, b) => a.dueMs - b.dueMs || a.order - b.order)[0]
  return {
    now: () => bootMs + elapsedMs,
    monotonic: () => elapsedMs,
    after(delayMs, run) {
      const timer = { dueMs: elapsedMs + Math.max(0, delayMs), order: order++, run }
      timers.add(timer)
      return () => timers.delete(timer)
    },
    async advance(ms) {
      const untilMs = elapsedMs + ms
      await settle()
      for (let timer = next(); timer && timer.dueMs <= untilMs; timer = next()) {
        timers.delete(timer)
        elapsedMs = timer.dueMs
        timer.run()
        await settle()
      }
      elapsedMs = untilMs
      await settle()
    },
    setWallClock(nowMs) {
      bootMs = nowMs - elapsedMs
    },
    pending: () => timers.size,
    nextMs() {
      const timer = next()
      return timer && timer.dueMs - elapsedMs
    },
  }
}
