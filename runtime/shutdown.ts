import type { Clock } from './clock.ts'
import { systemClock } from './clock.ts'
import type { Logger } from './log.ts'

/** The part of `process` that is needed; handed in, so that a test can be the process. */
export interface SignalSource {
  on(signal: 'SIGTERM' | 'SIGINT', listener: () => void): unknown
}

export interface ShutdownOptions {
  readonly source: SignalSource
  readonly log: Logger
  /** Ends the process. */
  readonly exit: (code: number) => void
  readonly clock?: Clock
  /** All steps together; under the pod's terminationGracePeriodSeconds. */
  readonly timeoutMs?: number
}

/**
 * The ordered end of a process. The first SIGTERM or SIGINT runs the steps one after the other, in the order in which they were added,
 * and exits 0; the second exits at once. A step that fails is logged, and the next one runs. `fail` does the same and exits 1.
 */
export interface Shutdown {
  /** Aborted when the end begins. */
  readonly signal: AbortSignal
  step(name: string, run: () => void | Promise<void>): void
  begin(why: string): void
  /** Something without which the process is of no use was lost, e.g. leadership. */
  fail(why: string, error?: unknown): void
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
      log.error({ err: error, why }, 'cannot go on')
      begin(why, 1)
    },
  }
}
