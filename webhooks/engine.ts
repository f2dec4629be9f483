import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Preset } from '../api/preset.ts'
import type { Review } from './review.ts'

/** What admission asks of completion and the presets; holds the caches, so that the verdicts stay pure. */
export interface Engine {
  /** The whole VM, with its provenance in the annotation. Same review, same answer. */
  complete(
    machine: VirtualMachine,
    review: Review,
  ):
    | { readonly machine: VirtualMachine; readonly warnings: readonly string[] }
    | { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
  /** Whether the user wrote the leaf at `path` of a stored VM, by its provenance. */
  isUsers(machine: VirtualMachine): (path: string) => boolean
  /** What is wrong with a preset beyond its shape. */
  checkPreset(preset: Preset): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
}
