import type { Cause } from '../api/cause.ts'
import { completedByAnnotation, excludePresetsAnnotation, launcherPodFinalizer } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { group } from '../api/object.ts'
import type { ObjectMeta, OwnerReference } from '../api/object.ts'
import { isReservedKey } from '../api/reserved.ts'

/** Kinds that own VMs: only their controller sets the owner references. */
const owningKinds = ['VirtualMachineConfig', 'VirtualMachineGroup']

/**
 * Reserved keys that a user can set. The provenance of a new VM is written again, so that `kubectl get | apply` works;
 * that of a stored one was restored before.
 */
const writableIn = (stored: VirtualMachine | undefined): readonly string[] =>
  stored === undefined ? [completedByAnnotation, excludePresetsAnnotation] : [excludePresetsAnnotation]

/**
 * Causes for metadata that only virtset itself may set: reserved labels and annotations, owners of its own kinds, and
 * the finalizer. Stored metadata may remain unchanged.
 */
export function checkReserved(vm: VirtualMachine, stored: VirtualMachine | undefined): Cause[] {
  const { metadata } = vm
  const before: ObjectMeta = stored?.metadata ?? {}
  return [
    ...changedKeys(metadata.labels, before.labels, 'metadata.labels', []),
    ...changedKeys(metadata.annotations, before.annotations, 'metadata.annotations', writableIn(stored)),
    ...changedOwners(metadata.ownerReferences ?? [], before.ownerReferences ?? []),
    ...lostFinalizer(metadata, before),
  ]
}

function changedKeys(
  now: ObjectMeta['labels'] = {},
  before: ObjectMeta['labels'] = {},
  field: string,
  writable: readonly string[],
): Cause[] {
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
    const message = `only virtset's controller can make a ${owner.kind} the owner of a VM`
    return [forbidden('owner-reference', `metadata.ownerReferences[${index}]`, message)]
  })
  const present = now.filter(ours).map((owner) => owner.uid)
  const lost = before.filter((owner) => ours(owner) && !present.includes(owner.uid))
  return [
    ...added,
    ...lost.map(({ kind, name }) =>
      forbidden('owner-reference', 'metadata.ownerReferences', `the owner ${kind} ${name} must not be removed`),
    ),
  ]
}

/** Mutation has restored the finalizer already, unless the VM is being deleted. */
function lostFinalizer(now: ObjectMeta, before: ObjectMeta): Cause[] {
  if (!before.finalizers?.includes(launcherPodFinalizer) || now.finalizers?.includes(launcherPodFinalizer)) return []
  const message = `${launcherPodFinalizer} is removed by virtset's controller once no pod of the VM remains`
  return [forbidden('finalizer', 'metadata.finalizers', message)]
}

const forbidden = (rule: string, field: string, message: string): Cause => ({
  rule,
  field,
  reason: 'FieldValueForbidden',
  message,
})

/** Adds the finalizer that holds the VM until none of its launcher pods remains. */
export function withFinalizer(vm: VirtualMachine): VirtualMachine {
  const { finalizers = [] } = vm.metadata
  if (finalizers.includes(launcherPodFinalizer)) return vm
  return { ...vm, metadata: { ...vm.metadata, finalizers: [...finalizers, launcherPodFinalizer] } }
}
