import { setImmediate } from 'node:timers/promises'
import { shorten } from '../api/shorten.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { createOverlapIndex } from '../presets/overlap-index.ts'
import { overlapWarning, searchOverlaps } from '../presets/overlap.ts'
import type { Structure } from '../presets/structure.ts'

/** The presets that could conflict about a VM. Cached and indexed: comparing all pairs would cost too much. */
interface Overlaps {
  /** Records the change or deletion of the preset with this id. Costs little, and must precede each `change`. */
  update(id: string): void
  /**
   * Compares the preset with this id again, after its change or deletion; one comparison takes up to some hundredths of
   * a second, and other work can run after each. Returns the ids of the presets whose overlaps changed, for which this
   * must be called next, as for a preset that changes meanwhile.
   */
  change(id: string): Promise<readonly string[]>
  /**
   * A sentence for each preset with which the one with this id could conflict. Everyone can read the status of a cluster
   * preset, so its sentences name no presets of namespaces.
   */
  of(id: string): readonly string[]
}

/** More than a status lists. Each of them is compared again whenever one changes. */
const maxOverlaps = 16

/** In characters. A sentence has the labels that both presets select, and a status has 4 KiB for all sentences. */
const longestSentence = 256

const hidden = 'disagrees with presets of namespaces, whose own conditions state on what'

const noOverlaps = { overlaps: [], isComplete: true }

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
  const candidates = (preset: CompiledPreset) => [...index.candidates(preset)].flatMap((id) => get(id) ?? [])
  const compare = async (preset: CompiledPreset) => {
    const search = searchOverlaps(preset, candidates(preset), structure, maxOverlaps)
    for (let next = search.next(); ; next = search.next()) {
      if (next.done === true) return next.value
      await pause()
    }
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
      const found = preset ? await compare(preset) : noOverlaps
      const before = known.get(id) ?? none
      if (found.isComplete) partial.delete(id)
      else partial.add(id)
      const isPublic = preset?.namespace === undefined
      const now = new Map(
        found.overlaps.map((overlap) => {
          const isHidden = isPublic && overlap.other.namespace !== undefined
          return [overlap.other.id, isHidden ? hidden : shorten(overlapWarning(overlap), longestSentence)]
        }),
      )
      // One that was compared with an earlier revision of this preset, of which `before` knows nothing.
      const outdated = found.isComplete ? [...(listedBy.get(id) ?? [])].filter((other) => !now.has(other)) : []
      replace(id, before, now)
      const differing = [...before.keys(), ...now.keys()].filter((other) => before.get(other) !== now.get(other))
      return [...new Set([...differing, ...outdated])]
    },
    of: (id) => [
      ...new Set((known.get(id) ?? none).values()),
      ...(partial.has(id) ? ['may disagree with more presets: not all were compared'] : []),
    ],
  }
}
