import type { Cause, Origin } from '../api/cause.ts'
import { completedByAnnotation, parseMachine } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { unfitNodes } from '../completion/unfit.ts'
import { completeWith, ungrantedReachWith, type CreateRequest } from '../inventory/complete.ts'
import type { Inventory } from '../inventory/inventory.ts'

/** Completion with the caches that it needs; the same function that the webhooks ask. */
export interface Engine {
  /** The whole VM, with its provenance in the annotation; or everything that is wrong with it. */
  complete(machine: VirtualMachine): { readonly machine: VirtualMachine } | { readonly causes: readonly Cause[] }
  /**
   * Why a VM that says it was completed must not run: it is not a VM, or something in it reaches the host that nobody granted. Empty,
   * unless it was written while the webhooks were away, or a preset that granted was changed since.
   */
  refusals(machine: VirtualMachine): readonly Cause[]
  /** The presets that took part in completing a VM, by id; undefined for one that was never completed. */
  presetsOf(machine: VirtualMachine): ReadonlyMap<string, Revision> | undefined
  /** The nodes that cannot run a completed VM, though its placement allows them. */
  unfitNodes(machine: VirtualMachine): readonly string[]
}

/** The hash of a preset's content. */
export type Revision = string

/**
 * A VM that slipped past admission has had none of its checks: its shape is checked here first. Nobody is exempt from presets, since nobody's
 * right to be was asked for; identities are drawn from the VM's own uid.
 */
export function createEngine(inventory: Inventory): Engine {
  const requestOf = ({ metadata: { namespace = '', uid = '' } }: VirtualMachine): CreateRequest => ({ namespace, uid })
  return {
    complete(given) {
      const parsed = parseMachine(given)
      if ('causes' in parsed) return parsed
      const outcome = completeWith(inventory, given, requestOf(given))
      return outcome.outcome === 'refused' ? { causes: outcome.causes } : { machine: outcome.machine }
    },
    refusals(machine) {
      const parsed = parseMachine(machine)
      return 'causes' in parsed ? parsed.causes : ungrantedReachWith(inventory, machine, requestOf(machine))
    },
    unfitNodes: ({ spec }) => unfitNodes(spec, inventory.capabilities()),
    presetsOf({ metadata }) {
      const provenance = decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '')
      if (provenance === undefined) return undefined
      return new Map([...provenance.origins.values()].flatMap(presetOf))
    },
  }
}

function presetOf(origin: Origin): [string, Revision][] {
  if (origin.by !== 'preset') return []
  const { namespace, name, revision } = origin
  return [[namespace === undefined ? name : `${namespace}/${name}`, revision]]
}
