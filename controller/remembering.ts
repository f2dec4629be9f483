import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Inventory } from '../inventory/inventory.ts'
import type { Engine } from './engine.ts'

/** More VMs do not wait at once in a working cluster. The oldest is forgotten first, and is then completed again. */
const maxRemembered = 1000

interface Remembered {
  readonly circumstances: readonly unknown[]
  readonly causes: readonly Cause[]
}

/**
 * An engine that caches the refusals of a waiting VM, which each round needs until the VM has a pod. It computes them
 * again when the VM, the presets that select it, the capabilities of the nodes or the labels of its namespace change.
 */
export function remembering(engine: Engine, inventory: Inventory): Engine {
  const known = new Map<string, Remembered>()
  return {
    ...engine,
    refusals(vm) {
      const { uid = '' } = vm.metadata
      const circumstances = circumstancesOf(vm, inventory)
      const remembered = known.get(uid)
      if (remembered !== undefined && isSame(remembered.circumstances, circumstances)) return remembered.causes
      const causes = engine.refusals(vm)
      known.delete(uid)
      known.set(uid, { circumstances, causes })
      for (const oldest of known.keys()) {
        if (known.size <= maxRemembered) break
        known.delete(oldest)
      }
      return causes
    },
  }
}

/** The inputs of completion. Presets and capabilities are immutable objects, so identity implies equality. */
function circumstancesOf({ metadata }: VirtualMachine, inventory: Inventory): readonly unknown[] {
  const { namespace: name = '', generation, labels = {}, annotations = {} } = metadata
  const namespace = inventory.namespace(name)
  return [
    generation,
    JSON.stringify([labels, annotations, metadata.ownerReferences, namespace.labels]),
    inventory.capabilities(),
    ...inventory.candidates.select(labels, namespace),
  ]
}

const isSame = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((member, index) => member === other[index])
