import { isDeepStrictEqual } from 'node:util'
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
  /** The index has found this group for a VM. Both are keys. */
  found(group: string, vm: string): void
  update(change: Change<CachedGroup>): void
  of(group: Persisted<CachedGroup>): readonly Vm[]
}

/** The VMs of the namespace without a controller, and a VM by its key. */
interface Vms {
  free(namespace: string | undefined): readonly Vm[]
  get(key: string): Vm | undefined
}

/** More are not stored, but compared again: a group adopts fewer in one pass. */
const maxStored = 256

export function createAdoptableVms(vms: Vms): AdoptableVms {
  const stored = new Map<string, Set<string>>()
  return {
    found(group, vm) {
      const keys = stored.get(group)
      keys?.add(vm)
      if (keys !== undefined && keys.size > maxStored) stored.delete(group)
    },
    update(change) {
      if (isToCompare(change)) stored.delete(keyOf(change.object.metadata))
    },
    of(group) {
      if (!isAdopting(group)) return []
      const key = keyOf(group.metadata)
      const known = stored.get(key)
      const from = known === undefined ? vms.free(group.metadata.namespace) : [...known].map((vm) => vms.get(vm))
      const selector = compileStoredSelector(group.spec.selector)
      const found = from.filter(
        (vm) => vm !== undefined && isAdoptable(vm) && isSelected(selector, vm.metadata.labels ?? {}),
      ) as readonly Vm[]
      if (found.length <= maxStored) stored.set(key, new Set(found.map(({ metadata }) => keyOf(metadata))))
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
