import { outOfMemoryAdvice } from '../api/launcher-memory.ts'
import { kvmResource, vsockResource } from '../api/launcher-resources.ts'
import { quantityValue } from '../api/quantity.ts'
import { controllerOf } from '../api/template.ts'
import { isFinished } from '../api/virtual-machine.ts'
import { differenceFrom } from './adopt.ts'
import { isEnding } from './claim.ts'
import { disruptionByPod, disruptionOf, disruptionOfLive, disruptionOfVm, podDeleted } from './disruption.ts'
import type { Disruption } from './disruption.ts'
import { hasFinalizer } from './finalizer.ts'
import { pullingImage } from './image-pull.ts'
import { explainPull, explainUnsupported } from './image-volume.ts'
import { lastLine } from './termination-message.ts'
import {
  claimsOf,
  launcherPod,
  longerPodGraceSeconds,
  podGraceSeconds,
  podName,
  sourceClaimsOf,
  vmUidLabel,
} from './launcher-pod.ts'
import { explainLost } from './lost-snapshot.ts'
import { isTerminal } from './own-pod.ts'
import { isRelabelled } from './pod-labels.ts'
import type { ContainerStatus, Pod } from './pod.ts'
import { podTerminated } from '../runtime/disruption.ts'
import { failedProbeOf, hasEndingProbe, hasReadiness, terminatedExitCode } from '../runtime/probe.ts'
import { isRejected, rejectedDelayMs } from './rejected-pod.ts'
import { writeStatus } from './vm-action.ts'
import type { Action } from './vm-action.ts'
import { isHandedOver, creationOverdueMs, podRejected } from './vm-observed.ts'
import type { Completion, LauncherPod, Observed, Vm } from './vm-observed.ts'
import {
  completionRefused,
  disruptedStatus,
  endedStatus,
  explainedStatus,
  isChanged,
  pendingStatus,
  podGraceStatus,
  probedStatus,
  refusedStatus,
  rejectedStatus,
  scheduledStatus,
  schedulingStatus,
  troubledStatus,
} from './vm-status.ts'
import type { Ending } from './vm-status.ts'
import { terminate } from './vm-terminate.ts'
import { confirmEnd, reportUnreachable } from './vm-unobserved.ts'

/**
 * The launcher waits for its handler and exits when that has read the end; this leaves time for the handler's write.
 */
const handlerGraceMs = 5000
/** A launcher whose guest ended exits within seconds; the controller deletes a pod that remains longer. */
const finishedGraceMs = 60_000
/**
 * How often to poll what sends no events: claims, quota, a foreign pod. The interval grows to a tenth of the time that
 * the VM has waited, up to a minute.
 */
const pollMs = 5000
/** Each look reads all claims of the VM. A VM with more claims is looked at less often, down to once a minute. */
const claimsPerPoll = 8
const pollFraction = 10
const longestPollMs = 60_000

const mebibyte = 1024n * 1024n

/** Reasons for which a container waits that do not pass within a moment. */
const troubles = [
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'RegistryUnavailable',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
]

/**
 * What to do for a VM, in this order. Each decision depends only on what is observed, so it does not matter which
 * process acted before, or died in between.
 *
 * At most one QEMU ever runs: the handler hands a VM only to the pod that `status.podUID` names. Until the status names
 * a pod, a lost pod has run nothing; once it does, no pod is created any more. The only exception is a pod that the
 * kubelet has rejected, which has run nothing either: the status stops naming it, and it is deleted before another one
 * is created.
 */
export function plan(observed: Observed): Action[] {
  const { vm, now } = observed
  const graceSeconds = longerGraceOf(observed)
  if (graceSeconds === undefined) return planFor(observed)
  const status = podGraceStatus(vm, graceSeconds, now)
  const actions = planFor({ ...observed, vm: { ...vm, status } })
  // Another status of this round has it too; two would conflict.
  const isWritten = actions.some((action) => action.do === 'updateStatus')
  return isWritten ? actions : [{ do: 'updateStatus', status }, ...actions]
}

