import { hash } from 'node:crypto'
import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Inventory } from '../inventory/inventory.ts'
import type { Engine } from './engine.ts'

interface Remembered {
  readonly circumstances: readonly unknown[]
  readonly causes: readonly Cause[]
}

/**
 * An engine that caches the refusals of a VM until it is deleted: each pass needs them until the VM has a pod. It
 * computes them again when the VM, the presets that select it, the capabilities of the nodes or the labels of its
 * namespace change. The cache has no limit besides the number of VMs: with one, the VMs beyond it would be checked again
 * in each pass.
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
      known.set(uid, { circumstances, causes })
      return causes
    },
    forget(uid) {
      known.delete(uid)
      engine.forget(uid)
    },
  }
}

/** The inputs of completion. Presets and capabilities are immutable objects, so identity implies equality. */
function circumstancesOf({ metadata }: VirtualMachine, inventory: Inventory): readonly unknown[] {
  const { namespace: name = '', generation, labels = {}, annotations = {}, ownerReferences } = metadata
  const namespace = inventory.namespace(name)
  return [
    generation,
    // Annotations can be large.
    hash('sha256', JSON.stringify([labels, annotations, ownerReferences, namespace.labels]), 'base64'),
    inventory.capabilities(),
    ...inventory.candidates.select(labels, namespace),
  ]
}

const isSame = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((member, index) => member === other[index])
