import type { Origin } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { unmetered } from '../api/steps.ts'
import type { CompiledPreset } from './compile.ts'
import type { Conflict, LongList, Merge } from './merge.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import type { LostValue, Provenance, Skipped } from './origins.ts'
import { pathText, rootPath } from './path.ts'
import { removePaths } from './remove.ts'
import type { Removal } from './remove.ts'
import type { Source } from './source.ts'
import { byUser, compareText, userRank } from './source.ts'
import type { ObjectStructure } from './structure.ts'
import type { Emitted, Granted } from './tree.ts'
import { emit, kept } from './tree.ts'
import { concernsVolumes, dropOrphans, pairVolumes, volumeNames } from './volumes.ts'

/** A VM and the presets that take part in it, made into one VM. */
export interface Settled extends Provenance {
  readonly machine: VirtualMachine
  readonly conflicts: readonly Conflict[]
  readonly longLists: readonly LongList[]
  readonly unsettled: readonly string[]
  /** Leaves whose value cluster presets state. */
  readonly granted: Granted
  readonly warnings: readonly string[]
}

/** @param presets all that take part, in any order */
export function settle(
  machine: VirtualMachine,
  presets: readonly CompiledPreset[],
  structure: ObjectStructure,
  steps = unmetered,
): Settled {
  if (presets.length === 0) return untouched(machine)
  const merge = emptyMerge(steps)
  const given: readonly Source[] = [
    { rank: userRank, origin: byUser, value: machine },
    ...presets.map(({ rank, origin, content }) => ({ rank, origin, value: content })),
  ]
  const isAboutVolumes = concernsVolumes(given)
  const { sources, warnings } = isAboutVolumes ? pairVolumes(structure, given, merge) : { sources: given, warnings: [] }
  const merged = mergeSources(structure, sources, rootPath, merge) ?? kept(machine)
  const removes = presets.flatMap((preset) =>
    preset.removes.map(({ steps }) => ({ preset, steps: [inSpec, ...steps] })),
  )
  const left = removes.length === 0 ? undefined : removePaths(merged, structure, rootPath, removes, steps)
  const node = left?.node ?? merged
  const isTaking = isAboutVolumes || presets.some(({ strength }) => strength === 'Enforce')
  const remaining = isTaking ? dropOrphans(node, structure, given) : node
  const emitted = emit(remaining, rootPath)
  const conflicts = [...merge.conflicts, ...(left?.conflicts ?? [])]
  return {
    // The structure is that of a VM, and what presets say was held against the same schema.
    machine: emitted.value as VirtualMachine,
    origins: emitted.origins,
    overridden: overriddenOf(emitted, merge),
    removed: removedOf(left?.removed ?? []),
    skipped: skippedOf(merge),
    conflicts,
    longLists: merge.longLists,
    unsettled: [...new Set([...conflicts, ...merge.longLists].map(({ path }) => pathText(path)))].toSorted(compareText),
    granted: emitted.granted,
    warnings: [...warnings, ...orphanWarnings(machine, emitted.value)].toSorted(compareText),
  }
}

/** `remove` paths begin below `spec`. */
const inSpec = { kind: 'key', key: 'spec' } as const

/** A volume of the user's own that went with the last disk that took it. */
function orphanWarnings({ spec }: VirtualMachine, value: unknown): string[] {
  const left = new Set(volumeNames(value))
  return (spec.volumes ?? [])
    .filter(({ name }) => !left.has(name))
    .map(({ name }) => `volume "${name}" goes, for no disk takes it any more`)
}

const untouched = (machine: VirtualMachine): Settled => ({
  machine,
  origins: new Map(),
  overridden: new Map(),
  removed: new Map(),
  skipped: [],
  conflicts: [],
  longLists: [],
  unsettled: [],
  granted: new Map(),
  warnings: [],
})

/** What lost to a stronger source, leaf by leaf, and what went with a union's other branch. */
function overriddenOf({ lost }: Emitted, { lostBranches }: Merge): ReadonlyMap<string, readonly LostValue[]> {
  const overridden = new Map<string, readonly LostValue[]>()
  const add = (path: string, { origin, value }: Source) =>
    overridden.set(path, [...(overridden.get(path) ?? []), { origin, value }])
  for (const [path, sources] of lost) for (const source of sources) add(path, source)
  for (const { path, source } of lostBranches) add(pathText(path), source)
  return overridden
}

const removedOf = (removals: readonly Removal[]): ReadonlyMap<string, Origin> =>
  new Map(removals.map(({ path, preset }) => [pathText(path), preset.origin]))

const skippedOf = ({ skipped }: Merge): readonly Skipped[] =>
  skipped
    .map(({ origin, path, reason }) => ({ origin, path: pathText(path), reason }))
    .toSorted((left, right) => compareText(JSON.stringify(left), JSON.stringify(right)))
