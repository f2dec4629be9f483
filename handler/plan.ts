import { isFinished, type VirtualMachine, type VirtualMachineStatus } from '../api/virtual-machine.ts'
import { requestedGraceSeconds } from '../api/template.ts'
import {
  downloadFailed,
  fillingDisk,
  noSpace,
  launcherVersion,
  type DomainReport,
  type LauncherErrorReason,
  type VolumeRequest,
} from '../runtime/launcher-api.ts'
import { findCondition } from '../runtime/condition.ts'
import { disruptionTarget } from '../runtime/disruption.ts'
import { isEndAwaited, isEndConfirmed } from '../runtime/pod-end.ts'
import { hasEndingProbe } from '../runtime/probe.ts'
import {
  failedStatus,
  generationOf,
  isAlive,
  isChanged,
  silentStatus,
  statusOf,
  withoutNetworkStatus,
} from './status.ts'
import {
  attachmentEvents,
  attachmentPollMs,
  noSockets,
  volumesToRequest,
  type AttachmentSockets,
} from './attachment.ts'
import type { TapIPs } from './vm-network.ts'

/**
 * What the handler knows about a VM's launcher. Durations are measured with the handler's monotonic clock: timestamps
 * of other machines are never compared with the clock of this one.
 */
export type Observation =
  /** The pod has no launcher socket. That does not mean that the pod is gone: only the controller sees pods. */
  | { readonly kind: 'absent'; readonly absentForMs: number }
  | { readonly kind: 'unreachable'; readonly message: string; readonly silentForMs: number }
  | {
      readonly kind: 'refused'
      readonly reason: LauncherErrorReason
      readonly message: string
      readonly silentForMs: number
      /** The version in the launcher's last report; 0 if it had none. */
      readonly launcherVersion: number
    }
  /** The response violates the contract. */
  | { readonly kind: 'misbehaving'; readonly message: string; readonly silentForMs: number }
  /** The launcher waits for its VM, but the taps of the VM could not be created. */
  | {
      readonly kind: 'withoutNetwork'
      readonly reason: string
      readonly message: string
      readonly failingForMs: number
    }
  | {
      readonly kind: 'report'
      readonly report: DomainReport
      readonly podIPs?: readonly string[]
      /** Known to the handler that had the taps created. */
      readonly tapIPs?: TapIPs | undefined
      /** How the launcher's event stream violates the contract, although its responses do not. */
      readonly misbehavior?: string
      /** Of the pods that serve claims to the launcher. */
      readonly sockets?: AttachmentSockets
      /** How long the launcher has been starting the guest. */
      readonly startingForMs?: number
    }

export type Action =
  /** Hand the VM to the launcher; its response is the next observation. */
  | { readonly do: 'startGuest' }
  /** Hand a later generation of the VM to the launcher, which reports the outcome. */
  | { readonly do: 'changeMedia' }
  /** The launcher reports the outcome. */
  | { readonly do: 'attachVolumes'; readonly volumes: readonly VolumeRequest[] }
  | { readonly do: 'shutDownGuest'; readonly gracePeriodSeconds: number }
  /** For a snapshot. The launcher reports the outcome. */
  | { readonly do: 'freezeGuest' | 'thawGuest'; readonly id: string }
  /** The final status is stored: the launcher can exit. */
  | { readonly do: 'releaseLauncher' }
  | { readonly do: 'updateStatus'; readonly status: VirtualMachineStatus }
  /** Directly after an update: it is about what that stores, and recorded only with it. */
  | {
      readonly do: 'recordEvent'
      readonly type: 'Normal' | 'Warning'
      readonly reason: string
      readonly message: string
    }
  | { readonly do: 'requeueAfter'; readonly afterMs: number }

/** Kubernetes' own default for pods. */
const defaultGracePeriodSeconds = 30

/** Three missed heartbeats. */
const silenceMs = 30_000
/** The interval between polls of a launcher that is silent or misbehaves. */
const pollMs = { shortest: 1000, longest: 30_000 }
/** The interval between polls for the socket of a pod that is starting. */
const socketPollMs = { shortest: 50, longest: 2000 }
/** Most starts take half a second; only a slower one is worth a status update of its own. */
const slowStartMs = 5000

/** Not BadRequest: the spec passed admission, so another version of either side can accept the request. */
const finalRefusals: readonly LauncherErrorReason[] = ['DefineRefused', 'StartFailed', 'VolumeUnavailable', 'OOMKilled']

/** By the reason of a report with `exit`: the VM was accepted, but could not be started. */
const failedStarts = new Map<string, LauncherErrorReason>([
  ['defineRefused', 'DefineRefused'],
  ['startFailed', 'StartFailed'],
  ['volumeUnavailable', 'VolumeUnavailable'],
])

