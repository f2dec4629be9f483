import { launcherPodFinalizer } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'

/**
 * The finalizer `virtset.io/launcher-pod` keeps a VM, its name and its claims in place while its guest may still run.
 *
 * Flow
 *
 *     created  → the webhooks add the finalizer; the controller does for a VM that bypassed them, before it creates a pod
 *     deleted  → the controller deletes every pod of the VM and waits
 *     no pod   → if the end of the launcher was not observed, the controller waits for the handler of the node first
 *     ended    → the controller removes the finalizer, and the API server removes the VM
 *
 * Guarantees
 *
 * - While the API server has a pod of the VM (`isPodOf`: by label, by owner or by `status.podUID`), the finalizer
 *   stays. An absent pod is confirmed by the API server itself, never by a cache.
 * - No pod is created for a VM without the finalizer.
 * - A pod that was force-deleted on a node that responds: the finalizer stays until the handler reports that the
 *   launcher has ended, whatever the launcher itself reports. Only if the handler reports nothing, it stays no longer
 *   than the longest grace period that the pod was deleted with, and a minute.
 *
 * Assumptions
 *
 * - The kubelet removes a pod from the API only after its containers have ended. A forced deletion breaks this, and so
 *   does a node that is declared out of service or whose Node object is deleted: each is the operator's statement that
 *   nothing of the pod runs any more.
 * - etcd does not lose writes. docs/restore-etcd.md describes what to do after a restore from a backup.
 *
 * Caveats
 *
 * - Removing the finalizer by hand removes the guarantees. What is left then: a VM of the same name waits while a pod
 *   of its predecessor exists, and the controller deletes launcher pods whose VM no longer exists.
 */
export const hasFinalizer = ({ metadata }: VirtualMachine): boolean =>
  metadata.finalizers?.includes(launcherPodFinalizer) === true

/** `metadata.finalizers` with the finalizer. */
export const withFinalizer = ({ metadata: { finalizers = [] } }: VirtualMachine): readonly string[] =>
  finalizers.includes(launcherPodFinalizer) ? finalizers : [...finalizers, launcherPodFinalizer]

/** `metadata.finalizers` without the finalizer. */
export const withoutFinalizer = ({ metadata: { finalizers = [] } }: VirtualMachine): readonly string[] =>
  finalizers.filter((name) => name !== launcherPodFinalizer)
