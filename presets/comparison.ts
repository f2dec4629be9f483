import { sizeOf, unmetered, type Steps } from '../api/steps.ts'
import type { LeafStructure } from './structure.ts'

/**
 * Returns the meaning of a leaf's value. Each is determined once, however many values it is compared with: that of a
 * long set of CPUs takes a millisecond. The caller has counted one step for the value; a large one takes the rest of
 * its size.
 */
export type Meanings = (leaf: LeafStructure, value: unknown, steps: Steps) => string

export function createMeanings(): Meanings {
  const byLeaf = new Map<LeafStructure, Map<unknown, string>>()
  return (leaf, value, steps) => {
    const known = byLeaf.get(leaf) ?? new Map<unknown, string>()
    byLeaf.set(leaf, known)
    const before = known.get(value)
    if (before !== undefined) return before
    steps.spend(sizeOf(value) - 1)
    const meaning = leaf.meaning(value)
    known.set(value, meaning)
    return meaning
  }
}

/** What comparing values needs. */
export interface Comparison {
  readonly steps: Steps
  readonly meanings: Meanings
}

export const comparison = (steps = unmetered): Comparison => ({ steps, meanings: createMeanings() })
