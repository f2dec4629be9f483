import type { CompiledPreset } from '../presets/compile.ts'
import { findOverlaps, overlapWarning } from '../presets/overlap.ts'
import type { Structure } from '../presets/structure.ts'

/** Which presets could disagree about a VM, kept between changes: to compare each with each anew at every change would cost too much. */
export interface Overlaps {
  /**
   * Takes in that the preset by this id changed or went. Gives back the ids of those that have something else to tell now, and for which this
   * should be called next.
   */
  change(id: string): readonly string[]
  /** A sentence for each preset with which the one by this id could disagree. */
  of(id: string): readonly string[]
}

/** More than a status names. Each of them is compared again whenever one changes. */
const maxOverlaps = 16

const noOverlaps = { overlaps: [], isComplete: true }

export function createOverlaps(
  get: (id: string) => CompiledPreset | undefined,
  all: () => Iterable<CompiledPreset>,
  structure: Structure,
): Overlaps {
  /** By id, and then by the other's id. */
  const known = new Map<string, ReadonlyMap<string, string>>()
  const none: ReadonlyMap<string, string> = new Map()
  /** Ids of those that were not compared with all others. */
  const partial = new Set<string>()
  return {
    change(id) {
      const before = known.get(id) ?? none
      const preset = get(id)
      const found = preset ? findOverlaps(preset, all(), structure, maxOverlaps) : noOverlaps
      if (found.isComplete) partial.delete(id)
      else partial.add(id)
      const now = new Map(found.overlaps.map((overlap) => [overlap.other.id, overlapWarning(overlap)]))
      if (now.size > 0) known.set(id, now)
      else known.delete(id)
      return [...new Set([...before.keys(), ...now.keys()])].filter((other) => before.get(other) !== now.get(other))
    },
    of: (id) => [
      ...(known.get(id) ?? none).values(),
      ...(partial.has(id) ? ['may disagree with more presets: not all were compared'] : []),
    ],
  }
}
