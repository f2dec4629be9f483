import type { LauncherExit, LauncherPhase } from '../runtime/launcher-api.ts'
import type { DomainState } from './libvirt/domain.ts'

export interface PhaseReport {
  readonly phase: LauncherPhase
  readonly reason: string
  /** Set once the VM has ended permanently. */
  readonly exit?: LauncherExit
  /** Why it has failed, or is paused. */
  readonly message?: string
}

/**
 * The phase for libvirt's state of the domain; undefined if libvirt does not have the domain. Only a guest that powered
 * itself off, on request or not, has succeeded; a killed QEMU has failed.
 */
export function phaseOf(
  state: DomainState | undefined,
  known: { wasStarted: boolean; isShuttingDown: boolean; hasPoweredOff: boolean },
): PhaseReport {
  if (state === undefined) return failed('Gone', 'undefined', 'libvirt lost the domain')
  const { reason } = state
  switch (state.state) {
    case 'running':
    case 'blocked':
      return { phase: known.isShuttingDown ? 'ShuttingDown' : 'Running', reason }
    case 'paused':
      // libvirt creates QEMU paused and resumes it at the end of the start.
      if (reason === 'startingUp') return { phase: 'Defined', reason }
      return { phase: 'Paused', reason, ...(reason === 'unknown' ? { message: stopped } : {}) }
    case 'pmsuspended':
      return { phase: 'Paused', reason }
    case 'shutdown':
      return { phase: 'ShuttingDown', reason }
    case 'shutoff':
      if (!known.wasStarted) return { phase: 'Defined', reason }
      // A libvirtd that is lost while it ends the domain does not leave the reason to the next one.
      if (reason === 'shutdown' || (reason === 'unknown' && known.hasPoweredOff))
        return { phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' }
      return failed('Shutoff', reason, causes.get(reason) ?? `QEMU ended: ${reason}`)
    case 'crashed':
      return failed('Crashed', reason, reason === 'panicked' ? 'the guest panicked' : `the guest crashed: ${reason}`)
    default:
      return { phase: 'Defined', reason: `${state.state} ${reason}` }
  }
}

/** libvirt knows no reason: QEMU stopped the guest by itself. */
const stopped =
  "the guest is paused: QEMU stopped it because of an internal error, for example an instruction that KVM cannot execute on this node; QEMU's log in the launcher pod has the cause"

const failed = (phase: LauncherPhase, reason: string, message: string): PhaseReport => ({
  phase,
  reason,
  exit: 'Failed',
  message,
})

/** By libvirt's reason for the state `shutoff`. */
const causes: ReadonlyMap<string, string> = new Map([
  ['unknown', 'QEMU had ended when libvirtd was restarted'],
  ['destroyed', 'QEMU was ended before the guest powered off'],
  ['crashed', 'the guest panicked, or QEMU crashed or was killed'],
  ['failed', 'QEMU could not be started'],
  [
    'daemon',
    'libvirtd was restarted, could not reconnect to QEMU, and ended it; the log of the launcher pod has the cause',
  ],
])
