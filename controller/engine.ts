import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'

/** Completion with the caches that it needs; the same engine that the webhooks ask. */
export interface Engine {
  /** The whole VM, with its provenance in the annotation; or everything that is wrong with it. */
  complete(machine: VirtualMachine): { readonly machine: VirtualMachine } | { readonly causes: readonly Cause[] }
  /** Names of the presets that took part in completing it. */
  presetsOf(machine: VirtualMachine): readonly string[]
}
