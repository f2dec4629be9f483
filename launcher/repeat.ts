import { type Clock, sleep } from '../runtime/clock.ts'

interface Repetition {
  readonly clock: Clock
  /** Whether another attempt can succeed after this error. */
  readonly isTemporary: (error: unknown) => error is Error
  /** Called before the wait with the message of the error, and when it is tried again. */
  readonly onRetry: (message: string, again: string) => void | Promise<void>
}

const firstRetryMs = 1000
/** The same as for images in the kubelet. */
const lastRetryMs = 300_000

/**
 * Repeats an attempt for ever, with an increasing delay, while its error is temporary.
 * @throws the first error that is not
 */
export async function repeat<T>(attempt: (isRetry: boolean) => Promise<T>, options: Repetition): Promise<T> {
  for (let delayMs = firstRetryMs; ; delayMs = Math.min(2 * delayMs, lastRetryMs)) {
    try {
      return await attempt(delayMs > firstRetryMs)
    } catch (error) {
      if (!options.isTemporary(error)) throw error
      await options.onRetry(error.message, `trying again in ${delayMs / 1000} s`)
      await sleep(options.clock, delayMs)
    }
  }
}