/**
 * The actions for a VM of this node, in order. A failing action ends the round; the next round plans from what is
 * observed then, so nothing depends on the handler's memory.
 * @param now RFC 3339, for the timestamps of the status only
 */
export function plan(vm: VirtualMachine, observation: Observation, now: string): Action[] {
  if (isFinished(vm)) {
    return observation.kind === 'report' ? [{ do: 'releaseLauncher' }] : []
  }
  switch (observation.kind) {
    case 'absent':
      return vm.status?.phase === 'Scheduled' ? awaitSocket(observation) : onLostSocket(vm, observation, now)
    case 'unreachable':
      return onSilence(vm, 'LauncherUnreachable', observation, now)
    case 'misbehaving':
      return onMisbehavior(vm, observation, now)
    case 'refused':
      return onRefusal(vm, observation, now)
    case 'withoutNetwork':
      return withoutNetwork(vm, observation, now)
    case 'report':
      return onReport(vm, observation, now)
  }
}

/** The socket appears within a second of the container's start; a pod that pulls its image is polled less often. */
function awaitSocket({ absentForMs }: { absentForMs: number }): Action[] {
  const { shortest, longest } = socketPollMs
  return [{ do: 'requeueAfter', afterMs: Math.min(Math.max(absentForMs / 20, shortest), longest) }]
}

/**
 * Usually the pod has ended and the controller is about to record that. Where it does not, the status must not claim
 * Ready.
 */
function onLostSocket(vm: VirtualMachine, { absentForMs }: { absentForMs: number }, now: string): Action[] {
  const message = "the VM's launcher has no socket on this node any more; whether the guest runs is unknown"
  return onSilence(vm, 'LauncherAbsent', { message, silentForMs: absentForMs }, now)
}

function onSilence(
  vm: VirtualMachine,
  reason: string,
  { message, silentForMs }: { message: string; silentForMs: number },
  now: string,
): Action[] {
  const update = silentForMs < silenceMs ? [] : updateStatus(vm, silentStatus(vm, reason, message, now))
  return [...update, pollAgain(silentForMs / 4)]
}

/** Not an end: the plugin can be installed or repaired, and the guest has not been started. */
function withoutNetwork(
  vm: VirtualMachine,
  { reason, message, failingForMs }: { reason: string; message: string; failingForMs: number },
  now: string,
): Action[] {
  return [
    ...updateStatus(vm, withoutNetworkStatus(vm, reason, message, now)),
    ...recordOnce(vm, reason, message),
    { do: 'requeueAfter', afterMs: tapsPauseMs(failingForMs) },
  ]
}

/** How long to wait until taps are requested again that could not be created for this long. */
export const tapsPauseMs = (failingForMs: number): number => bounded(failingForMs / 4)

const pollAgain = (afterMs: number): Action => ({ do: 'requeueAfter', afterMs: bounded(afterMs) })

const bounded = (afterMs: number): number => Math.min(Math.max(afterMs, pollMs.shortest), pollMs.longest)

function onMisbehavior(
  vm: VirtualMachine,
  { message: cause, silentForMs }: { message: string; silentForMs: number },
  now: string,
): Action[] {
  const message = misbehaviorMessage(cause)
  return [
    ...updateStatus(vm, silentStatus(vm, 'LauncherMisbehaving', message, now)),
    ...recordOnce(vm, 'LauncherMisbehaving', message),
    pollAgain(silentForMs),
  ]
}

/** Once: from then on the condition has it. */
function recordOnce(vm: VirtualMachine, reason: string, message: string): Action[] {
  const isRecorded = vm.status?.conditions?.some((condition) => condition.reason === reason) ?? false
  return isRecorded ? [] : [{ do: 'recordEvent', type: 'Warning', reason, message }]
}

const misbehaviorMessage = (cause: string): string =>
  `The VM's launcher violates its protocol (${cause}) and is polled less often. ` +
  'Its pod may have been tampered with; delete the VM to end it'

function onRefusal(vm: VirtualMachine, refusal: Observation & { kind: 'refused' }, now: string): Action[] {
  const { reason, message } = refusal
  if (finalRefusals.includes(reason)) return failWith(vm, reason, message, now)
  if (reason === 'BadRequest') return onIncompatibility(vm, refusal, now)
  // libvirtd may be restarting; while that lasts, the guest cannot be observed.
  if (reason !== 'OtherVirtualMachine') return onSilence(vm, reason, refusal, now)
  return [...updateStatus(vm, silentStatus(vm, reason, message, now)), { do: 'requeueAfter', afterMs: 10_000 }]
}

