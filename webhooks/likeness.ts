import { completedByAnnotation, excludePresetsAnnotation } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { completeAlike, likenessOf, mayHaveLike } from '../completion/alike.ts'
import { complete } from '../completion/complete.ts'
import type { Completed, CompleteOptions, Refused } from '../completion/complete.ts'
import { selects } from '../presets/candidates.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'

/** A fleet is made of a few kinds of VMs. Each takes some 40 KB of heap. */
const maxKept = 256
/** Of a likeness: larger VMs are rare, and have no like. */
const maxCharacters = 64 * 1024

export interface LikenessOptions extends CompleteOptions {
  readonly quarantined: readonly QuarantinedPreset[]
}

/**
 * `complete`, done once for all VMs that are alike: the replicas of a group, the starts of a config, what is tried by dry run and then applied. They differ in
 * name and identity only. Nothing goes stale: what was completed stands for others as long as the very same revisions of presets match.
 * @param onAlike told of each that was not completed anew
 */
export function createLikenesses(
  onAlike = () => {},
): (machine: VirtualMachine, options: LikenessOptions) => Completed | Refused {
  const kept = new Map<string, { readonly completed: Completed; readonly circumstances: ReadonlySet<unknown> }>()
  return (machine, options) => {
    const circumstances = circumstancesOf(machine, options)
    const likeness = likenessOf(machine)
    const isLikeNone = circumstances === undefined || likeness === undefined || likeness.length > maxCharacters
    if (isLikeNone) return complete(machine, options)
    const key = `${options.namespace.name} ${likeness}`
    const known = kept.get(key)
    kept.delete(key)
    if (known?.circumstances.symmetricDifference(circumstances).size === 0) {
      kept.set(key, known)
      onAlike()
      return completeAlike(known.completed, machine, options)
    }
    const completed = complete(machine, options)
    if (completed.outcome === 'completed' && mayHaveLike(completed)) kept.set(key, { completed, circumstances })
    const [oldest] = kept.keys()
    if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest)
    return completed
  }
}

/**
 * What, beside the VM itself, its completion depends on: the capabilities and the presets that match, each the object of one revision. Undefined where it
 * depends on more: on who asks, on what presets' conditions see, on what another completion claims.
 */
function circumstancesOf({ metadata }: VirtualMachine, options: LikenessOptions): ReadonlySet<unknown> | undefined {
  const { labels = {}, annotations = {} } = metadata
  const { presets, quarantined, namespace, capabilities, without = [] } = options
  if (annotations[completedByAnnotation] !== undefined || annotations[excludePresetsAnnotation] !== undefined)
    return undefined
  const isTold = ({ selector, ...scope }: QuarantinedPreset) =>
    selector !== undefined && selects({ ...scope, selector }, labels, namespace)
  if (without.length > 0 || quarantined.some(isTold)) return undefined
  const matching = presets.select(labels, namespace)
  return matching.some(({ conditions }) => conditions.length > 0) ? undefined : new Set([capabilities, ...matching])
}
