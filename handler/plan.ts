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
  /** It answered with what the contract does not allow. */
  | { readonly kind: 'misbehaving'; readonly message: string; readonly silentForMs: number }
  | {
      readonly kind: 'report'
      readonly report: DomainReport
      readonly podIP?: string
      /** What is wrong with its events, though its answers are as they should be. */
      readonly misbehaviour?: string
      /** How long it has been starting the guest. */
      readonly startingForMs?: number
    }

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
/** A launcher that is silent, or misbehaves, is asked less and less often, down to this. */
const longestWaitMs = 30_000
/** A start that takes longer is reported. Most take half a second, and a write for each VM less. */
const slowStartMs = 5000
/** An order that libvirt did not carry out is given again so often. */
const destroyAgainMs = 5000
/** Whatever a launcher says its deadline is, it is not asked more often. */
const shortestWaitMs = 100

const refusals: readonly LauncherErrorReason[] = [
  'DefineRefused',
  'StartFailed',
  'VolumeUnavailable',
  'OOMKilled',
  'BadRequest',
]

/** By the reason of a report with `exit`: the start was refused after the VM had been accepted. */
const failedStarts = new Map<string, LauncherErrorReason>([
  ['defineRefused', 'DefineRefused'],
  ['startFailed', 'StartFailed'],
  ['volumeUnavailable', 'VolumeUnavailable'],
])

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
    case 'misbehaving':
      return onMisbehaviour(machine, observation, now)
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
  return [...told, { do: 'again', afterMs: Math.min(Math.max(silentForMs / 4, 1000), longestWaitMs) }]
}

function onMisbehaviour(
  machine: VirtualMachine,
  { message: cause, silentForMs }: { message: string; silentForMs: number },
  now: Date,
): Action[] {
  const message = misbehaviourMessage(cause)
  return [
    ...write(machine, silentStatus(machine, 'LauncherMisbehaving', message, now)),
    ...tellMisbehaviour(machine, message),
    { do: 'again', afterMs: Math.min(Math.max(silentForMs, 1000), longestWaitMs) },
  ]
}

/** Once: the condition says so from then on. */
function tellMisbehaviour(machine: VirtualMachine, message: string): Action[] {
  const isKnown = machine.status?.conditions?.some(({ reason }) => reason === 'LauncherMisbehaving') ?? false
  return isKnown ? [] : [{ do: 'tell', type: 'Warning', reason: 'LauncherMisbehaving', message }]
}

const misbehaviourMessage = (cause: string): string =>
  `The process in the VM's pod that speaks for the guest does not keep to its protocol (${cause}), so it is asked less often. ` +
  'Something in the pod may have been tampered with; deleting the VM ends it'

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
  { report: said, podIP, misbehaviour, startingForMs = 0 }: Observation & { kind: 'report' },
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
  const failure = failedStarts.get(report.reason)
  if (report.exit === 'Failed' && failure !== undefined && !hasRun) {
    const message = report.message ?? ''
    return onRefusal(machine, { kind: 'refused', reason: failure, message, silentForMs: 0 }, now)
  }
  const trouble = misbehaviour === undefined ? undefined : misbehaviourMessage(misbehaviour)
  const status = statusOf(machine, report, podIP, now, trouble)
  if (report.phase === 'Defined' && report.exit === undefined && !hasRun) return onStart(machine, status, startingForMs)
  if (report.exit !== undefined) return [{ do: 'write', status }, ended(report), { do: 'final' }]
  const isFirst = status.phase === 'Running' && !hasRun
  const started: Action[] = isFirst
    ? [{ do: 'tell', type: 'Normal', reason: 'Started', message: 'Started the guest' }]
    : []
  // That it is about to end is told by an event; the status has its end in a moment, and a write for each VM less.
  const isEnding = report.phase === 'ShuttingDown' && before === 'Running'
  return [
    ...(isEnding ? [] : write(machine, status)),
    ...(trouble === undefined ? [] : tellMisbehaviour(machine, trouble)),
    ...started,
    ...shutdown(machine, report, isDeleting, now),
  ]
}

/** The launcher announces the end of the start; looking again is for one that does not. */
function onStart(machine: VirtualMachine, status: MachineStatus, startingForMs: number): Action[] {
  return [...(startingForMs < slowStartMs ? [] : write(machine, status)), { do: 'again', afterMs: slowStartMs }]
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
    return [
      { do: 'destroy' },
      { do: 'tell', type: 'Warning', reason: 'GracePeriodExceeded', message },
      { do: 'again', afterMs: destroyAgainMs },
    ]
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
