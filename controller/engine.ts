import { LRUCache } from 'lru-cache'
import type { Cause, Origin } from '../api/cause.ts'
import { completedByAnnotation, parseVirtualMachine } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { unfitNodes } from '../completion/unfit.ts'
import { completeWith, ungrantedReachWith, type CreateRequest } from '../inventory/complete.ts'
import type { Inventory } from '../inventory/inventory.ts'
import type { CachedVm, Revision } from './slim-vm.ts'

/** Completion with the caches that it needs; the webhooks use the same function. */
export interface Engine {
  /** The whole VM, with its provenance in the annotation; or everything that is wrong with it. */
  complete(vm: VirtualMachine): { readonly vm: VirtualMachine } | { readonly causes: readonly Cause[] }
  /**
   * Why a VM whose annotation states that it was completed must not run: it is invalid, or it reaches the host without
   * a grant. Empty, unless it was written while the webhooks were unavailable, or a preset that granted was changed
   * since.
   */
  refusals(vm: VirtualMachine): readonly Cause[]
  /** The presets that took part in completing a VM, by id; undefined for one that was never completed. */
  presetsOf(vm: CachedVm): ReadonlyMap<string, Revision> | undefined
  /** The nodes that cannot run a completed VM, though its placement allows them. */
  unfitNodes(vm: VirtualMachine): readonly string[]
  /** Releases what is cached about a VM that was deleted. */
  forget(uid: string): void
}

/** A VM has the same provenance in all of its events, and so have similar VMs. At most 2 MiB of text. */
const mostDecoded = 64

/**
 * A VM that bypassed admission has had none of its checks, so its shape is checked here first. No exemption from
 * presets applies, since no user's permission was checked; identities are derived from the VM's own uid.
 */
export function createEngine(inventory: Inventory): Engine {
  const decoded = new LRUCache<string, ReadonlyMap<string, Revision>>({ max: mostDecoded })
  const requestOf = ({ metadata: { namespace = '', uid = '' } }: VirtualMachine): CreateRequest => ({ namespace, uid })
  return {
    complete(given) {
      const parsed = parseVirtualMachine(given)
      if ('causes' in parsed) return parsed
      const outcome = completeWith(inventory, given, requestOf(given))
      return outcome.outcome === 'refused' ? { causes: outcome.causes } : { vm: outcome.vm }
    },
    refusals(vm) {
      const parsed = parseVirtualMachine(vm)
      return 'causes' in parsed ? parsed.causes : ungrantedReachWith(inventory, vm, requestOf(vm))
    },
    unfitNodes: ({ spec }) => unfitNodes(spec, inventory.capabilities()),
    forget() {},
    presetsOf({ metadata, presets }) {
      if (presets !== undefined) return presets
      const text = metadata.annotations?.[completedByAnnotation] ?? ''
      const cached = decoded.get(text)
      if (cached !== undefined) return cached
      const provenance = decodeProvenance(text)
      if (provenance === undefined) return undefined
      const found = new Map([...provenance.origins.values()].flatMap(presetOf))
      decoded.set(text, found)
      return found
    },
  }
}

function presetOf(origin: Origin): [string, Revision][] {
  if (origin.by !== 'preset') return []
  const { namespace, name, revision } = origin
  return [[namespace === undefined ? name : `${namespace}/${name}`, revision]]
}
