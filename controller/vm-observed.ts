import type { Cause } from '../api/cause.ts'
import { isFinished } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { canFail, type PodFailure } from './pod-failure.ts'
import type { LostSnapshot } from './lost-snapshot.ts'
import type { NodeState } from './node.ts'
import { isTerminal } from './own-pod.ts'
import type { Claim, Pod } from './pod.ts'
import type { Elapsed } from './stopwatch.ts'

export type Vm = Persisted<VirtualMachine>
export type LauncherPod = Persisted<Pod>

/** Everything that decides what to do for a VM. It has no clock: `elapsed` is measured, and `now` is only written. */
export interface Observed {
  readonly vm: Vm
  /**
   * Every pod of the VM (`isPodOf`). Once the VM has taken a pod, or is deleted, it is empty only if the API server
   * itself reported that the pod does not exist. Before, the cache may lag: the creation of a pod detects an existing
   * one.
   */
  readonly pods: readonly LauncherPod[]
  /** A pod that has the name of the VM's pod and does not belong to the VM. */
  readonly foreignPod: LauncherPod | undefined
  /** Launcher pods of an earlier VM of this name, which no longer exists. Looked up only until the VM has its pod. */
  readonly predecessors: readonly LauncherPod[]
  /** Whether this process saw the containers of the VM's pod end before the pod was removed. */
  readonly isEndObserved: boolean
  readonly completion: Completion
  /** Whether this process has marked the claims that the VM was to fill. */
  readonly isFillRecorded: boolean
  /** By name; without claims that do not exist. Looked up only until the VM has its pod. */
  readonly claims: ReadonlyMap<string, Claim>
  /** VolumeSnapshots that these claims would be made from. */
  readonly lostSnapshots: readonly LostSnapshot[]
  /**
   * Why the kubelet cannot create the container of the VM's pod. Looked up only when that takes long:
   * `creationOverdueMs`.
   */
  readonly failure: PodFailure | undefined
  /** The state of the node that `status.nodeName` names. */
  readonly node: NodeState
  readonly image: string
  /** For how long this process has observed what `statesOf` returns. */
  readonly elapsed: Elapsed<Mark>
  /** RFC 3339, for the status. */
  readonly now: string
}

export type Completion =
  | { readonly kind: 'done'; readonly presets: readonly string[] }
  /** Never completed; `vm` is the completed VM. */
  | { readonly kind: 'todo'; readonly vm: Vm }
  | { readonly kind: 'refused'; readonly causes: readonly Cause[] }

/** The reason of a VM whose launcher pod the kubelet rejected. */
export const podRejected = 'PodRejected'

/** The states whose duration matters. */
export type Mark =
  | 'waiting'
  | 'creating'
  | 'rejected'
  | 'finished'
  | 'podEnded'
  | 'podDeleting'
  | 'volumePods'
  | 'podMissing'
  | 'runningAgain'

/** What to measure the duration of, before `plan`. */
export function statesOf(vm: Vm, pods: readonly LauncherPod[], node: NodeState): ReadonlyMap<Mark, string> {
  const { podUID, phaseTransitionTimestamps: times = [] } = vm.status ?? {}
  const ended = pods.filter(isTerminal).map(({ metadata }) => metadata.uid)
  const deleting = pods.flatMap(({ metadata: { uid, deletionTimestamp } }) =>
    deletionTimestamp === undefined ? [] : [`${uid} ${deletionTimestamp}`],
  )
  const [before, last] = times.slice(-2)
  const states: [Mark, string | undefined][] = [
    ['waiting', vm.status?.phase === 'Pending' ? vm.status.reason : undefined],
    ['creating', creatingPod(vm, pods)?.metadata.uid],
    ['rejected', isRejectedAgain(vm) ? 'rejected' : undefined],
    ['finished', isFinished(vm) ? 'finished' : undefined],
    ['podEnded', ended.length === 0 ? undefined : ended.join()],
    ['podDeleting', deleting.length === 0 ? undefined : deleting.join()],
    ['volumePods', awaitsVolumePods(vm, pods) ? 'waiting' : undefined],
    // Only a kubelet that works ends what is left of a pod.
    ['podMissing', pods.length === 0 && node === 'ready' ? podUID : undefined],
    ['runningAgain', before?.phase === 'Unknown' && last?.phase === 'Running' ? last.time : undefined],
  ]
  return new Map(states.flatMap(([mark, state]) => (state === undefined ? [] : [[mark, state]])))
}

/** Whether a deleted VM has no launcher any more, and pods of its attached volumes are left. */
const awaitsVolumePods = ({ metadata, status }: Vm, pods: readonly LauncherPod[]): boolean =>
  metadata.deletionTimestamp !== undefined && pods.length === 0 && (status?.attachmentPods ?? []).length > 0

/** Mounting usually takes less than a second, and so do networks. After this time, the events of the pod are read. */
export const creationOverdueMs = 5000

/** The pod of a VM if the kubelet still prepares its container, and volumes or networks of it can be missing. */
export function creatingPod({ status = {} }: Vm, pods: readonly LauncherPod[]): LauncherPod | undefined {
  if (status.phase !== 'Scheduled') return undefined
  const own = pods.find(({ metadata }) => metadata.uid === status.podUID)
  const [compute] = own?.status?.containerStatuses ?? []
  const isCreating = compute?.state?.waiting?.reason === 'ContainerCreating'
  return own !== undefined && isCreating && canFail(own) ? own : undefined
}

/** Whether the kubelet rejected a pod of the VM, which has not run since: only that leads back to Pending. */
function isRejectedAgain({ status: { phase, reason, phaseTransitionTimestamps: times = [] } = {} }: Vm): boolean {
  if (phase === 'Pending' && reason === podRejected) return true
  const isStarting = phase === 'Pending' || phase === 'Scheduling' || phase === 'Scheduled'
  return isStarting && times.slice(1).some((one) => one.phase === 'Pending')
}

/** Whether the handler of a node may have given the VM to a launcher. */
export function isHandedOver({ status }: VirtualMachine): boolean {
  return status?.nodeName !== undefined
}
