import type { Clock } from '../runtime/clock.ts'
import { slowPassMs } from '../runtime/work-queue.ts'

/** When a pass leaves the rest of its creations to the next one. */
export interface PassDeadline {
  /** Asked before each write. The first is never late, however long was read before, so each pass makes progress. */
  isOver(): boolean
}

/** Longer than what is slow for the queue, so that passes which it ends count as slow there. */
const passMs = 2 * slowPassMs

/**
 * A tenant can make each creation in its namespace take seconds, for example with thousands of ResourceQuotas. A pass
 * with many of them would keep its worker from other tenants, so its key is queued again and takes another turn.
 */
export function createPassDeadline(clock: Pick<Clock, 'monotonic'>, ms: number = passMs): PassDeadline {
  let startMs: number | undefined
  return {
    isOver() {
      startMs ??= clock.monotonic()
      return clock.monotonic() - startMs >= ms
    },
  }
}
