import type { LauncherExit, LauncherPhase } from '../runtime/launcher-api.ts'
import type { DomainState } from './libvirt/domain.ts'

export interface Standing {
  readonly phase: LauncherPhase
  readonly reason: string
  /** Given when the VM has ended for good. */
  readonly exit?: LauncherExit
}

/**
 * What libvirt's state of the domain means for the VM; undefined is a domain that libvirt does not know.
 * Only a guest that powered itself off, asked or not, has succeeded: a QEMU that was killed must not look like it.
 */
export function standingOf(
  state: DomainState | undefined,
  known: { wasStarted: boolean; isShuttingDown: boolean },
): Standing {
  if (state === undefined) return { phase: 'Gone', reason: 'undefined', exit: 'Failed' }
  const { reason } = state
  switch (state.state) {
    case 'running':
    case 'blocked':
      return { phase: known.isShuttingDown ? 'ShuttingDown' : 'Running', reason }
    case 'paused':
      // QEMU is made paused and let go when libvirt has done its part.
      return { phase: reason === 'startingUp' ? 'Defined' : 'Paused', reason }
    case 'pmsuspended':
      return { phase: 'Paused', reason }
    case 'shutdown':
      return { phase: 'ShuttingDown', reason }
    case 'shutoff':
      if (!known.wasStarted) return { phase: 'Defined', reason }
      return { phase: 'Shutoff', reason, exit: reason === 'shutdown' ? 'Succeeded' : 'Failed' }
    case 'crashed':
      return { phase: 'Crashed', reason, exit: 'Failed' }
    default:
      return { phase: 'Defined', reason: `${state.state} ${reason}` }
  }
}
