import { outOfMemoryAdvice } from '../api/launcher-memory.ts'
import { kvmResource } from '../api/launcher-resources.ts'
import type { Cause } from '../api/cause.ts'
import { isFinished, launcherPodFinalizer } from '../api/machine.ts'
import { quantityValue } from '../api/quantity.ts'
import type { MachineStatus, VirtualMachine } from '../api/machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { differenceFrom } from './adopt.ts'
import { claimsOf, launcherPod, podName, vmUidLabel } from './launcher-pod.ts'
import type { NodeState } from './node.ts'
import type { Claim, ContainerStatus, Pod } from './pod.ts'
import {
  completionRefused,
  endedStatus,
  isChanged,
  pendingStatus,
  refusedStatus,
  scheduledStatus,
  schedulingStatus,
  stuckStatus,
  troubledStatus,
  unknownStatus,
} from './status.ts'

type Machine = Persisted<VirtualMachine>

/** All that decides what is to be done for a VM. */
export interface Observed {
  readonly machine: Machine
  /** The pod by the VM's name for it; undefined only if the API server itself said that there is none. */
  readonly pod: Persisted<Pod> | undefined
  readonly completion: Completion
  /** By name; a claim that does not exist is not in it. Looked up only until the VM has its pod, as `status.podUID` says. */
  readonly claims: ReadonlyMap<string, Claim>
  /** Of the node that `status.nodeName` names. */
  readonly node: NodeState
  readonly image: string
  readonly nowMs: number
}

export type Completion =
  | { readonly kind: 'done'; readonly presets: readonly string[] }
  /** Never completed; this is what it becomes. */
  | { readonly kind: 'todo'; readonly machine: Machine }
  | { readonly kind: 'refused'; readonly causes: readonly Cause[] }

export type Action =
  /** Store the completed spec, provenance and finalizer. */
  | { readonly do: 'complete'; readonly machine: Machine }
  /** Put our finalizer on. */
  | { readonly do: 'hold' }
  | { readonly do: 'create'; readonly pod: Pod }
  | { readonly do: 'delete'; readonly pod: Persisted<Pod> }
  | { readonly do: 'write'; readonly status: MachineStatus }
  /** Take our finalizer off. */
  | { readonly do: 'release' }
  | { readonly do: 'tell'; readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string }
  | { readonly do: 'again'; readonly afterMs: number }

/** What the launcher waits for its handler is over when the pod has ended; this is for the handler's write to reach us. */
const handlerGraceMs = 5000
/** A launcher whose VM is over ends by itself within seconds; what stays longer is ended. */
const finishedGraceMs = 60_000
/** A pod that is this late to end is on a node that does not answer. */
const stuckMs = 60_000
/** A handler may answer while its kubelet does not, and write that the guest runs. It is believed for so long: each would undo the other's word without end. */
const believedMs = 300_000
/** How often we look for what sends us no events: claims, quota, a foreign pod. */
const lookAgainMs = 5000

const mebibyte = 1024n * 1024n

/** Reasons for which a container waits that do not pass in a moment. */
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
 * What to do for a VM, in this order. Everything is decided from what is observed, so that it does not matter who did what before, or died
 * in between.
 *
 * At most one QEMU ever: the handler hands a VM to the pod that `status.podUID` names, and to none before. Until that is
 * written a lost pod has run nothing; from then on no pod is created any more.
 */
export function plan(observed: Observed): Action[] {
  const { machine, pod, completion } = observed
  const now = timestampOf(observed)
  if (machine.metadata.deletionTimestamp !== undefined) return end(observed)
  if (isFinished(machine)) return tidy(observed)
  if (pod === undefined && machine.status?.podUID !== undefined) return lose(observed)
  const isAdopted = machine.status?.podUID !== undefined
  if (!isAdopted && completion.kind !== 'done') return complete(machine, completion, now)
  if (machine.metadata.finalizers?.includes(launcherPodFinalizer) !== true) return [{ do: 'hold' }]
  if (pod === undefined) return start(observed)
  if (!isOurs(machine, pod)) return wait(machine, 'PodNameTaken', `the pod ${pod.metadata.name} is not of this VM`, now)
  return (isAdopted ? undefined : refuseForeign(observed, pod)) ?? follow(observed, pod)
}