/** Stored before the pod is deleted with it, and for a deletion by others when that is observed. */
function longerGraceOf({ vm, pods }: Observed): number | undefined {
  const own = pods.find(({ metadata }) => metadata.uid === vm.status?.podUID)
  if (own === undefined) return undefined
  return longerPodGraceSeconds(vm, own.metadata.deletionGracePeriodSeconds ?? podGraceSeconds(vm))
}

function planFor(observed: Observed): Action[] {
  const { vm, completion, foreignPod } = observed
  if (vm.metadata.deletionTimestamp !== undefined) return terminate(observed)
  if (isFinished(vm)) return cleanUp(observed)
  const own = ownPod(observed)
  const isAdopted = vm.status?.podUID !== undefined
  if (isAdopted && own === undefined) return [...lose(observed), ...deleteOthers(observed, own)]
  if (!isAdopted && completion.kind !== 'done') return complete(vm, completion, observed.now)
  if (!hasFinalizer(vm)) return [{ do: 'addFinalizer' }]
  if (own !== undefined) {
    const refused = isAdopted ? undefined : (refuseForeign(observed, own) ?? awaitReplacement(observed, own))
    return [
      ...(refused ?? follow(observed, own)),
      ...markFilled(observed),
      ...deleteOthers(observed, own),
      ...relabel(observed, own),
    ]
  }
  if (foreignPod !== undefined) {
    const message = `the pod ${foreignPod.metadata.name} does not belong to this VM`
    return wait(observed, 'PodNameTaken', message)
  }
  return start(observed)
}

/**
 * The pod that runs the VM, or will: the one that the status names or, until it names one, the one with the right name.
 */
function ownPod({ vm, pods }: Observed): LauncherPod | undefined {
  const { podUID } = vm.status ?? {}
  return pods.find(({ metadata }) => (podUID === undefined ? metadata.name === podName(vm) : metadata.uid === podUID))
}

/**
 * A pod that carries the marks of a VM and is not its own is a copy, as a restore makes it. No handler hands it a VM.
 */
function deleteOthers({ pods }: Observed, own: LauncherPod | undefined): Action[] {
  return pods
    .filter((pod) => pod !== own && pod.metadata.deletionTimestamp === undefined)
    .map((pod) => ({ do: 'deletePod', pod }))
}

/**
 * From the first status that names a pod, the VM is that pod's: a pod that the controller did not create must never get
 * that far. Only the controller can give a pod the label; a user's pod can have all else, and containers beside it. One
 * that has the label was created by another version of the controller, which had no time to name it, or was changed in
 * admission. It has not been handed the VM, so another takes its place.
 */
function refuseForeign(observed: Observed, pod: LauncherPod): Action[] | undefined {
  const { vm, image, claims } = observed
  const isLabelled = pod.metadata.labels?.[vmUidLabel] === vm.metadata.uid
  const difference = isLabelled
    ? differenceFrom(launcherPod(vm, { image, claims }), pod)
    : `metadata.labels[${vmUidLabel}]`
  if (difference === undefined) return undefined
  const reason = podNotOwn
  const remedy = isLabelled ? 'it is replaced' : 'delete it, and the controller creates its own'
  const message = `the pod ${pod.metadata.name} differs from the launcher pod that the controller would create: ${difference}; ${remedy}`
  const actions = wait(observed, reason, message)
  const isNew = actions.some((action) => action.do === 'updateStatus')
  const isReplaced = isLabelled && pod.metadata.deletionTimestamp === undefined
  return [
    ...actions,
    ...(isNew ? [{ do: 'recordEvent', type: 'Warning', reason, message } as const] : []),
    // Admission can change all of them.
    ...(isReplaced ? [{ do: 'replacePod', pod, createAfterMs: 2 * pollAfterMs(observed, reason) } as const] : []),
  ]
}

/**
 * Another version of the controller is replacing the pod, and this one, after a rollback, would have kept it. It has not
 * been handed the VM, so its end is not that of the VM.
 */
function awaitReplacement(observed: Observed, { metadata }: LauncherPod): Action[] | undefined {
  if (metadata.deletionTimestamp === undefined || observed.vm.status?.reason !== podNotOwn) return undefined
  return wait(observed, podNotOwn, `the pod ${metadata.name} is being replaced: another is created when it has ended`)
}

