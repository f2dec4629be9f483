import type { Cause } from '../api/cause.ts'
import { listCauses, noCauses, report } from '../api/causes.ts'
import { isRecord } from '../api/schema.ts'
import { firstWarnings } from './abridge.ts'
import type { Candidates, Namespace } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import { createBudget } from './condition-budget.ts'
import { excludePresets, exclusionWarnings } from './exclude.ts'
import type { Kind, Subject } from './kind.ts'
import { conditionCause, conditionInput, matchConditions, type Failure } from './match.ts'
import type { RemovePath } from './remove-path.ts'
import type { Labels } from './selector.ts'
import { compareText } from './source.ts'

/** The presets that apply to an object. */
export interface Participation {
  /** Presets of every mode that match the object as its user sent it, strongest first. */
  readonly matching: readonly CompiledPreset[]
  /** Cluster presets with strength Enforce that match only after the presets of the namespace are applied. */
  readonly late: readonly CompiledPreset[]
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
  /** The number of presets that were tested, to count the work. */
  readonly tested: number
}

export interface ParticipationOptions {
  readonly presets: Pick<Candidates, 'select'>
  readonly namespace: Namespace
  readonly request: unknown
  readonly exempt: ReadonlySet<string>
  readonly kind: Pick<Kind, 'noun'>
  /** Returns the object with these presets applied. */
  readonly apply: (object: Subject, presets: readonly CompiledPreset[]) => Subject
}

/**
 * Determines the presets that apply to an object. A cluster preset with strength Enforce applies if it matches it
 * either as it was sent or with the presets of its namespace applied. Otherwise, these could add something that the
 * cluster preset restricts after it was tested. Cluster presets do not make other presets match.
 */
export function participationIn(object: Subject, options: ParticipationOptions): Participation {
  const first = matchesOf(object, object, options)
  const namespaced = first.matching.filter(({ namespace, mode }) => namespace !== undefined && mode === 'Apply')
  const known = new Set([...first.matching, ...first.failed])
  const isLate = (preset: CompiledPreset): boolean =>
    preset.namespace === undefined && preset.strength === 'Enforce' && preset.mode === 'Apply' && !known.has(preset)
  const labels = labelsWith(namespaced, object, options.apply)
  // Few VMs have late presets, and applying the presets of the namespace is half of the work.
  const isPossible = namespaced.length > 0 && options.presets.select(labels, options.namespace).some(isLate)
  const warnings = (exclusion: Parameters<typeof exclusionWarnings>[0]) => [
    ...exclusionWarnings(exclusion, options.kind.noun),
    ...first.warnings,
  ]
  if (!isPossible) return { ...first, late: [], warnings: warnings(first), tested: first.remaining.length }
  const second = matchesOf(options.apply(object, namespaced), object, options, isLate)
  return {
    matching: first.matching,
    late: second.matching,
    causes: [...first.causes, ...second.causes],
    warnings: warnings({
      refused: [...first.refused, ...second.refused],
      idle: first.idle.intersection(second.idle),
    }),
    tested: first.remaining.length + second.remaining.length,
  }
}

function labelsWith(
  presets: readonly CompiledPreset[],
  { metadata }: Subject,
  apply: ParticipationOptions['apply'],
): Labels {
  const labelling = presets.filter((preset) => setsLabels(preset) || preset.removes.some(isBelowMetadata))
  if (labelling.length === 0) return metadata.labels ?? {}
  const contents = labelling.map((preset) => ({
    ...preset,
    content: { metadata: preset.content.metadata },
    removes: preset.removes.filter(isBelowMetadata),
  }))
  return apply({ metadata }, contents).metadata.labels ?? {}
}

const setsLabels = ({ content: { metadata } }: CompiledPreset): boolean =>
  isRecord(metadata) && Object.hasOwn(metadata, 'labels')

/** Only of a preset for objects: what a preset for VMs removes is below `spec`, which has no metadata. */
const isBelowMetadata = ({ steps: [first] }: RemovePath): boolean => first?.kind === 'key' && first.key === 'metadata'

/** @param sent the object as its user sent it; its annotations decide which presets it excludes */
function matchesOf(
  object: Subject,
  sent: Subject,
  { presets, namespace, request, exempt }: ParticipationOptions,
  isTested: (preset: CompiledPreset) => boolean = () => true,
) {
  const selected = presets
    .select(object.metadata.labels ?? {}, namespace)
    .filter(isTested)
    .toSorted(comparePresets)
  const exclusion = excludePresets(sent.metadata.annotations, selected, exempt)
  return { ...exclusion, ...decideConditions(exclusion.remaining, conditionInput(object, namespace, request)) }
}

const comparePresets = (left: CompiledPreset, right: CompiledPreset): number =>
  right.rank - left.rank || compareText(left.id, right.id)

function decideConditions(presets: readonly CompiledPreset[], input: ReturnType<typeof conditionInput>) {
  const budget = createBudget()
  const matching: CompiledPreset[] = []
  const failed: CompiledPreset[] = []
  const causes = noCauses()
  const leftOut: { readonly id: string; readonly failure: Failure }[] = []
  for (const preset of presets) {
    const match = matchConditions(preset, input, budget)
    if (match.outcome === 'matches') matching.push(preset)
    if (match.outcome !== 'failed') continue
    failed.push(preset)
    if (preset.strength === 'Enforce' && preset.mode === 'Apply') report(causes, () => conditionCause(preset, match))
    else leftOut.push({ id: preset.id, failure: match })
  }
  const warnings = firstWarnings(
    leftOut,
    ({ id, failure: { condition, error } }) =>
      `preset "${id}" left out: condition "${condition}" cannot be evaluated: ${error}`,
    (count) => `${count} more presets left out: their conditions cannot be evaluated`,
  )
  return { matching, failed, causes: listCauses(causes, 'metadata'), warnings }
}
