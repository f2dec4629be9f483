import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Inventory } from '../inventory/inventory.ts'
import type { Engine } from './engine.ts'

/** More VMs do not wait at once in a cluster that works. The oldest is forgotten first, and only costs its completion again. */
const maxRemembered = 1000

interface Remembered {
  readonly circumstances: readonly unknown[]
  readonly causes: readonly Cause[]
}

/**
 * An engine that does not check again what a waiting VM reaches, in each round until it has a pod. It does when the VM changes, when other
 * presets select it or they have another revision, and when what the nodes can do or the labels of its namespace change.
 */
export function remembering(engine: Engine, inventory: Inventory): Engine {
  const known = new Map<string, Remembered>()
  return {
    ...engine,
    refusals(machine) {
      const { uid = '' } = machine.metadata
      const circumstances = circumstancesOf(machine, inventory)
      const remembered = known.get(uid)
      if (remembered !== undefined && isSame(remembered.circumstances, circumstances)) return remembered.causes
      const causes = engine.refusals(machine)
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

/** What completion depends on. Presets and capabilities are the objects of one revision: the same object says the same. */
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
