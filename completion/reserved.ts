import type { Cause } from '../api/cause.ts'
import { completedByAnnotation, excludePresetsAnnotation, launcherPodFinalizer } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { group } from '../api/object.ts'
import type { ObjectMeta, OwnerReference } from '../api/object.ts'
import { isReservedKey } from '../api/reserved.ts'

/** Kinds that own VMs: only their controller says which. */
const owningKinds = ['VirtualMachineConfig', 'VirtualMachineGroup']

/** What a user may write of the reserved: the first is ignored and written anew, so that `kubectl get | apply` works. */
const writable = [completedByAnnotation, excludePresetsAnnotation]

/**
 * Causes for what of a VM's metadata only virtset itself may write: reserved labels and annotations, owners of its own kinds,
 * and the finalizer. What is stored already may stay as it is.
 */
export function checkReserved(machine: VirtualMachine, stored: VirtualMachine | undefined): Cause[] {
  const { metadata } = machine
  const before: ObjectMeta = stored?.metadata ?? {}
  return [
    ...changedKeys(metadata.labels, before.labels, 'metadata.labels'),
    ...changedKeys(metadata.annotations, before.annotations, 'metadata.annotations'),
    ...changedOwners(metadata.ownerReferences ?? [], before.ownerReferences ?? []),
    ...lostFinalizer(metadata, before),
  ]
}

function changedKeys(now: ObjectMeta['labels'] = {}, before: ObjectMeta['labels'] = {}, field: string): Cause[] {
  const keys = new Set([...Object.keys(now), ...Object.keys(before)])
  return [...keys]
    .filter((key) => isReservedKey(key) && !writable.includes(key) && valueOf(now, key) !== valueOf(before, key))
    .map((key) =>
      forbidden('reserved-key', `${field}[${key}]`, `keys of ${group} are set by virtset itself, not by users`),
    )
}

const valueOf = (labels: { readonly [key: string]: string }, key: string): string | undefined =>
  Object.hasOwn(labels, key) ? labels[key] : undefined

function changedOwners(now: readonly OwnerReference[], before: readonly OwnerReference[]): Cause[] {
  const ours = (owner: OwnerReference) =>
    owningKinds.includes(owner.kind) && (owner.apiVersion === group || owner.apiVersion.startsWith(`${group}/`))
  const text = ({ apiVersion, kind, name, uid, controller, blockOwnerDeletion }: OwnerReference) =>
    JSON.stringify([apiVersion, kind, name, uid, controller === true, blockOwnerDeletion === true])
  const stored = before.filter(ours).map(text)
  const added = now.flatMap((owner, index): Cause[] => {
    if (!ours(owner) || stored.includes(text(owner))) return []
    const message = `only virtset's controller says which VMs a ${owner.kind} owns`
    return [forbidden('owner-reference', `metadata.ownerReferences[${index}]`, message)]
  })
  const kept = now.filter(ours).map((owner) => owner.uid)
  const lost = before.filter((owner) => ours(owner) && !kept.includes(owner.uid))
  return [
    ...added,
    ...lost.map(({ kind, name }) =>
      forbidden('owner-reference', 'metadata.ownerReferences', `the owner ${kind} ${name} may not be taken away`),
    ),
  ]
}

/** Unless the VM is being deleted, mutation has put the finalizer back already. */
function lostFinalizer(now: ObjectMeta, before: ObjectMeta): Cause[] {
  if (!before.finalizers?.includes(launcherPodFinalizer) || now.finalizers?.includes(launcherPodFinalizer)) return []
  const message = `${launcherPodFinalizer} is taken away by virtset's controller once no pod of the VM remains`
  return [forbidden('finalizer', 'metadata.finalizers', message)]
}

const forbidden = (rule: string, field: string, message: string): Cause => ({
  rule,
  field,
  reason: 'FieldValueForbidden',
  message,
})

/** The VM, held from the first until no launcher pod of it remains. */
export function withFinalizer(machine: VirtualMachine): VirtualMachine {
  const { finalizers = [] } = machine.metadata
  if (finalizers.includes(launcherPodFinalizer)) return machine
  return { ...machine, metadata: { ...machine.metadata, finalizers: [...finalizers, launcherPodFinalizer] } }
}
