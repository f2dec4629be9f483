import type { Origin } from '../api/cause.ts'
import { stepsOfPath, unmetered, type Steps } from '../api/steps.ts'
import type { CompiledPreset } from './compile.ts'
import type { Kind, Subject } from './kind.ts'
import type { Conflict, LongList, Merge } from './merge.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import type { LostValue, Provenance, Skipped } from './origins.ts'
import { pathText, rootPath, type Path } from '../api/path.ts'
import { contentWithout, removesLabel } from './owned-labels.ts'
import { removePaths } from './remove.ts'
import type { Removal } from './remove.ts'
import type { Source } from './source.ts'
import { byUser, compareText, filledIn, isUser, lowestRank, userRank } from './source.ts'
import type { Emitted, Granted, Node, ShortenedList } from './tree.ts'
import { emit, unchanged, withoutCluster } from './tree.ts'
import { concernsVolumes, dropOrphans, pairVolumes, volumeNames } from './volumes.ts'

/** The result of merging an object with the presets that apply to it. */
export interface Settled extends Provenance {
  readonly object: Subject
  /** Lists from which items of the user are missing, by path. */
  readonly shortened: ReadonlyMap<string, ShortenedList>
  readonly conflicts: readonly Conflict[]
  readonly longLists: readonly LongList[]
  readonly unsettled: readonly string[]
  readonly granted: Granted
  /**
   * Lists with an item of which presets of the namespace removed a part, and items with a source that lost one, or that
   * source if it is in no list, by path.
   */
  readonly cut: ReadonlySet<string>
  readonly warnings: readonly string[]
}

/** @param presets all that apply, in any order */
export function settle(object: Subject, presets: readonly CompiledPreset[], kind: Kind, steps = unmetered): Settled {
  if (presets.length === 0) return untouched(kind.below ?? object)
  const { node, merge, left, warnings } = mergeAll(object, presets, presets, kind, steps)
  const { pairsVolumes } = kind
  const emitted = emit(node, rootPath, steps)
  const conflicts = [...merge.conflicts, ...(left?.conflicts ?? [])]
  return {
    // The structure is that of the object's kind, and the content of presets was checked against it.
    object: emitted.value as Subject,
    origins: emitted.origins,
    overridden: overriddenOf(emitted, merge, steps),
    removed: removedOf(left?.removed ?? [], steps),
    shortened: emitted.shortened,
    skipped: skippedOf(merge, steps),
    conflicts,
    longLists: merge.longLists,
    unsettled: [...new Set([...conflicts, ...merge.longLists].map(({ path }) => pathText(path)))].toSorted(compareText),
    granted: emitted.granted,
    cut: cutLists(node, left?.removed ?? [], steps),
    warnings: [...warnings, ...(pairsVolumes ? orphanWarnings(object, emitted.value) : [])].toSorted(compareText),
  }
}

/**
 * The part of the merged object that the user and the presets of the namespace state. An index in `remove` counts the
 * items of all presets, so it names another item if the presets of the namespace are merged alone.
 */
export function settledWithoutCluster(
  object: Subject,
  presets: readonly CompiledPreset[],
  kind: Kind,
  steps: Steps,
): Subject {
  const removing = presets.filter(({ namespace }) => namespace !== undefined)
  const left = withoutCluster(mergeAll(object, presets, removing, kind, steps).node)
  // Each object has metadata and a spec, which the user states.
  return (left === undefined ? object : emit(left, rootPath, steps).value) as Subject
}

/** @param removing those of `presets` whose `remove` paths apply */
function mergeAll(
  object: Subject,
  presets: readonly CompiledPreset[],
  removing: readonly CompiledPreset[],
  { structure, removesBelow, pairsVolumes, kept, below }: Kind,
  steps: Steps,
) {
  const merge = emptyMerge(steps)
  const given: readonly Source[] = [
    { rank: userRank, origin: byUser, value: object },
    ...presets.map(({ rank, origin, content }) => ({ rank, origin, value: contentWithout(content, kept) })),
    ...(below === undefined ? [] : [{ rank: lowestRank, origin: filledIn, value: below }]),
  ]
  const isAboutVolumes = pairsVolumes && concernsVolumes(given)
  const { sources, warnings } = isAboutVolumes ? pairVolumes(structure, given, merge) : { sources: given, warnings: [] }
  const merged = mergeSources(structure, sources, rootPath, merge) ?? unchanged(object)
  const above = removesBelow.map((key) => ({ kind: 'key', key }) as const)
  const removes = removing.flatMap((preset) =>
    preset.removes
      .filter((path) => !removesLabel(path, kept))
      .map(({ steps }) => ({ preset, steps: [...above, ...steps] })),
  )
  const left = removes.length === 0 ? undefined : removePaths(merged, structure, rootPath, removes, steps)
  const remaining = left?.node ?? merged
  const isTaking = isAboutVolumes || (pairsVolumes && presets.some(({ strength }) => strength === 'Enforce'))
  const node = isTaking ? dropOrphans(remaining, structure, given) : remaining
  return { node, merge, left, warnings }
}

