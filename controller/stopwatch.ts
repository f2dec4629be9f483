import type { Clock } from '../runtime/clock.ts'

/**
 * Measures for how long this process has observed a state of an object, on its monotonic clock. Decisions use this
 * instead of timestamps: other machines wrote those, and their clocks may differ by any amount. A new process counts
 * from zero, so it acts later, never too early.
 */
export interface Stopwatch<Mark extends string> {
  /**
   * @param states the states that the object is in, by mark. A count restarts when the state at its mark changes.
   * @returns milliseconds since each of them was first observed
   */
  measure(uid: string, states: ReadonlyMap<Mark, string>): Elapsed<Mark>
  forget(uid: string): void
  /** Objects with a running count. */
  readonly size: number
}

export type Elapsed<Mark extends string> = ReadonlyMap<Mark, number>

interface Count {
  readonly state: string
  readonly sinceMs: number
}

/** @param exists whether an object with this uid exists; one that was deleted while it was read is not counted */
export function createStopwatch<Mark extends string>(
  clock: Pick<Clock, 'monotonic'>,
  exists: (uid: string) => boolean,
): Stopwatch<Mark> {
  const counts = new Map<string, ReadonlyMap<Mark, Count>>()
  return {
    measure(uid, states) {
      const nowMs = clock.monotonic()
      const before = counts.get(uid)
      const after = new Map(
        [...states].map(([mark, state]): [Mark, Count] => {
          const known = before?.get(mark)
          return [mark, known?.state === state ? known : { state, sinceMs: nowMs }]
        }),
      )
      if (after.size > 0 && exists(uid)) counts.set(uid, after)
      else counts.delete(uid)
      return new Map([...after].map(([mark, { sinceMs }]) => [mark, nowMs - sinceMs]))
    },
    forget: (uid) => void counts.delete(uid),
    get size() {
      return counts.size
    },
  }
}
