import type { VirtualMachine } from '../api/virtual-machine.ts'
import { findCondition } from '../runtime/condition.ts'
import { disruptionTarget, podTerminated } from '../runtime/disruption.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Pod } from './pod.ts'

/** Why something other than the guest and its launcher ends, or has ended, a launcher pod. */
export interface Disruption {
  /** Kubernetes' own reason where there is one. */
  readonly reason: string
  readonly message: string
}

const causes: ReadonlyMap<string, string> = new Map([
  ['EvictionByEvictionAPI', 'the launcher pod was evicted, as `kubectl drain` does'],
  ['TerminationByKubelet', 'the kubelet ended the launcher pod'],
  ['DeletionByPodGC', 'the pod garbage collector deleted the launcher pod'],
  ['DeletionByTaintManager', 'a taint of the node evicted the launcher pod'],
  ['PreemptionByScheduler', 'the scheduler preempted the launcher pod'],
])

/** Reasons in a pod's status, without the condition, that are not the pod's own failure. */
const podReasons = ['Evicted', 'Preempting', 'Terminated', 'NodeShutdown', 'NodeLost']

/** The reason that Kubernetes reports for the end of a pod; undefined while nothing disrupts it. */
export function disruptionOf({ status, metadata }: Pod): Disruption | undefined {
  const target = status?.conditions?.find(({ type }) => type === disruptionTarget)
  if (target?.status === 'True') {
    const { reason = disruptionTarget } = target
    const details = status?.message ?? target.message ?? ''
    const cause = causes.get(reason) ?? 'the launcher pod is disrupted'
    return { reason: status?.reason ?? reason, message: details === '' ? cause : `${cause}: ${details}` }
  }
  if (status?.reason === undefined || !podReasons.includes(status.reason)) return undefined
  return { reason: status.reason, message: status.message ?? `the launcher pod ${metadata.name ?? ''} was disrupted` }
}

/** The same for a pod of a VM that is neither finished nor deleted: another client deleted such a pod. */
export function disruptionOfLive(pod: Persisted<Pod>): Disruption | undefined {
  const found = disruptionOf(pod)
  if (found !== undefined || pod.metadata.deletionTimestamp === undefined) return found
  return podDeleted(pod.metadata.name)
}

/** Of a pod that another client deleted without an eviction. */
export const podDeleted = (name: string): Disruption => ({
  reason: 'PodDeleted',
  message: `the launcher pod ${name} was deleted`,
})

/** The disruption that ended, or ends, a VM. Such an end is not a failure of its guest. */
export function disruptionOfVm({ status }: Pick<VirtualMachine, 'status'>): Disruption | undefined {
  const condition = findCondition(status?.conditions, disruptionTarget)
  return condition?.status === 'True' ? { reason: condition.reason, message: condition.message } : undefined
}

/** The same if the reason is the pod's, not only the handler's report that the pod was terminated. */
export function disruptionByPod(vm: Pick<VirtualMachine, 'status'>): Disruption | undefined {
  const found = disruptionOfVm(vm)
  return found?.reason === podTerminated ? undefined : found
}