/** From the first status that names a pod on, the VM is that pod's: one that is not the controller's own never gets that far. */
function refuseForeign(observed: Observed, pod: Persisted<Pod>): Action[] | undefined {
  const { machine, image, claims } = observed
  const difference = differenceFrom(launcherPod(machine, { image, claims }), pod)
  if (difference === undefined) return undefined
  const reason = 'PodNotOwn'
  const message = `the pod ${pod.metadata.name} is not as the controller creates it: ${difference} differs; delete it, and the controller creates its own`
  const actions = wait(machine, reason, message, timestampOf(observed))
  const isNews = actions.some((action) => action.do === 'write')
  return isNews ? [...actions, { do: 'tell', type: 'Warning', reason, message }] : actions
}

/** What to do when the API server refused the pod: a quota, a policy, an ending namespace. */
export function refusedToCreate(machine: Machine, message: string, now: string): Action[] {
  return [
    { do: 'tell', type: 'Warning', reason: 'FailedCreate', message },
    ...wait(machine, 'FailedCreate', message, now),
  ]
}

function end(observed: Observed): Action[] {
  const { machine, pod, nowMs } = observed
  if (pod === undefined || !isOurs(machine, pod)) {
    return machine.metadata.finalizers?.includes(launcherPodFinalizer) === true ? [{ do: 'release' }] : []
  }
  const { name, deletionTimestamp } = pod.metadata
  if (deletionTimestamp === undefined) {
    const message = `Deleted pod ${name}`
    return [
      { do: 'delete', pod },
      { do: 'tell', type: 'Normal', reason: 'SuccessfulDelete', message },
    ]
  }
  // The API server's timestamp has the grace period in it already.
  const leftMs = Date.parse(deletionTimestamp) + stuckMs - nowMs
  if (leftMs > 0) return [{ do: 'again', afterMs: leftMs }]
  const message = `pod ${name} on node ${pod.spec.nodeName ?? ''} should have ended at ${deletionTimestamp}; the VM stays until it has`
  const doubts = observed.node === 'silent' ? doubt(observed) : []
  const status = doubts.find((action) => action.do === 'write')?.status ?? machine.status
  const known = status === undefined ? machine : { ...machine, status }
  return [
    ...write(machine, stuckStatus(known, message, timestampOf(observed))),
    ...doubts.filter((action) => action.do !== 'write'),
  ]
}

/** The VM is over; its pod is kept for its logs, but not alive. */
function tidy({ machine, pod, nowMs }: Observed): Action[] {
  if (pod === undefined || !isOurs(machine, pod) || isTerminal(pod) || pod.metadata.deletionTimestamp !== undefined)
    return []
  const endedAt = machine.status?.phaseTransitionTimestamps?.at(-1)?.time
  const leftMs = endedAt === undefined ? 0 : Date.parse(endedAt) + finishedGraceMs - nowMs
  return leftMs > 0 ? [{ do: 'again', afterMs: Math.min(leftMs, finishedGraceMs) }] : [{ do: 'delete', pod }]
}

function lose(observed: Observed): Action[] {
  const { machine, node } = observed
  const { nodeName } = machine.status ?? {}
  const isNodeGone = nodeName !== undefined && node === 'gone'
  const reason = isNodeGone ? 'NodeLost' : 'PodLost'
  const message = isNodeGone
    ? `the node ${nodeName} is gone, and the launcher pod ${podName(machine)} with it`
    : `the launcher pod ${podName(machine)} is gone; a VM never gets a second one`
  return fail(observed, { phase: 'Failed', reason, message })
}

function complete(machine: Machine, completion: Exclude<Completion, { kind: 'done' }>, now: string): Action[] {
  if (completion.kind === 'todo') {
    const message = 'The spec was not completed at admission; the controller completed it'
    return [
      { do: 'complete', machine: completion.machine },
      { do: 'tell', type: 'Normal', reason: 'Completed', message },
    ]
  }
  const status = refusedStatus(machine, completion.causes, now)
  if (!isChanged(machine, status)) return []
  const { message = '' } = status
  return [
    { do: 'write', status },
    { do: 'tell', type: 'Warning', reason: completionRefused, message },
  ]
}

