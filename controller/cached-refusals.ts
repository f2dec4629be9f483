import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Inventory } from '../inventory/inventory.ts'
import { pick } from '../runtime/slim.ts'
import type { Engine } from './engine.ts'

interface Cached<T> {
  readonly inputs: readonly unknown[]
  readonly result: T
}

/** Most VMs avoid no node, or the same nodes as others. */
const maxLists = 64

/**
 * An engine that caches the refusals of a VM, and the nodes that cannot run it, until it is deleted: each pass needs
 * the former until the VM has a pod, and each attempt to create the pod the latter. It computes refusals again when the
 * VM, the presets that select it, the capabilities of the nodes or the labels of its namespace change, and the nodes
 * when the spec or the capabilities change. The cache has no limit besides the number of VMs: with one, the VMs beyond it would be checked
 * again in each pass.
 */
export function cacheRefusals(engine: Engine, inventory: Inventory): Engine {
  const refusals = new Map<string, Cached<readonly Cause[]>>()
  const unfit = new Map<string, Cached<readonly string[]>>()
  const lists = new LRUCache<string, readonly string[]>({ max: maxLists })
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
      const cached = refusals.get(uid)
      if (cached !== undefined && isSame(cached.inputs, inputs)) return cached.result
      // A value can be as large as the VM, and no status shows it.
      const causes = engine.refusals(vm).map((cause) => pick(cause, 'rule', 'field', 'reason', 'message'))
      refusals.set(uid, { inputs, result: causes })
      return causes
    },
    unfitNodes(vm) {
      const { uid = '', generation } = vm.metadata
      const inputs = [generation, numberOf(inventory.capabilities())]
      const cached = unfit.get(uid)
      if (cached !== undefined && isSame(cached.inputs, inputs)) return cached.result
      const nodes = engine.unfitNodes(vm)
      const key = nodes.join()
      const result = lists.get(key) ?? nodes
      lists.set(key, result)
      unfit.set(uid, { inputs, result })
      return result
    },
    forget(uid) {
      refusals.delete(uid)
      unfit.delete(uid)
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
  const presets = inventory.candidates.select(labels, namespace)
  // Annotations can be large, and presets many: what a VM takes in memory must not depend on them.
  return [
    generation,
    hash('sha256', JSON.stringify([labels, annotations, ownerReferences, namespace.labels]), 'base64'),
    numberOf(inventory.capabilities()),
    hash('sha256', JSON.stringify(presets.map(({ id, origin }) => [id, origin.revision])), 'base64'),
  ]
}

const isSame = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((member, index) => member === other[index])