const podNotOwn = 'PodNotOwn'

/** The guest has been started with its disks, so they are whole. */
function markFilled({ vm, isFillRecorded }: Observed): Action[] {
  if (vm.status?.phase !== 'Running' || isFillRecorded) return []
  const filled = (vm.spec.volumes ?? []).filter(({ persistentVolumeClaim: claim }) => claim?.source !== undefined)
  return filled.length === 0 ? [] : [{ do: 'markFilled' }]
}

/**
 * Services, NetworkPolicies and budgets select a running VM by the labels that it has now. A pod that the status does
 * not name yet may be another client's. This is the last action: if it fails, the others are done.
 */
function relabel({ vm }: Observed, pod: LauncherPod): Action[] {
  const isAdopted = vm.status?.podUID === pod.metadata.uid
  if (!isAdopted || isTerminal(pod) || pod.metadata.deletionTimestamp !== undefined) return []
  return isRelabelled(vm.metadata, pod.metadata) ? [{ do: 'relabelPod', pod }] : []
}

type Waiting = Pick<Observed, 'vm' | 'elapsed' | 'now'>

/** What to do when the API server refused the pod: a quota, a policy, a terminating namespace. */
export function refusedToCreate(observed: Waiting, refusal: string): Action[] {
  const message = explainUnsupported(refusal, observed.vm.spec)
  return [
    { do: 'recordEvent', type: 'Warning', reason: 'FailedCreate', message },
    ...wait(observed, 'FailedCreate', message),
  ]
}

/** What to do when the pod cannot get the labels of the VM: a policy refuses them, or it has too many of others. */
export function refusedToRelabel(pod: LauncherPod, refusal: string): Action[] {
  const message = `the pod ${pod.metadata.name} does not get the labels that the VM has now: ${refusal}`
  return [
    { do: 'recordEvent', type: 'Warning', reason: 'FailedRelabel', message },
    { do: 'requeueAfter', afterMs: longestPollMs },
  ]
}

/** The guest has ended. The pod remains for its logs, but its containers must end. */
function cleanUp(observed: Observed): Action[] {
  const { pods, elapsed } = observed
  const explanation = explainEnd(observed)
  const live = pods.filter((pod) => !isTerminal(pod) && pod.metadata.deletionTimestamp === undefined)
  if (live.length === 0) return explanation
  const leftMs = finishedGraceMs - (elapsed.get('finished') ?? 0)
  if (leftMs > 0) return [...explanation, { do: 'requeueAfter', afterMs: leftMs }]
  return [...explanation, ...live.map((pod): Action => ({ do: 'deletePod', pod }))]
}

/** The handler sees how a guest ended, not why: an evicted guest looks like one that was powered off. */
function explainEnd({ vm, pods, now }: Observed): Action[] {
  const own = pods.find(({ metadata }) => metadata.uid === vm.status?.podUID)
  const known = disruptionByPod(vm)
  const disruption = known ?? (own && disruptionOf(own)) ?? deletionOf(vm, own)
  if (disruption === undefined || disruption.reason === vm.status?.reason) return []
  const updated: Action = { do: 'updateStatus', status: explainedStatus(vm, disruption, now) }
  return known === undefined ? [updated, disrupted(disruption)] : [updated]
}

/**
 * The handler can report the end before the controller sees that the pod is deleted. A deletion by the controller is not
 * the reason: it follows the end, and does not terminate a launcher.
 */
function deletionOf(vm: Vm, own: LauncherPod | undefined): Disruption | undefined {
  if (disruptionOfVm(vm)?.reason !== podTerminated) return undefined
  return own === undefined || own.metadata.deletionTimestamp !== undefined ? podDeleted(podName(vm)) : undefined
}

const disrupted = ({ reason, message }: Disruption): Action => ({
  do: 'recordEvent',
  type: 'Warning',
  reason,
  message,
})

