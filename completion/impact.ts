import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../api/cause.ts'
import { completedByAnnotation, excludePresetsAnnotation, type VirtualMachine } from '../api/virtual-machine.ts'
import { renderCause } from '../api/refusal.ts'
import { isReservedKey } from '../api/reserved.ts'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import type { Subject } from '../presets/kind.ts'
import type { Labels } from '../presets/selector.ts'
import { asSent } from './reproduce.ts'
import type { Completed, Refused } from './complete.ts'
import { decodeProvenance } from './provenance.ts'

/** How the result for an object changes with different presets. */
export type Impact<T = VirtualMachine> =
  | { readonly kind: 'different'; readonly before: T; readonly after: T }
  /** Contains only new causes. */
  | { readonly kind: 'refused'; readonly causes: readonly Cause[] }
  /** It was refused before and is accepted now. */
  | { readonly kind: 'freed' }

/** The current presets, and those to compare them with. */
export interface Alternatives {
  readonly before: Candidates
  readonly after: Candidates
}

/**
 * Whether both select the same presets at the same revisions. If so, nothing changes, and the object need not be
 * completed.
 */
function isSameSelection({ before, after }: Alternatives, labels: Labels, namespace: Namespace): boolean {
  const selection = (presets: Pick<Candidates, 'select'>): string =>
    presets
      .select(labels, namespace)
      .map(({ id, mode, origin }) => `${id}@${origin.revision} ${mode}`)
      .toSorted()
      .join()
  return selection(before) === selection(after)
}

/**
 * Completes a VM with the current and with the other presets; everything else is equal.
 * @param vm as its user wrote it (`asWritten`)
 * @returns undefined if the result is the same
 */
export const impactOn = (
  vm: VirtualMachine,
  namespace: Namespace,
  alternatives: Alternatives,
  completeWith: (presets: Candidates) => Completed | Refused,
): Impact | undefined =>
  impactOnObject(vm, namespace, alternatives, (presets) => {
    const result = completeWith(presets)
    return result.outcome === 'refused' ? result : { outcome: 'completed', object: result.vm }
  })

/** As `impactOn`, for an object of any kind. */
export function impactOnObject<T extends Subject>(
  object: T,
  namespace: Namespace,
  alternatives: Alternatives,
  completeWith: (
    presets: Candidates,
  ) =>
    | { readonly outcome: 'completed'; readonly object: T }
    | { readonly outcome: 'refused'; readonly causes: readonly Cause[] },
): Impact<T> | undefined {
  if (isSameSelection(alternatives, object.metadata.labels ?? {}, namespace)) return undefined
  const before = completeWith(alternatives.before)
  const after = completeWith(alternatives.after)
  if (after.outcome === 'refused') {
    const known = new Set(before.outcome === 'refused' ? before.causes.map(causeText) : [])
    const causes = after.causes.filter((cause) => !known.has(causeText(cause)))
    return causes.length === 0 ? undefined : { kind: 'refused', causes }
  }
  if (before.outcome === 'refused') return { kind: 'freed' }
  if (isDeepStrictEqual(contentOf(before.object), contentOf(after.object))) return undefined
  return { kind: 'different', before: before.object, after: after.object }
}

const causeText = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`

/** The result of completion without the provenance. */
function contentOf({ metadata: { labels = {}, annotations = {} }, ...rest }: Subject) {
  const { [completedByAnnotation]: _, ...others } = annotations
  return { ...rest, labels, annotations: others }
}

/** What the user of a completed VM wrote, as far as its provenance records it, without virtset's own metadata. */
export function asWritten(vm: VirtualMachine): VirtualMachine {
  const { [completedByAnnotation]: claim, ...annotations } = vm.metadata.annotations ?? {}
  const provenance = claim === undefined ? undefined : decodeProvenance(claim)
  const { ownerReferences: _owners, ...metadata } = vm.metadata
  const bare = {
    ...vm,
    metadata: { ...metadata, annotations: unreserved(annotations), labels: unreserved(vm.metadata.labels ?? {}) },
  }
  return provenance === undefined ? bare : asSent(bare, provenance)
}

/** Removes labels or annotations that virtset's controller sets on the VM of a config. */
const unreserved = (keys: Labels): Labels =>
  Object.fromEntries(Object.entries(keys).filter(([key]) => key === excludePresetsAnnotation || !isReservedKey(key)))
