import { sizeOf, within, type Steps } from '../api/steps.ts'
import type { CompiledPreset } from './compile.ts'
import type { Conflict } from './merge.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import { pathText, rootPath } from '../api/path.ts'
import { commonLabels, type Labels, type Selector } from './selector.ts'
import { compareText } from './source.ts'
import type { Structure } from './structure.ts'

/** Two presets that can take part in one VM and would disagree there. */
export interface Overlap {
  readonly other: CompiledPreset
  /** Leaves that both state, differently; `exclusiveGroup` where that is what keeps them apart. */
  readonly fields: readonly string[]
  /** Labels of a VM that both select. */
  readonly labels: Labels
  /** Labels of its namespace, where their selectors ask for some. */
  readonly namespaceLabels: Labels
  /** Whether CEL conditions might yet keep them apart. */
  readonly hasConditions: boolean
}

/** What was found, as far as the limits allowed. */
export interface Overlaps {
  readonly overlaps: readonly Overlap[]
  /** False: there may be more. */
  readonly isComplete: boolean
}

/** Values of presets that are compared: about a quarter of a second. */
const maxSteps = 50_000

/**
 * With which of `others` a preset could disagree on some VM, whether or not such a VM exists: the first `most` by their
 * id.
 */
export function findOverlaps(
  preset: CompiledPreset,
  others: Iterable<CompiledPreset>,
  structure: Structure,
  most = Infinity,
): Overlaps {
  const overlaps: Overlap[] = []
  const search = (steps: Steps): boolean => {
    for (const other of [...others].toSorted((left, right) => compareText(left.id, right.id))) {
      const overlap = overlapOf(preset, other, structure, steps)
      if (overlap === undefined) continue
      if (overlaps.length === most) return false
      overlaps.push(overlap)
    }
    return true
  }
  const isComplete = within(maxSteps, search, () => false)
  return { overlaps, isComplete }
}

function overlapOf(
  preset: CompiledPreset,
  other: CompiledPreset,
  structure: Structure,
  steps: Steps,
): Overlap | undefined {
  steps.spend(1)
  if (other.id === preset.id || preset.mode !== 'Apply' || other.mode !== 'Apply') return undefined
  const isOneGroup = preset.exclusiveGroup !== undefined && preset.exclusiveGroup === other.exclusiveGroup
  if (preset.rank !== other.rank && !isOneGroup) return undefined
  if (preset.namespace !== undefined && other.namespace !== undefined && preset.namespace !== other.namespace) {
    return undefined
  }
  const namespaceRequirements = namespaceSelectors(preset, other)
  steps.spend(selectorSize([preset.selector, other.selector, ...namespaceRequirements]))
  const labels = commonLabels([preset.selector, other.selector])
  const namespaceLabels = commonLabels(namespaceRequirements)
  if (labels === undefined || namespaceLabels === undefined) return undefined
  const fields = [
    ...(isOneGroup ? ['exclusiveGroup'] : []),
    ...(preset.rank === other.rank ? disputed(preset, other, structure, steps) : []),
  ]
  if (fields.length === 0) return undefined
  const hasConditions = preset.conditions.length + other.conditions.length > 0
  return { other, fields, labels, namespaceLabels, hasConditions }
}

const selectorSize = (selectors: readonly Selector[]): number =>
  selectors
    .flatMap(({ requirements }) => requirements)
    .reduce((size, { oneOf, noneOf }) => size + 1 + (oneOf?.size ?? 0) + (noneOf?.size ?? 0), 0)

/** A namespaced preset is in the one namespace that Kubernetes labels with its name. */
const namespaceSelectors = (...presets: readonly CompiledPreset[]): Selector[] =>
  presets.flatMap(({ namespace, namespaceSelector }): Selector[] => [
    ...(namespace === undefined
      ? []
      : [
          {
            requirements: [{ key: 'kubernetes.io/metadata.name', oneOf: new Set([namespace]), presence: 'must' }],
          } satisfies Selector,
        ]),
    ...(namespaceSelector === undefined ? [] : [namespaceSelector]),
  ])

/** The leaves on which two presets of one rank disagree, as the merge itself finds them. */
function disputed(left: CompiledPreset, right: CompiledPreset, structure: Structure, steps: Steps): readonly string[] {
  steps.spend(sizeOf(left.content) + sizeOf(right.content))
  const merge = emptyMerge(steps)
  const sources = [left, right].map(({ rank, origin, content }) => ({ rank, origin, value: content }))
  mergeSources(structure, sources, rootPath, merge)
  return [...new Set(merge.conflicts.map(({ path }: Conflict) => pathText(path)))].toSorted(compareText)
}

export function overlapWarning({ other, fields, labels, namespaceLabels, hasConditions }: Overlap): string {
  const shown = [labels, namespaceLabels]
    .flatMap((set) => Object.entries(set))
    .map(([key, value]) => `${key}=${value}`)
    .join(',')
  const more = fields.length > 1 ? ` and ${fields.length - 1} more` : ''
  const unless = hasConditions ? ' (unless their conditions exclude each other)' : ''
  return `disagrees with preset "${other.id}" on ${fields[0]}${more}, e.g. on a VM with labels {${shown}}${unless}`
}