/** Not an end: a guest that runs is not affected, and a handler of another version may be next. */
function onIncompatibility(
  vm: VirtualMachine,
  { message: cause, silentForMs, launcherVersion: theirs }: Observation & { kind: 'refused' },
  now: string,
): Action[] {
  const reason = 'LauncherIncompatible'
  const message =
    `The launcher (protocol version ${theirs}) rejected a request of the handler (protocol version ${launcherVersion}): ` +
    `${cause}. Complete the upgrade of virtset, then delete the VM and create it again`
  return [
    ...updateStatus(vm, silentStatus(vm, reason, message, now)),
    ...recordOnce(vm, reason, message),
    pollAgain(silentForMs),
  ]
}

/**
 * A guest does not start whose pod does not exist any more. A kubelet that is late can still run a launcher whose end
 * was confirmed, and the VM of which is replaced.
 */
export const mayStart = (vm: VirtualMachine): boolean =>
  vm.metadata.deletionTimestamp === undefined && !isFinished(vm) && !isEndAwaited(vm) && !isEndConfirmed(vm)

function onReport(
  vm: VirtualMachine,
  {
    report: reported,
    podIPs = [],
    tapIPs,
    misbehavior,
    sockets = noSockets,
    startingForMs = 0,
  }: Observation & { kind: 'report' },
  now: string,
): Action[] {
  const isDeleting = vm.metadata.deletionTimestamp !== undefined
  const report = isDeleting ? endedAsRequested(reported) : reported
  const before = vm.status?.phase
  // The controller sets Unknown on a running VM while its node does not respond.
  const hasRun = before === 'Running' || before === 'Unknown'
  if (report.phase === 'Waiting') {
    // A launcher that has lost its VM has lost its QEMU too; it must not start a second one on the same disks.
    if (hasRun) return failWith(vm, 'DomainLost', 'The launcher no longer has the domain', now)
    return mayStart(vm) ? [{ do: 'startGuest' }] : []
  }
  const failure = failedStarts.get(report.reason)
  if (report.exit !== undefined && mayHaveFailedProbe(vm, report)) return [{ do: 'releaseLauncher' }]
  if (report.exit === 'Failed' && failure !== undefined && !hasRun) {
    return failWith(vm, failure, report.message ?? '', now)
  }
  const violation = misbehavior === undefined ? undefined : misbehaviorMessage(misbehavior)
  const status = statusOf(vm, report, podIPs, now, { tapIPs, misbehavior: violation, sockets })
  if (report.phase === 'Defined' && report.exit === undefined && !hasRun) {
    return onStart(vm, status, recordFilling(vm, report), startingForMs)
  }
  if (report.exit !== undefined) {
    return [{ do: 'updateStatus', status }, ...recordEnd(reported, report), { do: 'releaseLauncher' }]
  }
  const started: Action[] =
    status.phase === 'Running' && !hasRun
      ? [{ do: 'recordEvent', type: 'Normal', reason: 'Started', message: 'Started the guest' }]
      : []
  // An event records the shutdown of a deleted VM; the status follows with the end, which saves an update per VM. Nothing
  // else shows that a kubelet ends a pod.
  const isEnding = isDeleting && report.phase === 'ShuttingDown' && before === 'Running'
  const updated = isEnding ? [] : updateStatus(vm, status)
  return [
    ...updated,
    ...(updated.length === 0 ? [] : recordAttachments(vm, status)),
    ...(violation === undefined ? [] : recordOnce(vm, 'LauncherMisbehaving', violation)),
    ...started,
    ...(isDeleting
      ? shutDown(vm, report)
      : [...changeMedia(vm, report), ...attachVolumes(vm, report, sockets), ...freezeOrThaw(vm, report)]),
  ]
}

/** A launcher that reports no generation is of a version that does not change media. */
const changeMedia = (vm: VirtualMachine, { phase, generation }: DomainReport): Action[] =>
  phase === 'Running' && generation !== undefined && generation < generationOf(vm) ? [{ do: 'changeMedia' }] : []

function attachVolumes(vm: VirtualMachine, report: DomainReport, sockets: AttachmentSockets): Action[] {
  const volumes = volumesToRequest(vm, report, sockets)
  const afterMs = attachmentPollMs(vm, sockets)
  return [
    ...(volumes === undefined ? [] : [{ do: 'attachVolumes', volumes } as const]),
    ...(afterMs === undefined ? [] : [{ do: 'requeueAfter', afterMs } as const]),
  ]
}

const recordAttachments = ({ status: before = {} }: VirtualMachine, { attachedVolumes = [] }: VirtualMachineStatus) =>
  attachmentEvents(before.attachedVolumes ?? [], attachedVolumes).map((event): Action => ({
    do: 'recordEvent',
    ...event,
  }))

/** The first version of a launcher that freezes its guest. The controller does not wait long for an older one. */
const withFreeze = 3

