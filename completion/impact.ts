import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../api/cause.ts'
import { completedByAnnotation, excludePresetsAnnotation, type VirtualMachine } from '../api/machine.ts'
import { renderCause } from '../api/refusal.ts'
import { isReservedKey } from '../api/reserved.ts'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import type { Labels } from '../presets/selector.ts'
import { asSent } from './claim.ts'
import type { Completed, Refused } from './complete.ts'
import { decodeProvenance } from './provenance.ts'

/** What becomes of a VM with other presets, where it does not come out as before. */
export type Impact =
  | { readonly kind: 'different'; readonly before: VirtualMachine; readonly after: VirtualMachine }
  /** Causes that it was not refused for before. */
  | { readonly kind: 'refused'; readonly causes: readonly Cause[] }
  /** It was refused before, and is no longer. */
  | { readonly kind: 'freed' }

/** Presets of now, and presets as they would be. */
export interface Alternatives {
  readonly before: Candidates
  readonly after: Candidates
}

/** Whether the two select the same presets for a VM, in the same revisions: then it need not be completed to know that nothing changes. */
export function isSameSelection({ before, after }: Alternatives, labels: Labels, namespace: Namespace): boolean {
  const selection = (presets: Pick<Candidates, 'select'>): string =>
    presets
      .select(labels, namespace)
      .map(({ id, mode, origin }) => `${id}@${origin.revision} ${mode}`)
      .toSorted()
      .join()
  return selection(before) === selection(after)
}

/**
 * Completes a VM with the presets of now and with the others. Whatever else decides is the same for both.
 * @param machine as its user wrote it (`asWritten`)
 * @returns undefined where it comes out as before
 */
export function impactOn(
  machine: VirtualMachine,
  namespace: Namespace,
  alternatives: Alternatives,
  completeWith: (presets: Candidates) => Completed | Refused,
): Impact | undefined {
  if (isSameSelection(alternatives, machine.metadata.labels ?? {}, namespace)) return undefined
  const before = completeWith(alternatives.before)
  const after = completeWith(alternatives.after)
  if (after.outcome === 'refused') {
    const known = new Set(before.outcome === 'refused' ? before.causes.map(causeText) : [])
    const causes = after.causes.filter((cause) => !known.has(causeText(cause)))
    return causes.length === 0 ? undefined : { kind: 'refused', causes }
  }
  if (before.outcome === 'refused') return { kind: 'freed' }
  if (isDeepStrictEqual(contentOf(before.machine), contentOf(after.machine))) return undefined
  return { kind: 'different', before: before.machine, after: after.machine }
}

const causeText = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`

/** What completion answers for, but for who put it there. */
function contentOf({ metadata: { labels = {}, annotations = {} }, spec }: VirtualMachine) {
  const { [completedByAnnotation]: _, ...others } = annotations
  return { labels, annotations: others, spec }
}

/** What the user of a completed VM wrote, as far as its provenance knows; what virtset holds of it is no user's. */
export function asWritten(machine: VirtualMachine): VirtualMachine {
  const { [completedByAnnotation]: claim, ...annotations } = machine.metadata.annotations ?? {}
  const provenance = claim === undefined ? undefined : decodeProvenance(claim)
  const { ownerReferences: _owners, ...metadata } = machine.metadata
  const bare = {
    ...machine,
    metadata: { ...metadata, annotations: unreserved(annotations), labels: unreserved(machine.metadata.labels ?? {}) },
  }
  return provenance === undefined ? bare : asSent(bare, provenance)
}

/** Without what virtset's controller wrote, on a VM of a config for one. */
const unreserved = (keys: Labels): Labels =>
  Object.fromEntries(Object.entries(keys).filter(([key]) => key === excludePresetsAnnotation || !isReservedKey(key)))
