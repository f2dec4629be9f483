import { setTimeout as after } from 'node:timers/promises'

/**
 * Asks `condition` again and again until it answers something; an answer of undefined or false, or a throw, means not yet.
 * Fails with `what` and the last error when the deadline passes.
 */
export async function until<T>(
  what: string,
  condition: () => Promise<T | undefined | false> | T | undefined | false,
  deadlineMs = 20_000,
): Promise<T> {
  const deadline = Date.now() + deadlineMs
  let last: unknown
  while (Date.now() < deadline) {
    try {
      const answer = await condition()
      if (answer !== undefined && answer !== false) return answer
    } catch (error) {
      last = error
    }
    await after(10)
  }
  throw new Error(`not within ${deadlineMs} ms: ${what}`, { cause: last })
}
