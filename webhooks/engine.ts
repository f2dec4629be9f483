import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Preset } from '../api/preset.ts'
import type { Review } from './review.ts'

/** What admission asks of completion and the presets; holds the caches, so that the verdicts stay pure. */
export interface Engine {
  /**
   * What the user of a review may do beyond the ordinary; asked of the API server where the review needs it. Undefined where it
   * does not, as is usual: then nobody waits.
   */
  permissions(review: Review): Promise<Permissions> | undefined
  /** The whole VM, with its provenance in the annotation. Same review, same answer. */
  complete(
    machine: VirtualMachine,
    review: Review,
    permissions: Permissions,
  ):
    | { readonly machine: VirtualMachine; readonly warnings: readonly string[] }
    | { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
  /** Whether the user wrote the leaf at `path` of a stored VM, by its provenance. */
  isUsers(machine: VirtualMachine): (path: string) => boolean
  /** What is wrong with a preset beyond its shape. */
  checkPreset(
    preset: Preset,
    permissions: Permissions,
  ): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
}

export interface Permissions {
  /** Ids of presets that the user may be exempt from. */
  readonly exempt: ReadonlySet<string>
  /** Whether the user may write a preset that grants what reaches the host. */
  readonly mayGrantHost: boolean
}

export const noPermissions: Permissions = { exempt: new Set(), mayGrantHost: false }
