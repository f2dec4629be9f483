import type { Clock } from './clock.ts'
import { systemClock } from './clock.ts'
import type { Logger } from './log.ts'

/** The part of `process` that is needed, so that a test can send signals. */
interface SignalSource {
  on(signal: 'SIGTERM' | 'SIGINT', listener: () => void): unknown
}

interface ShutdownOptions {
  readonly source: SignalSource
  readonly log: Logger
  /** Ends the process. */
  readonly exit: (code: number) => void
  readonly clock?: Clock
  /** All steps together; under the pod's terminationGracePeriodSeconds. */
  readonly timeoutMs?: number
}

/**
 * The shutdown of a process. The first SIGTERM or SIGINT runs the steps one after the other, in the order in which they
 * were added, and exits 0; the second exits at once. A step that fails is logged, and the next one runs. `fail` does
 * the same and exits 1.
 */
export interface Shutdown {
  /** Aborted when the shutdown begins. */
  readonly signal: AbortSignal
  step(name: string, run: () => void | Promise<void>): void
  begin(why: string): void
  /** Something that the process needs was lost. */
  fail(why: string, error?: unknown): void
  /**
   * Exits 1 at once, without the steps, also during a shutdown: whatever the process would still do could do harm, such
   * as after it lost the leadership.
   */
  abandon(why: string): void
}

export function createShutdown(options: ShutdownOptions): Shutdown {
  const { source, log, exit, clock = systemClock, timeoutMs = 25_000 } = options
  const ending = new AbortController()
  const steps: { name: string; run: () => void | Promise<void> }[] = []

  const end = async (code: number): Promise<void> => {
    for (const { name, run } of steps) {
      try {
        await run()
      } catch (error) {
        log.error({ err: error, step: name }, 'a step of the shutdown failed')
      }
    }
    exit(code)
  }

  const begin = (why: string, code: number) => {
    if (ending.signal.aborted) return
    log.info({ why }, 'stopping')
    ending.abort()
    clock.after(timeoutMs, () => {
      log.error({ timeoutMs }, 'the shutdown took too long')
      exit(1)
    })
    void end(code)
  }

  const onSignal = (name: string) => () => {
    if (ending.signal.aborted) exit(1)
    else begin(name, 0)
  }
  source.on('SIGTERM', onSignal('SIGTERM'))
  source.on('SIGINT', onSignal('SIGINT'))

  return {
    signal: ending.signal,
    step: (name, run) => void steps.push({ name, run }),
    begin: (why) => begin(why, 0),
    fail(why, error) {
      log.error({ err: error, why }, 'cannot continue')
      begin(why, 1)
    },
    abandon(why) {
      log.error({ why }, 'exiting at once')
      exit(1)
    },
  }
}
