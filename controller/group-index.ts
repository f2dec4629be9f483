import { isDeepStrictEqual } from 'node:util'
import { controllerOf, isOwning } from '../api/template.ts'
import { isFinished, type VirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { Selecting } from '../presets/candidates.ts'
import { compileStoredSelector } from '../presets/selector.ts'
import { keyOf, refOf } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'
import { isAdopting } from './slim-owner.ts'
import type { CachedGroup } from './slim-owner.ts'

/**
 * Finds the groups that a change of a VM concerns, by uid and by the labels that they require. A tenant can have
 * thousands of groups, and comparing each of them with each change of a VM would delay the VMs of others.
 */
export interface GroupIndex {
  update(change: Change<CachedGroup>): void
  /** The key of the group with this uid, if it is in the namespace of the VM. */
  owning(vm: Persisted<VirtualMachine>, uid: string): string | undefined
  /** The keys of the groups that could adopt the VM, which has no controller. */
  adopting(vm: Persisted<VirtualMachine>): readonly string[]
}

export function createGroupIndex(): GroupIndex {
  const keys = new Map<string, string>()
  const selecting = createCandidates<Selecting>([], [])
  return {
    update({ kind, object }) {
      const id = keyOf(object.metadata)
      if (kind === 'deleted') keys.delete(object.metadata.uid)
      else keys.set(object.metadata.uid, id)
      if (kind === 'deleted' || !isAdopting(object)) return selecting.delete(id)
      const { namespace = '' } = object.metadata
      const selector = compileStoredSelector(object.spec.selector)
      // An unchanged selector is the same object, also when the status changes ten times a second.
      if (selecting.get(id)?.selector === selector) return undefined
      return selecting.set({ id, namespace, selector, namespaceSelector: undefined })
    },
    owning({ metadata }, uid) {
      const key = keys.get(uid)
      return key !== undefined && refOf(key).namespace === metadata.namespace ? key : undefined
    },
    adopting({ metadata: { labels = {}, namespace = '' } }) {
      return selecting.select(labels, { name: namespace, labels: {} }).map(({ id }) => id)
    },
  }
}

/** The uids of the configs and groups of our kinds that control a VM, or did before the change. */
export function ownersOf(change: Change<VirtualMachine>): readonly string[] {
  const versions = change.kind === 'updated' ? [change.object, change.previous] : [change.object]
  const owners = versions.map(controllerOf).filter((owner) => owner !== undefined && isOwning(owner))
  return [...new Set(owners.map((owner) => owner?.uid ?? ''))]
}

/** Whether a group that selects the VM adopts it. */
export const isAdoptable = (vm: Persisted<VirtualMachine>): boolean =>
  controllerOf(vm) === undefined && !isFinished(vm) && vm.metadata.deletionTimestamp === undefined

/**
 * Whether groups must be asked to adopt the VM: they could, and it is new, or it had a controller or other labels
 * before.
 */
export function isToAdopt(change: Change<VirtualMachine>): boolean {
  if (change.kind === 'deleted' || !isAdoptable(change.object)) return false
  if (change.kind === 'added' || controllerOf(change.previous) !== undefined) return true
  return !isDeepStrictEqual(change.object.metadata.labels, change.previous.metadata.labels)
}
