import { setTimeout as delay } from 'node:timers/promises'

/** The pause between two checks grows to this: a check uses CPU time that what it waits for may need. */
const longestPauseMs = 50
/** After a slow check, such as one that runs kubectl, the pause is twice its time, and at most this. */
const longestSlowPauseMs = 500

/** How long to wait after a check that took this long, if it would otherwise be `pauseMs`. */
export const pauseAfter = (tookMs: number, pauseMs: number): number =>
  Math.max(pauseMs, Math.min(2 * tookMs, longestSlowPauseMs))

/** Only a failure takes this long; less than a unit test may take, so that it says what it waited for. */
const defaultDeadlineMs = 280_000

/**
 * Waits until `isTrue` returns something true, and returns that; calls `meanwhile` in between. Throws after
 * `deadlineMs`, with the text of `describe`. For real sockets, which a fake clock does not control.
 */
export async function until<T>(
  isTrue: () => T | Promise<T>,
  meanwhile?: () => unknown,
  options: { deadlineMs?: number; describe?: () => string } = {},
): Promise<Exclude<T, false | undefined>> {
  const { deadlineMs = defaultDeadlineMs, describe } = options
  const startedMs = performance.now()
  for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const checkedMs = performance.now()
    const answer = await isTrue()
    if (isGiven(answer)) return answer
    const tookMs = performance.now() - checkedMs
    if (performance.now() - startedMs > deadlineMs) {
      throw new Error(`not within ${deadlineMs} ms: ${describe ? describe() : isTrue.toString()}`)
    }
    await meanwhile?.()
    // With something to do in between, such as advancing a fake clock, the number of checks is what takes time.
    await delay(meanwhile === undefined ? pauseAfter(tookMs, pauseMs) : 1)
  }
}

const isGiven = <T>(answer: T): answer is Exclude<T, false | undefined> => answer !== undefined && answer !== false

/**
 * Like `until`, but an error also means not yet, because a real daemon might not have started. If it fails, throws
 * `what` and the last error.
 */
export function eventually<T>(
  what: string,
  isTrue: () => T | Promise<T>,
  deadlineMs = defaultDeadlineMs,
): Promise<Exclude<T, false | undefined>> {
  let last: unknown
  const asked = async (): Promise<T | undefined> => {
    try {
      return await isTrue()
    } catch (error) {
      last = error
      return undefined
    }
  }
  const describe = () => (last instanceof Error ? `${what}; last: ${last.message}` : what)
  return until(asked, undefined, { deadlineMs, describe })
}