function lose(observed: Observed): Action[] {
  const { vm, node } = observed
  const waiting = confirmEnd(observed)
  if (waiting !== undefined) return waiting
  const { nodeName, podUID } = vm.status ?? {}
  const of = podUID === undefined ? {} : { podUID }
  const known = disruptionOfVm(vm)
  if (known !== undefined) return fail(observed, { phase: 'Failed', ...known, ...of, isDisrupted: true })
  const isNodeLost = nodeName !== undefined && node === 'gone'
  const reason = isNodeLost ? 'NodeLost' : 'PodLost'
  const message = isNodeLost
    ? `the node ${nodeName} no longer exists, nor does the launcher pod ${podName(vm)} on it`
    : `the launcher pod ${podName(vm)} no longer exists; a VM never gets a second one`
  return fail(observed, { phase: 'Failed', reason, message, ...of, isDisrupted: true })
}

function complete(vm: Vm, completion: Exclude<Completion, { kind: 'done' }>, now: string): Action[] {
  if (completion.kind === 'todo') {
    const message = 'The spec was not completed at admission; the controller completed it'
    return [
      { do: 'completeSpec', vm: completion.vm },
      { do: 'recordEvent', type: 'Normal', reason: 'Completed', message },
    ]
  }
  const status = refusedStatus(vm, completion.causes, now)
  if (!isChanged(vm, status)) return []
  const { message = '' } = status
  return [
    { do: 'updateStatus', status },
    { do: 'recordEvent', type: 'Warning', reason: completionRefused, message },
  ]
}

function start(observed: Observed): Action[] {
  const { vm, claims, image, predecessors } = observed
  const [predecessor] = predecessors
  if (predecessor !== undefined) {
    const message = `the launcher pod ${predecessor.metadata.name} of an earlier VM of this name still exists; this VM starts when it has ended`
    return wait(observed, 'PredecessorPodExists', message)
  }
  const missing = [...claimsOf(vm), ...sourceClaimsOf(vm, claims)].filter((name) => !claims.has(name))
  if (missing.length > 0) {
    const message = `persistentvolumeclaim ${missing.map((name) => `"${name}"`).join(', ')} not found`
    return wait(observed, 'ClaimNotFound', message)
  }
  const owner = controllerOf(vm)
  const owners = [{ kind: 'VirtualMachine', ...vm.metadata }, ...(owner === undefined ? [] : [owner])]
  const ending = [...claims].flatMap(([name, claim]) => (isEnding(claim, owners) ? [name] : []))
  if (ending.length > 0) {
    const message = `persistentvolumeclaim ${ending.map((name) => `"${name}"`).join(', ')} is being deleted, or will be with the earlier VM, config or group of this name that owns it`
    return wait(observed, 'ClaimTerminating', message)
  }
  const lost = explainLost(observed.lostSnapshots)
  if (lost !== undefined) return wait(observed, lost.reason, lost.message)
  return [
    { do: 'createPod', pod: launcherPod(vm, { image, claims }) },
    { do: 'recordEvent', type: 'Normal', reason: 'SuccessfulCreate', message: creationOf(observed) },
  ]
}

/** The only event of the controller for a VM that starts as usual: an event is a write to the API server. */
function creationOf({ vm, completion }: Observed): string {
  const created = `Created pod ${podName(vm)}`
  if (completion.kind !== 'done' || completion.presets.length === 0) return created
  return `${created}; the presets of the VM are ${completion.presets.join(', ')}`
}

function follow(observed: Observed, pod: LauncherPod): Action[] {
  const { vm, node } = observed
  if (isTerminal(pod)) return conclude(observed, pod)
  const disruption = disruptionOfLive(pod)
  if (isHandedOver(vm)) {
    if (disruption !== undefined && disruptionOfVm(vm) === undefined) return noteDisruption(observed, disruption)
    if (node === 'silent') return reportUnreachable(observed)
    const trouble = reportTrouble(observed, pod)
    return trouble.length > 0 ? trouble : [...reportProbe(observed, pod), ...awaitCreation(observed)]
  }
  if (disruption !== undefined && pod.metadata.deletionTimestamp !== undefined) {
    const message = `${disruption.message} before the VM started`
    return fail(observed, { ...disruption, message, phase: 'Failed', podUID: pod.metadata.uid, isDisrupted: true })
  }
  return pod.spec.nodeName === undefined ? awaitNode(observed, pod) : handOver(observed, pod, pod.spec.nodeName)
}

