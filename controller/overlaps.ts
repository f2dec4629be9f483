import type { CompiledPreset } from '../presets/compile.ts'
import { createOverlapIndex } from '../presets/overlap-index.ts'
import { findOverlaps, overlapWarning } from '../presets/overlap.ts'
import type { Structure } from '../presets/structure.ts'

/** The presets that could conflict about a VM. Cached and indexed: comparing all pairs would cost too much. */
interface Overlaps {
  /** Records the change or deletion of the preset with this id. Costs little, and must precede each `change`. */
  update(id: string): void
  /**
   * Compares the preset with this id again, after its change or deletion. Returns the ids of the presets whose overlaps
   * changed, for which this must be called next.
   */
  change(id: string): readonly string[]
  /**
   * A sentence for each preset with which the one with this id could conflict. Everyone can read the status of a cluster
   * preset, so its sentences name no presets of namespaces.
   */
  of(id: string): readonly string[]
}

/** More than a status lists. Each of them is compared again whenever one changes. */
const maxOverlaps = 16

const hidden = 'disagrees with presets of namespaces, whose own conditions state on what'

const noOverlaps = { overlaps: [], isComplete: true }

export function createOverlaps(get: (id: string) => CompiledPreset | undefined, structure: Structure): Overlaps {
  /** By id, and then by the id of the other preset. */
  const known = new Map<string, ReadonlyMap<string, string>>()
  const none: ReadonlyMap<string, string> = new Map()
  /** Ids of those that were not compared with all others. */
  const partial = new Set<string>()
  const index = createOverlapIndex(structure)
  const candidates = (preset: CompiledPreset) => [...index.candidates(preset)].flatMap((id) => get(id) ?? [])
  return {
    update(id) {
      const preset = get(id)
      if (preset === undefined) index.delete(id)
      else index.set(preset)
    },
    change(id) {
      const before = known.get(id) ?? none
      const preset = get(id)
      const found = preset ? findOverlaps(preset, candidates(preset), structure, maxOverlaps) : noOverlaps
      if (found.isComplete) partial.delete(id)
      else partial.add(id)
      const isPublic = preset?.namespace === undefined
      const now = new Map(
        found.overlaps.map((overlap) => {
          const isHidden = isPublic && overlap.other.namespace !== undefined
          return [overlap.other.id, isHidden ? hidden : overlapWarning(overlap)]
        }),
      )
      if (now.size > 0) known.set(id, now)
      else known.delete(id)
      return [...new Set([...before.keys(), ...now.keys()])].filter((other) => before.get(other) !== now.get(other))
    },
    of: (id) => [
      ...new Set((known.get(id) ?? none).values()),
      ...(partial.has(id) ? ['may disagree with more presets: not all were compared'] : []),
    ],
  }
}