function start(observed: Observed): Action[] {
  const { machine, claims, image } = observed
  const missing = claimsOf(machine).filter((name) => !claims.has(name))
  if (missing.length > 0) {
    const message = `persistentvolumeclaim ${missing.map((name) => `"${name}"`).join(', ')} not found`
    return wait(machine, 'ClaimNotFound', message, timestampOf(observed))
  }
  const pod = launcherPod(machine, { image, claims })
  const message = `Created pod ${podName(machine)}`
  return [
    { do: 'create', pod },
    { do: 'tell', type: 'Normal', reason: 'SuccessfulCreate', message },
    ...tellPresets(observed),
  ]
}

/** For `kubectl describe`, once in a VM's life. */
function tellPresets({ completion }: Observed): Action[] {
  if (completion.kind !== 'done' || completion.presets.length === 0) return []
  const message = `Completed with the presets ${completion.presets.join(', ')}`
  return [{ do: 'tell', type: 'Normal', reason: 'PresetsApplied', message }]
}

function follow(observed: Observed, pod: Persisted<Pod>): Action[] {
  const { machine } = observed
  const { podUID } = machine.status ?? {}
  if (podUID !== undefined && podUID !== pod.metadata.uid) return [...lose(observed), { do: 'delete', pod }]
  if (isTerminal(pod)) return concludeFrom(observed, pod)
  if (isHandedOver(machine)) return observed.node === 'silent' ? doubt(observed) : trouble(observed, pod)
  if (pod.metadata.deletionTimestamp !== undefined) {
    const message = `the launcher pod ${pod.metadata.name} was deleted before the VM started`
    return fail(observed, { phase: 'Failed', reason: 'PodDeleted', message, podUID: pod.metadata.uid })
  }
  return pod.spec.nodeName === undefined ? awaitNode(observed, pod) : handOver(observed, pod, pod.spec.nodeName)
}

/** The launcher's exit tells how the guest ended, where the handler did not. */
function concludeFrom(observed: Observed, pod: Persisted<Pod>): Action[] {
  const { machine, nowMs } = observed
  const ended = terminatedOf(pod)
  if (isHandedOver(machine)) {
    const leftMs = ended?.finishedAt === undefined ? 0 : Date.parse(ended.finishedAt) + handlerGraceMs - nowMs
    if (leftMs > 0) return [{ do: 'again', afterMs: Math.min(leftMs, handlerGraceMs) }]
  }
  if (pod.status?.phase === 'Succeeded') {
    return fail(observed, {
      phase: 'Succeeded',
      reason: 'PodSucceeded',
      message: 'the launcher ended well',
      podUID: pod.metadata.uid,
    })
  }
  const reason = pod.status?.reason ?? ended?.reason ?? 'PodFailed'
  const words =
    (reason === 'OOMKilled' ? outOfMemory(pod) : undefined) ??
    pod.status?.message ??
    ended?.message ??
    (ended ? `the launcher ended with exit code ${ended.exitCode}` : '')
  const message = words || `the launcher pod ${pod.metadata.name} failed`
  return fail(observed, { phase: 'Failed', reason, message, podUID: pod.metadata.uid })
}

/** Undefined for a pod without a limit, which an older controller made. */
function outOfMemory({ spec }: Pod): string | undefined {
  const bytes = quantityValue(spec.containers[0]?.resources.limits?.['memory'] ?? '')
  if (bytes === undefined) return undefined
  const limit = (bytes + mebibyte - 1n) / mebibyte
  return `memory ran out, and the kernel ended the launcher pod, whose limit is ${limit} MiB; ${outOfMemoryAdvice}`
}

