import { duplexPair } from 'node:stream'
import type { Clock } from '../runtime/clock.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { joinSession } from './join-session.ts'
import { combination, typing } from './key.ts'
import { pressKeys } from './rfb.ts'
import { refused, sessionPath, vmRef } from './vm-session.ts'
import type { Cluster, World } from './world.ts'

export interface SendKeyFlags {
  readonly namespace?: string
  readonly text?: string
}

/** `kubectl vm send-key`: presses keys at the screen of a VM. */
export async function sendKeys(
  name: string,
  keys: readonly string[],
  flags: SendKeyFlags,
  cluster: Cluster,
  world: Pick<World, 'err'> & { readonly clock: Clock },
): Promise<ExitCode> {
  const combinations = [...typing(flags.text ?? ''), ...keys.map(combination)]
  if (combinations.length === 0) throw new Usage('a key is required, for example ctrl-alt-delete, or --text TEXT')
  const vm = vmRef(name, flags, cluster)
  const [ours, theirs] = duplexPair()
  const session = joinSession(
    theirs,
    (receiver) => cluster.attach(sessionPath(vm, 'attach/vnc'), receiver),
    world.clock,
  )
  // A refused session has no bytes.
  const opened = session.then(
    () => undefined,
    (error: unknown) => {
      ours.destroy()
      return error
    },
  )
  try {
    await pressKeys(ours, combinations, world.clock)
    return exitCodes.fine
  } catch (error) {
    const refusal = ours.destroyed ? await opened : undefined
    if (refusal === undefined) throw error
    return await refused(refusal, vm, cluster, world)
  } finally {
    ours.destroy()
    theirs.destroy()
  }
}
