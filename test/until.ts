import { setTimeout as delay } from 'node:timers/promises'

/**
 * Waits until `isTrue` answers something, and gives that back; does `meanwhile` in between, for at most `deadlineMs`; then throws, with `describe`'s words. For
 * what happens on real sockets: a fake clock cannot hurry those.
 */
export async function until<T>(
  isTrue: () => T | Promise<T>,
  meanwhile: () => unknown = () => {},
  options: { deadlineMs?: number; describe?: () => string } = {},
): Promise<Exclude<T, false | undefined>> {
  const { deadlineMs = 15_000, describe } = options
  const startedMs = performance.now()
  for (;;) {
    const answer = await isTrue()
    if (isGiven(answer)) return answer
    if (performance.now() - startedMs > deadlineMs) {
      throw new Error(`not within ${deadlineMs} ms: ${describe ? describe() : isTrue.toString()}`)
    }
    await meanwhile()
    await delay(1)
  }
}

const isGiven = <T>(answer: T): answer is Exclude<T, false | undefined> => answer !== undefined && answer !== false

/** The same for what a real daemon does, which may not be there yet: a throw means not yet, too. `what`, and the last throw, are said when it has not come about. */
export function eventually<T>(
  what: string,
  isTrue: () => T | Promise<T>,
  deadlineMs = 20_000,
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