/** What runs there may go on, and nobody can see it: the phase says so until the handler is heard of again, and writes what it sees. */
function doubt({ machine, nowMs }: Observed): Action[] {
  const { phase, nodeName, phaseTransitionTimestamps: times = [] } = machine.status ?? {}
  if (phase !== 'Running') return []
  const [before, last] = times.slice(-2)
  if (before?.phase === 'Unknown' && last !== undefined) {
    const leftMs = Date.parse(last.time) + believedMs - nowMs
    if (leftMs > 0) return [{ do: 'again', afterMs: Math.min(leftMs, believedMs) }]
  }
  const message = `the node ${nodeName} does not answer; the VM may still run there, and is not started elsewhere`
  const status = unknownStatus(machine, 'NodeUnreachable', message, timestampOf({ nowMs }))
  return [
    { do: 'write', status },
    { do: 'tell', type: 'Warning', reason: 'NodeUnreachable', message },
  ]
}

/** Between Scheduled and Running the kubelet may have something to say. */
function trouble(observed: Observed, pod: Persisted<Pod>): Action[] {
  const { machine } = observed
  if (machine.status?.phase !== 'Scheduled') return []
  const { reason, message } = computeOf(pod)?.state?.waiting ?? {}
  if (reason === undefined || !troubles.includes(reason)) return []
  const status = troubledStatus(machine, reason, message ?? '', timestampOf(observed))
  if (!isChanged(machine, status)) return []
  return [
    { do: 'write', status },
    { do: 'tell', type: 'Warning', reason, message: message ?? '' },
  ]
}

/** Nothing is written for a pod that waits only for the scheduler to look at it. */
function awaitNode(observed: Observed, pod: Persisted<Pod>): Action[] {
  const { machine } = observed
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return []
  const reason = scheduled.reason ?? 'Unschedulable'
  const message = explain(scheduled.message ?? '')
  const status = schedulingStatus(machine, pod, { reason, message }, timestampOf(observed))
  if (!isChanged(machine, status)) return []
  return [
    { do: 'write', status },
    { do: 'tell', type: 'Warning', reason: 'FailedScheduling', message },
  ]
}

function handOver(observed: Observed, pod: Persisted<Pod>, nodeName: string): Action[] {
  const { machine, completion } = observed
  const presets = completion.kind === 'done' ? completion.presets : []
  const status = scheduledStatus(machine, pod, nodeName, presets, timestampOf(observed))
  const message = `Pod ${pod.metadata.name} is on node ${nodeName}`
  return [
    { do: 'write', status },
    { do: 'tell', type: 'Normal', reason: 'Scheduled', message },
  ]
}

function fail(
  observed: Observed,
  ending: { phase: 'Succeeded' | 'Failed'; reason: string; message: string; podUID?: string },
): Action[] {
  const { machine } = observed
  const { phase, reason, message } = ending
  const type = phase === 'Failed' ? 'Warning' : 'Normal'
  return [
    { do: 'write', status: endedStatus(machine, ending, timestampOf(observed)) },
    { do: 'tell', type, reason, message },
  ]
}

function wait(machine: Machine, reason: string, message: string, now: string): Action[] {
  return [...write(machine, pendingStatus(machine, reason, message, now)), { do: 'again', afterMs: lookAgainMs }]
}

function write(machine: Machine, status: MachineStatus): Action[] {
  return isChanged(machine, status) ? [{ do: 'write', status }] : []
}

/** The scheduler counts the resource and does not say what it means. */
function explain(message: string): string {
  if (!message.includes(kvmResource)) return message
  return `${message} (type: kvm wants a node with /dev/kvm; type: qemu runs anywhere, more slowly)`
}

/** Whether the handler of a node may have given the VM to a launcher. */
function isHandedOver({ status }: VirtualMachine): boolean {
  return status?.nodeName !== undefined
}

function isOurs(machine: Machine, pod: Persisted<Pod>): boolean {
  const { uid } = machine.metadata
  const isOwned = pod.metadata.ownerReferences?.some((owner) => owner.controller === true && owner.uid === uid) === true
  return isOwned && pod.metadata.labels?.[vmUidLabel] === uid
}

function isTerminal({ status }: Pod): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed'
}

function computeOf({ status }: Pod): ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === 'compute')
}

function terminatedOf(pod: Pod) {
  return computeOf(pod)?.state?.terminated
}

function timestampOf({ nowMs }: Pick<Observed, 'nowMs'>): string {
  return `${new Date(nowMs).toISOString().slice(0, 19)}Z`
}
