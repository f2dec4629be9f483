import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { vmUidLabel, vmUidVariable } from './launcher-pod.ts'
import type { Pod } from './pod.ts'

/**
 * Whether a pod belongs to a VM. One of these marks is enough, so that no edit of a pod hides it:
 *
 * - the environment variable `VIRTSET_VM_UID` of its container, which cannot change after creation
 * - the label `virtset.io/vm-uid`, by which the controller's cache selects pods
 * - `status.podUID` of the VM
 *
 * The owner reference is not needed: the garbage collector removes it with `--cascade=orphan`. A pod in another
 * namespace never belongs to the VM: a user who can write pods there must not be able to hold up the VM.
 */
export function isPodOf({ metadata, status }: Persisted<VirtualMachine>, pod: Persisted<Pod>): boolean {
  const { uid, namespace } = metadata
  if (pod.metadata.namespace !== namespace) return false
  return vmUidOf(pod) === uid || pod.metadata.labels?.[vmUidLabel] === uid || pod.metadata.uid === status?.podUID
}

/**
 * The pods that belong to a VM, and the pod that only has the name of the VM's.
 * @param named the pod with the name of the VM's, as the API server has it
 * @param labelled the cached pods with the VM's label
 */
export function sortPods(
  vm: Persisted<VirtualMachine>,
  named: Persisted<Pod> | undefined,
  labelled: readonly Persisted<Pod>[],
): { readonly pods: readonly Persisted<Pod>[]; readonly foreignPod: Persisted<Pod> | undefined } {
  const own = named !== undefined && isPodOf(vm, named) ? [named] : []
  return {
    pods: [...own, ...labelled.filter((pod) => pod.metadata.name !== named?.metadata.name && isPodOf(vm, pod))],
    foreignPod: own.length > 0 ? undefined : named,
  }
}

/** The uid of the VM that a launcher pod was created for; undefined for any other pod. */
export function vmUidOf({ spec }: Pod): string | undefined {
  const variables = spec.containers.flatMap(({ env = [] }) => env)
  return variables.find(({ name }) => name === vmUidVariable)?.value
}

export function isTerminal({ status }: Pod): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed'
}

/** Whether nothing of the pod runs: its containers ended, or it was never scheduled. */
export function hasEnded(pod: Pod): boolean {
  return isTerminal(pod) || pod.spec.nodeName === undefined
}
