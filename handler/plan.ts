import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import { askedGraceSeconds } from '../api/template.ts'
import type { DomainReport, LauncherErrorReason } from '../runtime/launcher-api.ts'
import { failedStatus, isAlive, isChanged, silentStatus, statusOf } from './status.ts'

/** What the handler knows of a VM's launcher. `absent` and `unreachable` are not "gone": only the controller sees the pod. */
export type Observation =
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreachable'; readonly message: string; readonly silentForMs: number }
  | {
      readonly kind: 'refused'
      readonly reason: LauncherErrorReason
      readonly message: string
      readonly silentForMs: number
    }
  | { readonly kind: 'report'; readonly report: DomainReport; readonly podIP?: string }

export type Action =
  /** Hand the VM to the launcher; its answer is the next observation. */
  | { readonly do: 'put' }
  | { readonly do: 'shutdown'; readonly gracePeriodSeconds: number }
  | { readonly do: 'destroy' }
  /** The final state is written: the launcher may exit. */
  | { readonly do: 'final' }
  | { readonly do: 'write'; readonly status: MachineStatus }
  | { readonly do: 'tell'; readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string }
  | { readonly do: 'again'; readonly afterMs: number }

/** Kubernetes' own default for pods. */
const defaultGracePeriodSeconds = 30

/** Three missed heartbeats. */
const silenceMs = 30_000
/** Waiting for an answer holds one of the handler's few workers: who is silent for long is asked less and less often. */
const longestSilenceMs = 30_000
/** Whatever a launcher says its deadline is, it is not asked more often. */
const shortestWaitMs = 100

const refusals: readonly LauncherErrorReason[] = [
  'DefineRefused',
  'StartFailed',
  'VolumeUnavailable',
  'OOMKilled',
  'BadRequest',
]

/**
 * What to do for a VM of this node, in this order. The first failing action ends the round; the next round plans anew from what
 * is then observed, so that nothing hangs on the handler's memory.
 */
export function plan(machine: VirtualMachine, observation: Observation, now: Date): Action[] {
  const phase = machine.status?.phase
  if (phase === 'Succeeded' || phase === 'Failed') return observation.kind === 'report' ? [{ do: 'final' }] : []
  switch (observation.kind) {
    case 'absent':
      return phase === 'Scheduled' ? awaitSocket(machine, now) : []
    case 'unreachable':
      return onSilence(machine, 'LauncherUnreachable', observation, now)
    case 'refused':
      return onRefusal(machine, observation, now)
    case 'report':
      return onReport(machine, observation, now)
  }
}

/** The socket comes within a second of the pod's start; a pod that pulls its image is looked at less and less often. */
function awaitSocket(machine: VirtualMachine, now: Date): Action[] {
  const since = machine.status?.phaseTransitionTimestamps?.findLast(({ phase }) => phase === 'Scheduled')?.time
  const waitedMs = since === undefined ? 0 : now.getTime() - Date.parse(since)
  return [{ do: 'again', afterMs: Math.min(Math.max(waitedMs / 20, 50), 2000) }]
}

function onSilence(
  machine: VirtualMachine,
  reason: string,
  { message, silentForMs }: { message: string; silentForMs: number },
  now: Date,
): Action[] {
  const told = silentForMs < silenceMs ? [] : write(machine, silentStatus(machine, reason, message, now))
  return [...told, { do: 'again', afterMs: Math.min(Math.max(silentForMs / 20, 1000), longestSilenceMs) }]
}

function onRefusal(machine: VirtualMachine, refusal: Observation & { kind: 'refused' }, now: Date): Action[] {
  const { reason, message } = refusal
  if (refusals.includes(reason)) {
    const status = failedStatus(machine, reason, message, now)
    return [{ do: 'write', status }, { do: 'tell', type: 'Warning', reason, message }, { do: 'final' }]
  }
  // libvirtd may be starting anew; when it goes on like that, nobody sees the guest.
  if (reason !== 'OtherVirtualMachine') return onSilence(machine, reason, refusal, now)
  return [...write(machine, silentStatus(machine, reason, message, now)), { do: 'again', afterMs: 10_000 }]
}