/** Recorded while the guest still runs: the handler reports the end, and the pod may be gone by then. */
function noteDisruption({ vm, now }: Observed, disruption: Disruption): Action[] {
  return [{ do: 'updateStatus', status: disruptedStatus(vm, disruption, now) }, disrupted(disruption)]
}

/**
 * The exit code of a process that ended by SIGKILL: 128 and the number of the signal. Its log does not explain that.
 */
const killedExitCode = 137

/** The launcher's exit code states how the guest ended if the handler did not. */
function conclude(observed: Observed, pod: LauncherPod): Action[] {
  const { vm, elapsed } = observed
  if (isRejected(vm, pod)) return replace(observed, pod)
  if (isHandedOver(vm)) {
    const leftMs = handlerGraceMs - (elapsed.get('podEnded') ?? 0)
    if (leftMs > 0) return [{ do: 'requeueAfter', afterMs: leftMs }]
  }
  const podUID = pod.metadata.uid
  const phase = pod.status?.phase === 'Succeeded' ? 'Succeeded' : 'Failed'
  const disruption = disruptionOfVm(vm) ?? disruptionOf(pod)
  if (disruption !== undefined) return fail(observed, { phase, podUID, ...disruption, isDisrupted: true })
  if (phase === 'Succeeded') {
    return fail(observed, { phase, reason: 'PodSucceeded', message: 'the launcher exited with code 0', podUID })
  }
  const ended = computeOf(pod)?.state?.terminated
  if (ended?.exitCode === terminatedExitCode && hasEndingProbe(vm.spec)) {
    // The kubelet asked the launcher to terminate, and nothing disrupts its pod.
    const failed = failedProbeOf(vm)
    const probe = failed === 'StartupProbeFailed' ? 'startup' : 'liveness'
    const message = `the ${probe} probe failed, and the kubelet ended the guest; kubectl describe pod ${pod.metadata.name} shows the error of the probe`
    return fail(observed, { phase: 'Failed', reason: failed, message, podUID })
  }
  const reason = pod.status?.reason ?? ended?.reason ?? 'PodFailed'
  const words =
    (reason === 'OOMKilled' ? outOfMemory(pod) : undefined) ??
    pod.status?.message ??
    (ended?.exitCode === killedExitCode ? 'the launcher was killed with SIGKILL' : undefined) ??
    lastLine(ended?.message) ??
    (ended ? `the launcher exited with code ${ended.exitCode}` : '')
  return fail(observed, { phase, reason, message: words || `the launcher pod ${pod.metadata.name} failed`, podUID })
}

/** Both pods would have the same name, so the other one cannot be created before this one is gone. */
function replace({ vm, elapsed, now }: Observed, pod: LauncherPod): Action[] {
  const reason = podRejected
  const delayMs = rejectedDelayMs(elapsed)
  const { status = {}, spec, metadata } = pod
  const message = `the kubelet of node ${spec.nodeName} rejected the launcher pod ${metadata.name}, which ran nothing; the controller creates it again after ${Math.round(delayMs / 1000)} s (${status.reason}: ${status.message})`
  const update = writeStatus(vm, rejectedStatus(vm, reason, message, now))
  const event: Action = { do: 'recordEvent', type: 'Warning', reason, message }
  const leftMs = delayMs - (elapsed.get('podEnded') ?? 0)
  const next: Action = leftMs > 0 ? { do: 'requeueAfter', afterMs: leftMs } : { do: 'deletePod', pod }
  return update.length > 0 ? [...update, event, next] : [next]
}

/** Undefined for a pod without a limit, which an older controller created. */
function outOfMemory({ spec }: Pod): string | undefined {
  const bytes = quantityValue(spec.containers[0]?.resources.limits?.['memory'] ?? '')
  if (bytes === undefined) return undefined
  const limit = (bytes + mebibyte - 1n) / mebibyte
  return `memory ran out, and the kernel ended the launcher pod, whose limit is ${limit} MiB; ${outOfMemoryAdvice}`
}

