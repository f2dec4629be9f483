import { sizeOf, within, type Steps } from '../api/steps.ts'
import { createMeanings, type Comparison } from './comparison.ts'
import type { CompiledPreset } from './compile.ts'
import type { Conflict } from './merge.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import { pathText, rootPath } from '../api/path.ts'
import { commonLabels, type Labels, type Selector } from './selector.ts'
import { compareText } from './source.ts'
import type { Structure } from './structure.ts'

/** Two presets that can match the same VM and would disagree on it. */
export interface Overlap {
  readonly other: CompiledPreset
  /** Leaves that both set to different values, and `exclusiveGroup` if both are in the same group. */
  readonly fields: readonly string[]
  /** Example labels of a VM that both select. */
  readonly labels: Labels
  /** Example labels of its namespace; empty if the selectors require none. */
  readonly namespaceLabels: Labels
  /** Whether CEL conditions might prevent both from matching the same VM. */
  readonly hasConditions: boolean
}

/** The overlaps found within the limits. */
export interface Overlaps {
  readonly overlaps: readonly Overlap[]
  /** False if there may be more. */
  readonly isComplete: boolean
}

/** The maximum number of values to compare, which takes about 50 ms. */
const maxSteps = 20_000

/**
 * Finds the presets among `others` that could disagree with a preset on some VM, whether or not such a VM exists.
 * Returns the first `most` by ID.
 */
export function findOverlaps(
  preset: CompiledPreset,
  others: Iterable<CompiledPreset>,
  structure: Structure,
  most = Infinity,
): Overlaps {
  const search = searchOverlaps(preset, others, structure, most)
  for (let next = search.next(); ; next = search.next()) if (next.done === true) return next.value
}

/** As `findOverlaps`, with a pause after each comparison. */
export function* searchOverlaps(
  preset: CompiledPreset,
  others: Iterable<CompiledPreset>,
  structure: Structure,
  most: number,
): Generator<undefined, Overlaps> {
  const overlaps: Overlap[] = []
  const comparable = [...others].filter((other) => isComparable(preset, other))
  const meanings = createMeanings()
  let left = maxSteps
  for (const other of comparable.toSorted((one, another) => compareText(one.id, another.id))) {
    const compare = (steps: Steps) => {
      const counted: Steps = {
        spend(count) {
          left -= count
          steps.spend(count)
        },
      }
      return { overlap: overlapOf(preset, other, structure, { steps: counted, meanings }) }
    }
    const compared = within(left, compare, () => undefined)
    const isTooMany = compared?.overlap !== undefined && overlaps.length === most
    if (compared === undefined || isTooMany) return { overlaps, isComplete: false }
    if (compared.overlap !== undefined) overlaps.push(compared.overlap)
    yield
  }
  return { overlaps, isComplete: true }
}

const isOneGroup = ({ exclusiveGroup }: CompiledPreset, other: CompiledPreset): boolean =>
  exclusiveGroup !== undefined && exclusiveGroup === other.exclusiveGroup

/**
 * Whether two presets can apply to the same VM with equal rank or in one group, as far as their names and ranks tell.
 */
function isComparable(preset: CompiledPreset, other: CompiledPreset): boolean {
  if (other.id === preset.id || preset.mode !== 'Apply' || other.mode !== 'Apply') return false
  if (preset.rank !== other.rank && !isOneGroup(preset, other)) return false
  return preset.namespace === undefined || other.namespace === undefined || preset.namespace === other.namespace
}

function overlapOf(
  preset: CompiledPreset,
  other: CompiledPreset,
  structure: Structure,
  by: Comparison,
): Overlap | undefined {
  const { steps } = by
  steps.spend(1)
  const namespaceRequirements = namespaceSelectors(preset, other)
  steps.spend(selectorSize([preset.selector, other.selector, ...namespaceRequirements]))
  const labels = commonLabels([preset.selector, other.selector])
  const namespaceLabels = commonLabels(namespaceRequirements)
  if (labels === undefined || namespaceLabels === undefined) return undefined
  const fields = [
    ...(isOneGroup(preset, other) ? ['exclusiveGroup'] : []),
    ...(preset.rank === other.rank ? disputed(preset, other, structure, by) : []),
  ]
  if (fields.length === 0) return undefined
  const hasConditions = preset.conditions.length + other.conditions.length > 0
  return { other, fields, labels, namespaceLabels, hasConditions }
}

const selectorSize = (selectors: readonly Selector[]): number =>
  selectors
    .flatMap(({ requirements }) => requirements)
    .reduce((size, { oneOf, noneOf }) => size + 1 + (oneOf?.size ?? 0) + (noneOf?.size ?? 0), 0)

/** A namespaced preset selects its namespace by the label that Kubernetes sets to the name of each namespace. */
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

/** The leaves on which two presets of one rank conflict, determined by merging them. */
function disputed(
  left: CompiledPreset,
  right: CompiledPreset,
  structure: Structure,
  { steps, meanings }: Comparison,
): readonly string[] {
  steps.spend(sizeOf(left.content) + sizeOf(right.content))
  const merge = emptyMerge(steps, meanings)
  const sources = [left, right].map(({ rank, origin, content }) => ({ rank, origin, value: content }))
  mergeSources(structure, sources, rootPath, merge)
  return [...new Set(merge.conflicts.map(({ path }: Conflict) => pathText(path)))].toSorted(compareText)
}

export const overlapWarning = (overlap: Overlap): string => overlapText(overlap, 'VM')

/** @param noun what to call an object that both select */
export function overlapText({ other, fields, labels, namespaceLabels, hasConditions }: Overlap, noun: string): string {
  const shown = [labels, namespaceLabels]
    .flatMap((set) => Object.entries(set))
    .map(([key, value]) => `${key}=${value}`)
    .join(',')
  const more = fields.length > 1 ? ` and ${fields.length - 1} more` : ''
  const unless = hasConditions ? ' (unless their conditions exclude each other)' : ''
  return `disagrees with preset "${other.id}" on ${fields[0]}${more}, e.g. on a ${noun} with labels {${shown}}${unless}`
}