function onReport(
  machine: VirtualMachine,
  { report: said, podIP }: { report: DomainReport; podIP?: string },
  now: Date,
): Action[] {
  const isDeleting = machine.metadata.deletionTimestamp !== undefined
  const report = isDeleting ? endedAsAsked(said) : said
  const before = machine.status?.phase
  // The controller writes Unknown for a VM that ran, while its node does not answer.
  const hasRun = before === 'Running' || before === 'Unknown'
  if (report.phase === 'Waiting') {
    // A launcher that has forgotten its VM has lost its QEMU too; it must not start a second one on the same disks.
    if (hasRun) return lost(machine, now)
    return isDeleting ? [] : [{ do: 'put' }]
  }
  const status = statusOf(machine, report, podIP, now)
  if (report.exit !== undefined) return [{ do: 'write', status }, ended(report), { do: 'final' }]
  const isFirst = status.phase === 'Running' && !hasRun
  const started: Action[] = isFirst
    ? [{ do: 'tell', type: 'Normal', reason: 'Started', message: 'Started the guest' }]
    : []
  // That it is about to end is told by an event; the status has its end in a moment, and a write for each VM less.
  const isEnding = report.phase === 'ShuttingDown' && before === 'Running'
  return [...(isEnding ? [] : write(machine, status)), ...started, ...shutdown(machine, report, isDeleting, now)]
}

/** Who deletes a VM, and says how long its guest may take, gets what was asked for: to end it then is no failure. A QEMU that crashes on the way is one. */
function endedAsAsked(report: DomainReport): DomainReport {
  if (report.exit !== 'Failed' || report.reason !== 'destroyed') return report
  return { ...report, exit: 'Succeeded', message: 'the guest had not powered off in its grace period, and was ended' }
}

function shutdown(machine: VirtualMachine, report: DomainReport, isDeleting: boolean, now: Date): Action[] {
  if (!isAlive(report)) return []
  if (report.deadline !== undefined) {
    const leftMs = Math.min(Date.parse(report.deadline), askedDeadlineMs(machine)) - now.getTime()
    if (leftMs > 0) return [{ do: 'again', afterMs: Math.max(leftMs, shortestWaitMs) }]
    const message = 'The guest did not power off in its grace period; its QEMU is ended'
    return [{ do: 'destroy' }, { do: 'tell', type: 'Warning', reason: 'GracePeriodExceeded', message }]
  }
  if (!isDeleting) return []
  const gracePeriodSeconds = graceOf(machine)
  const message = `Asked the guest to power off within ${gracePeriodSeconds} s`
  return [
    { do: 'shutdown', gracePeriodSeconds },
    { do: 'tell', type: 'Normal', reason: 'ShuttingDown', message },
  ]
}

/** What was asked for when it was stopped; its spec's otherwise. */
const graceOf = (machine: VirtualMachine): number =>
  askedGraceSeconds(machine) ?? machine.spec.terminationGracePeriodSeconds ?? defaultGracePeriodSeconds

/** kubelet may have been quicker to ask the launcher, which knows only the spec's grace period. */
function askedDeadlineMs(machine: VirtualMachine): number {
  const { deletionTimestamp } = machine.metadata
  const seconds = askedGraceSeconds(machine)
  return deletionTimestamp === undefined || seconds === undefined
    ? Infinity
    : Date.parse(deletionTimestamp) + seconds * 1000
}

function lost(machine: VirtualMachine, now: Date): Action[] {
  const message = 'The launcher no longer knows the domain'
  const status = failedStatus(machine, 'DomainLost', message, now)
  return [{ do: 'write', status }, { do: 'tell', type: 'Warning', reason: 'DomainLost', message }, { do: 'final' }]
}

function ended({ exit, reason, message }: DomainReport): Action {
  const words = message ?? `The guest ended: ${reason}`
  return exit === 'Succeeded'
    ? { do: 'tell', type: 'Normal', reason: 'Stopped', message: words }
    : { do: 'tell', type: 'Warning', reason: reason === 'OOMKilled' ? reason : 'GuestFailed', message: words }
}

function write(machine: VirtualMachine, status: MachineStatus): Action[] {
  return isChanged(machine, status) ? [{ do: 'write', status }] : []
}
