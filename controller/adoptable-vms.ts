import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { compileStoredSelector, isSelected } from '../presets/selector.ts'
import { keyOf } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'
import { isAdoptable } from './group-index.ts'
import { isAdopting } from './slim-owner.ts'
import type { CachedGroup } from './slim-owner.ts'

type Vm = Persisted<VirtualMachine>

/**
 * The VMs that groups could adopt. A group is compared with all VMs without a controller when it is new or its selector
 * changes. Later passes read only those that the index of groups has found since: a tenant can have thousands of groups
 * and VMs, and a VM can concern all of these groups.
 */
interface AdoptableVms {
  /** The index has found the group with this key for a VM. */
  found(group: string, vm: Vm): void
  update(change: Change<CachedGroup>): void
  of(group: Persisted<CachedGroup>): readonly Vm[]
}

/** The VMs of the namespace without a controller, and a VM by its key. */
interface Vms {
  free(namespace: string | undefined): readonly Vm[]
  get(key: string): Vm | undefined
}

/** A group with more VMs is compared again: it adopts fewer in one pass. */
const maxNamesOfGroup = 256
/**
 * Of all groups together, for which each group counts as one more. The groups that have had no pass for the longest time
 * are compared again.
 */
const maxNames = 50_000

export function createAdoptableVms(vms: Vms, limit = maxNames): AdoptableVms {
  /** The names of VMs, which are the same strings as in the cached VMs, by the key of the group. */
  const stored = new LRUCache<string, Set<string>>({
    maxSize: limit,
    maxEntrySize: Math.min(limit, 1 + maxNamesOfGroup),
    sizeCalculation: ({ size }) => 1 + size,
  })
  return {
    found(group, vm) {
      const names = stored.peek(group)
      if (names === undefined) return
      // Counted only when it is stored anew.
      stored.delete(group)
      stored.set(group, names.add(vm.metadata.name))
    },
    update(change) {
      if (isToCompare(change)) stored.delete(keyOf(change.object.metadata))
    },
    of(group) {
      if (!isAdopting(group)) return []
      const { metadata } = group
      const key = keyOf(metadata)
      const known = stored.get(key)
      const from =
        known === undefined
          ? vms.free(metadata.namespace)
          : [...known].map((name) => vms.get(keyOf({ ...metadata, name })))
      const selector = compileStoredSelector(group.spec.selector)
      const found = from.filter(
        (vm) => vm !== undefined && isAdoptable(vm) && isSelected(selector, vm.metadata.labels ?? {}),
      ) as readonly Vm[]
      stored.set(key, new Set(found.map(({ metadata: { name } }) => name)))
      return found
    },
  }
}

/** Whether the index finds other VMs for the group than before. */
function isToCompare(change: Change<CachedGroup>): boolean {
  if (change.kind !== 'updated') return true
  const { object, previous } = change
  return isAdopting(object) !== isAdopting(previous) || !isDeepStrictEqual(object.spec.selector, previous.spec.selector)
}
