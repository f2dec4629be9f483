import { hash } from 'node:crypto'
import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Inventory } from '../inventory/inventory.ts'
import { pick } from '../runtime/slim.ts'
import type { Engine } from './engine.ts'

interface CachedRefusals {
  readonly inputs: readonly unknown[]
  readonly causes: readonly Cause[]
}

/**
 * An engine that caches the refusals of a VM until it is deleted: each pass needs them until the VM has a pod. It
 * computes them again when the VM, the presets that select it, the capabilities of the nodes or the labels of its
 * namespace change. The cache has no limit besides the number of VMs: with one, the VMs beyond it would be checked
 * again in each pass.
 */
export function cacheRefusals(engine: Engine, inventory: Inventory): Engine {
  const cache = new Map<string, CachedRefusals>()
  const numbers = new WeakMap<object, number>()
  let latest = 0
  const numberOf = (capabilities: object): number => {
    const number = numbers.get(capabilities) ?? ++latest
    numbers.set(capabilities, number)
    return number
  }
  return {
    ...engine,
    refusals(vm) {
      const { uid = '' } = vm.metadata
      const inputs = inputsOf(vm, inventory, numberOf)
      const cached = cache.get(uid)
      if (cached !== undefined && isSame(cached.inputs, inputs)) return cached.causes
      // A value can be as large as the VM, and no status shows it.
      const causes = engine.refusals(vm).map((cause) => pick(cause, 'rule', 'field', 'reason', 'message'))
      cache.set(uid, { inputs, causes })
      return causes
    },
    forget(uid) {
      cache.delete(uid)
      engine.forget(uid)
    },
  }
}

/**
 * The inputs of completion. Presets and capabilities are immutable, and stand here by revision and number: each VM would
 * otherwise keep all that it was checked with in memory.
 */
function inputsOf(
  { metadata }: VirtualMachine,
  inventory: Inventory,
  numberOf: (capabilities: object) => number,
): readonly unknown[] {
  const { namespace: name = '', generation, labels = {}, annotations = {}, ownerReferences } = metadata
  const namespace = inventory.namespace(name)
  return [
    generation,
    // Annotations can be large.
    hash('sha256', JSON.stringify([labels, annotations, ownerReferences, namespace.labels]), 'base64'),
    numberOf(inventory.capabilities()),
    ...inventory.candidates.select(labels, namespace).map(({ id, origin }) => `${id} ${origin.revision}`),
  ]
}

const isSame = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((member, index) => member === other[index])
