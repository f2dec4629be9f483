import { setImmediate } from 'node:timers/promises'
import { shorten } from '../api/shorten.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { createOverlapIndex } from '../presets/overlap-index.ts'
import { overlapWarning, searchOverlaps } from '../presets/overlap.ts'
import type { Overlap } from '../presets/overlap.ts'
import type { Structure } from '../presets/structure.ts'
import { refOf } from '../runtime/resource.ts'

/** The presets that could conflict about a VM. Cached and indexed: comparing all pairs would cost too much. */
interface Overlaps {
  /** Records the change or deletion of the preset with this id. Costs little, and must precede each `change`. */
  update(id: string): void
  /**
   * Compares the preset with this id again, after its change or deletion; one comparison takes up to some hundredths of
   * a second, and other work can run after each. Returns the ids of the presets whose overlaps changed, for which this
   * must be called next, as for a preset that changes meanwhile. After a change of a namespaced preset, these are of its
   * namespace.
   */
  change(id: string): Promise<readonly string[]>
  /**
   * A sentence for each preset with which the one with this id could conflict; for a cluster preset, only for other
   * cluster presets. Everyone can read its status, and no tenant may have it written again and again. The presets of
   * namespaces state such conflicts themselves.
   */
  of(id: string): readonly string[]
}

/** More than a status lists. Each of them is compared again whenever one changes. */
const maxOverlaps = 16

/** In characters. A sentence has the labels that both presets select, and a status has 4 KiB for all sentences. */
const longestSentence = 256

const noOverlaps = { overlaps: [], isComplete: true }

const isPublic = (id: string): boolean => refOf(id).namespace === undefined

/** @param pause ends when other work has had its turn */
export function createOverlaps(
  get: (id: string) => CompiledPreset | undefined,
  structure: Structure,
  pause: () => Promise<unknown> = setImmediate,
): Overlaps {
  /** By id, and then by the id of the other preset. */
  const known = new Map<string, ReadonlyMap<string, string>>()
  const none: ReadonlyMap<string, string> = new Map()
  /** The keys of `known`, by the ids of the other presets. */
  const listedBy = new Map<string, Set<string>>()
  /** Ids of those that were not compared with all others. */
  const partial = new Set<string>()
  const index = createOverlapIndex(structure)
  const compareWith = async (preset: CompiledPreset, ids: readonly string[]) => {
    const others = ids.flatMap((id) => get(id) ?? [])
    const search = searchOverlaps(preset, others, structure, maxOverlaps)
    for (let next = search.next(); ; next = search.next()) {
      if (next.done === true) return next.value
      await pause()
    }
  }
  const isCurrent = ({ id, origin }: CompiledPreset) => get(id)?.origin.revision === origin.revision
  const sentenceOf = (overlap: Overlap) => shorten(overlapWarning(overlap), longestSentence)
  /** The presets of namespaces whose overlaps with this cluster preset are not those that are known. */
  const outdatedOf = async (id: string, preset: CompiledPreset | undefined, ids: readonly string[]) => {
    const { overlaps, isComplete } = preset ? await compareWith(preset, ids) : noOverlaps
    const now = new Map(
      preset ? overlaps.map((overlap) => [overlap.other.id, sentenceOf({ ...overlap, other: preset })]) : [],
    )
    const listing = [...(listedBy.get(id) ?? [])].filter((other) => !isPublic(other))
    return [
      ...[...now.keys()].filter((other) => known.get(other)?.get(id) !== now.get(other)),
      ...(isComplete ? listing.filter((other) => !now.has(other)) : []),
    ]
  }
  const replace = (id: string, before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>) => {
    for (const other of before.keys()) {
      const ids = listedBy.get(other)
      ids?.delete(id)
      if (ids?.size === 0) listedBy.delete(other)
    }
    for (const other of now.keys()) listedBy.set(other, (listedBy.get(other) ?? new Set()).add(id))
    if (now.size > 0) known.set(id, now)
    else known.delete(id)
  }
  return {
    update(id) {
      const preset = get(id)
      if (preset === undefined) index.delete(id)
      else index.set(preset)
    },
    async change(id) {
      const preset = get(id)
      const ids = preset ? [...index.candidates(preset)] : []
      const isStated = (other: string) => !isPublic(id) || isPublic(other)
      const found = preset ? await compareWith(preset, ids.filter(isStated)) : noOverlaps
      const before = known.get(id) ?? none
      if (found.isComplete) partial.delete(id)
      else partial.add(id)
      const now = new Map(found.overlaps.map((overlap) => [overlap.other.id, sentenceOf(overlap)]))
      // One that was compared with an earlier revision of this preset, of which `before` knows nothing.
      const listing = found.isComplete ? [...(listedBy.get(id) ?? [])].filter(isStated) : []
      const outdated = listing.filter((other) => !now.has(other))
      replace(id, before, now)
      const differing = [...before.keys(), ...now.keys()].filter((other) => before.get(other) !== now.get(other))
      const changed = [...new Set([...differing, ...outdated])]
      // The overlaps of a cluster preset do not depend on presets of namespaces, but theirs do on it.
      if (!isPublic(id)) {
        const isOutrun = found.overlaps.some(({ other }) => isPublic(other.id) && !isCurrent(other))
        return [...changed.filter((other) => !isPublic(other)), ...(isOutrun ? [id] : [])]
      }
      const others = await outdatedOf(
        id,
        preset,
        ids.filter((other) => !isPublic(other)),
      )
      return [...changed, ...others]
    },
    of: (id) => [
      ...new Set((known.get(id) ?? none).values()),
      ...(partial.has(id) ? ['may disagree with more presets: not all were compared'] : []),
    ],
  }
}
