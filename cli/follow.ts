import { clusterLine, errorLine } from './error-line.ts'
import type { World } from './world.ts'

export interface Progress {
  readonly state: 'done' | 'failed' | 'in progress'
  readonly words: string
}

const pollMs = 300

interface FollowOptions {
  /** What to know after a timeout. */
  readonly unfinished?: string
  /** Ends it, with the reason of the signal as the error. */
  readonly signal?: AbortSignal
}

/**
 * Prints each progress of an operation once, on standard error, until it is done or has failed.
 * @param name of the object, before each progress
 * @returns whether it is done
 */
export async function follow(
  name: string,
  read: () => Promise<Progress>,
  timeoutSeconds: number,
  world: Pick<World, 'err' | 'now'>,
  { unfinished = 'the operation continues in the cluster', signal }: FollowOptions = {},
): Promise<boolean> {
  const { sleep, systemClock } = await import('../runtime/clock.ts')
  const untilMs = world.now() + timeoutSeconds * 1000
  for (let printed = ''; world.now() < untilMs; await sleep(systemClock, pollMs, signal)) {
    const { state, words } = await read()
    if (words !== printed) world.err(clusterLine(`${name}: ${words}`))
    printed = words
    if (state !== 'in progress') return state === 'done'
  }
  world.err(errorLine(`timed out after ${timeoutSeconds} s; ${unfinished}`))
  return false
}