/** Warns of the user's volumes that were removed with the last disk that used them. */
function orphanWarnings(given: Subject, value: unknown): string[] {
  const left = new Set(volumeNames(value))
  return volumeNames(given)
    .filter((name) => !left.has(name))
    .map((name) => `volume "${name}" is removed because no disk uses it any more`)
}

const untouched = (object: Subject): Settled => ({
  object,
  origins: new Map(),
  overridden: new Map(),
  removed: new Map(),
  cut: new Set(),
  shortened: new Map(),
  skipped: [],
  conflicts: [],
  longLists: [],
  unsettled: [],
  granted: { stated: new Map(), overruled: new Map() },
  warnings: [],
})

/** For each leaf, the strongest value that lost and the user's; also the user's values in whose place is no leaf. */
function overriddenOf(
  { lost }: Emitted,
  { lostParts }: Merge,
  steps: Steps,
): ReadonlyMap<string, readonly LostValue[]> {
  const overridden = new Map<string, LostValue[]>()
  for (const [path, sources] of lost) {
    steps.spend(sources.length)
    const [strongest, ...others] = sources
    const shown = [strongest, others.find(isUser)].filter((source) => source !== undefined)
    overridden.set(
      path,
      shown.map(({ origin, value }) => ({ origin, value })),
    )
  }
  for (const { path, source } of lostParts) {
    const { origin, value } = source
    overridden.set(pathText(path), [{ origin, value }])
  }
  return overridden
}

const removedOf = (removals: readonly Removal[], steps: Steps): ReadonlyMap<string, Origin> =>
  new Map(
    removals.map(({ path, preset }) => {
      const text = pathText(path)
      steps.spend(stepsOfPath(text))
      return [text, preset.origin]
    }),
  )

/** Whole items are gone. The paths in `removed` do not tell, because items that follow get the indexes of those. */
function cutLists(node: Node, removals: readonly Removal[], steps: Steps): ReadonlySet<string> {
  const cut = new Set<string>()
  const own = removals.filter(({ preset }) => preset.namespace !== undefined)
  if (own.length === 0) return cut
  /** The items by their path before removals, with their index after them. */
  const remaining = new Map<Path, number>()
  const visit = (at: Node): void => {
    steps.spend(1)
    if (at.kind === 'object') for (const entry of at.entries.values()) visit(entry)
    if (at.kind !== 'list') return
    for (const [index, item] of at.items.entries()) {
      remaining.set(item.path, index)
      visit(item.node)
    }
  }
  visit(node)
  for (const { path } of own) {
    let isOfSource = false
    let alone: Path | undefined
    for (let at = path; at.parent !== undefined; at = at.parent) {
      steps.spend(1)
      if (at.key === 'source' || at.key === 'sources' || at.key === 'log') {
        isOfSource = true
        alone = at
      }
      if (typeof at.key === 'number') alone = undefined
      const index = remaining.get(at)
      if (index === undefined) continue
      const list = pathText(at.parent)
      cut.add(list)
      if (isOfSource) cut.add(`${list}[${index}]`)
    }
    if (alone !== undefined) cut.add(pathText(alone))
  }
  return cut
}

/** More would not fit into the provenance annotation. */
const maxSkipped = 256

function skippedOf({ skipped }: Merge, steps: Steps): readonly Skipped[] {
  steps.spend(skipped.length)
  return skipped
    .slice(0, maxSkipped)
    .map(({ origin, path, reason }) => ({ origin, path: pathText(path), reason }))
    .map((skip) => ({ skip, text: JSON.stringify(skip) }))
    .toSorted((left, right) => compareText(left.text, right.text))
    .map(({ skip }) => skip)
}