/** The kubelet probes the guest, and reports the result as the readiness of the pod. */
function reportProbe({ vm, now }: Observed, pod: LauncherPod): Action[] {
  const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready')
  const compute = computeOf(pod)
  if (!hasReadiness(vm.spec) || ready === undefined || compute?.state?.terminated !== undefined) return []
  const isStarting = vm.spec.startupProbe !== undefined && compute?.started === false
  const result = ready.status === 'True' ? 'succeeds' : isStarting ? 'has not started' : 'fails'
  return writeStatus(vm, probedStatus(vm, result, now))
}

/** Between Scheduled and Running the kubelet may report why the container does not start. */
function reportTrouble(observed: Observed, pod: LauncherPod): Action[] {
  const { vm, image, failure, now } = observed
  if (vm.status?.phase !== 'Scheduled') return []
  const { reason = '', message: waiting = '' } = computeOf(pod)?.state?.waiting ?? {}
  const isTrouble = troubles.includes(reason)
  const trouble = isTrouble ? { reason, message: explainPull(waiting, vm.spec, image) } : failure
  if (trouble === undefined) return []
  const status = troubledStatus(vm, trouble.reason, trouble.message, now)
  if (!isChanged(vm, status)) return []
  return [
    { do: 'updateStatus', status },
    { do: 'recordEvent', type: trouble.reason === pullingImage ? 'Normal' : 'Warning', ...trouble },
    ...awaitCreation(observed),
  ]
}

/** The pod does not change while a mount or a network fails. The interval doubles: a list of events is a large read. */
function awaitCreation({ elapsed }: Observed): Action[] {
  const creatingMs = elapsed.get('creating')
  if (creatingMs === undefined) return []
  const isOverdue = creatingMs >= creationOverdueMs
  return [
    { do: 'requeueAfter', afterMs: isOverdue ? Math.min(creatingMs, longestPollMs) : creationOverdueMs - creatingMs },
  ]
}

/** Writes nothing for a pod that only waits for the scheduler's first attempt. */
function awaitNode({ vm, now }: Observed, pod: LauncherPod): Action[] {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return []
  const reason = scheduled.reason ?? 'Unschedulable'
  const message = explainResources(scheduled.message ?? '')
  const status = schedulingStatus(vm, pod, { reason, message }, now)
  if (!isChanged(vm, status)) return []
  return [
    { do: 'updateStatus', status },
    { do: 'recordEvent', type: 'Warning', reason: 'FailedScheduling', message },
  ]
}

function handOver({ vm, completion, now }: Observed, pod: LauncherPod, nodeName: string): Action[] {
  const presets = completion.kind === 'done' ? completion.presets : []
  return [{ do: 'updateStatus', status: scheduledStatus(vm, pod, nodeName, presets, now) }]
}

function fail({ vm, now }: Observed, ending: Ending): Action[] {
  const { phase, reason, message } = ending
  return [
    { do: 'updateStatus', status: endedStatus(vm, ending, now) },
    { do: 'recordEvent', type: phase === 'Failed' ? 'Warning' : 'Normal', reason, message },
  ]
}

function wait(waiting: Waiting, reason: string, message: string): Action[] {
  const { vm, now } = waiting
  const afterMs = pollAfterMs(waiting, reason)
  return [...writeStatus(vm, pendingStatus(vm, reason, message, now)), { do: 'requeueAfter', afterMs }]
}

function pollAfterMs({ vm, elapsed }: Waiting, reason: string): number {
  const waitedMs = vm.status?.reason === reason ? (elapsed.get('waiting') ?? 0) : 0
  const shortestMs = pollMs * Math.max(1, Math.ceil(claimsOf(vm).length / claimsPerPoll))
  return Math.min(Math.max(shortestMs, waitedMs / pollFraction), longestPollMs)
}

/** The scheduler counts extended resources without explaining them. */
function explainResources(message: string): string {
  const explanations = [
    [kvmResource, 'type: kvm requires a node with /dev/kvm; type: qemu runs anywhere, more slowly'],
    [vsockResource, 'vsock requires a node with /dev/vhost-vsock, of the kernel module vhost_vsock'],
  ] as const
  const found = explanations.flatMap(([resource, words]) => (message.includes(resource) ? [words] : []))
  return found.length === 0 ? message : `${message} (${found.join('; ')})`
}

function computeOf({ status }: Pod): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === 'compute')
}