function freezeOrThaw({ status }: VirtualMachine, { version = 0, phase, frozen }: DomainReport): Action[] {
  const request = status?.freeze
  if (request === undefined || version < withFreeze) return []
  const { id, thaw = false } = request
  const state = frozen?.id === id ? frozen.state : undefined
  if (!thaw) return state === undefined && phase === 'Running' ? [{ do: 'freezeGuest', id }] : []
  return state === 'Freezing' || state === 'Frozen' ? [{ do: 'thawGuest', id }] : []
}

/**
 * Whether only the controller, which watches pods, can tell whether a probe failed or the pod was evicted.
 * It records the end when the launcher has exited.
 */
function mayHaveFailedProbe(vm: VirtualMachine, { isTerminated = false }: DomainReport): boolean {
  if (!isTerminated || !hasEndingProbe(vm.spec) || vm.metadata.deletionTimestamp !== undefined) return false
  return findCondition(vm.status?.conditions, disruptionTarget)?.status !== 'True'
}

function recordFilling(vm: VirtualMachine, { reason, message = '' }: DomainReport): Action[] {
  if (reason === downloadFailed) return recordOnce(vm, 'DownloadFailed', message)
  if (reason === noSpace) return recordOnce(vm, 'NoSpace', message)
  if (reason !== fillingDisk || vm.status?.conditions?.some((one) => one.reason === 'FillingDisk')) return []
  return [{ do: 'recordEvent', type: 'Normal', reason: 'FillingDisk', message: message.replace(/: \d+ %$/, '') }]
}

/** Of the condition Ready; written at once, and not only for a slow start. */
const fillingReasons = new Set(['FillingDisk', 'DownloadFailed', 'NoSpace'])

/** The launcher reports the end of the start with an event; the requeue is for a launcher that does not. */
function onStart(
  vm: VirtualMachine,
  status: VirtualMachineStatus,
  events: readonly Action[],
  startingForMs: number,
): Action[] {
  const isFilling = status.conditions?.some(({ reason }) => fillingReasons.has(reason ?? '')) ?? false
  return [
    ...(startingForMs < slowStartMs && !isFilling ? [] : updateStatus(vm, status)),
    ...events,
    { do: 'requeueAfter', afterMs: slowStartMs },
  ]
}

/**
 * Deleting a VM gives its guest a grace period. Ending the guest after it is what was requested, and no failure; a QEMU
 * that crashes meanwhile is one.
 */
function endedAsRequested(report: DomainReport): DomainReport {
  if (report.exit !== 'Failed' || report.reason !== 'destroyed') return report
  return { ...report, exit: 'Succeeded', message: graceExceeded }
}

const graceExceeded = 'the guest did not power off within its grace period, and was ended'

/**
 * The launcher alone counts the grace period and ends the guest. The kubelet may have requested it first, with the
 * grace period of the spec; a shorter one of the deletion shortens that.
 */
function shutDown(vm: VirtualMachine, report: DomainReport): Action[] {
  if (!isAlive(report)) return []
  const gracePeriodSeconds = graceOf(vm)
  const isRequested = report.deadline !== undefined && (report.gracePeriodSeconds ?? 0) <= gracePeriodSeconds
  if (isRequested) return []
  const message = `Requested power-off of the guest, with a grace period of ${gracePeriodSeconds} s`
  return [
    { do: 'shutDownGuest', gracePeriodSeconds },
    { do: 'recordEvent', type: 'Normal', reason: 'ShuttingDown', message },
  ]
}

/** The grace period of the stop request, or else of the spec. */
const graceOf = (vm: VirtualMachine): number =>
  requestedGraceSeconds(vm) ?? vm.spec.terminationGracePeriodSeconds ?? defaultGracePeriodSeconds

function failWith(vm: VirtualMachine, reason: string, message: string, now: string): Action[] {
  return [
    { do: 'updateStatus', status: failedStatus(vm, reason, message, now) },
    { do: 'recordEvent', type: 'Warning', reason, message },
    { do: 'releaseLauncher' },
  ]
}

function recordEnd(reported: DomainReport, { exit, reason, message }: DomainReport): Action[] {
  const text = message ?? `The guest ended: ${reason}`
  if (exit === 'Failed') {
    const failure = reason === 'OOMKilled' ? reason : 'GuestFailed'
    return [{ do: 'recordEvent', type: 'Warning', reason: failure, message: text }]
  }
  const stopped: Action = { do: 'recordEvent', type: 'Normal', reason: 'Stopped', message: text }
  if (reported.exit === exit) return [stopped]
  return [{ do: 'recordEvent', type: 'Warning', reason: 'GracePeriodExceeded', message: text }, stopped]
}

function updateStatus(vm: VirtualMachine, status: VirtualMachineStatus): Action[] {
  return isChanged(vm, status) ? [{ do: 'updateStatus', status }] : []
}
