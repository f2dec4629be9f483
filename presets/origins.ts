import type { Origin } from '../api/cause.ts'

/**
 * The origin of each leaf: path → origin, with paths as kubectl prints them, starting at `metadata` or `spec`. A leaf
 * without an entry is the user's own, so fields that completion did not touch cost nothing.
 */
export type Origins = ReadonlyMap<string, Origin>

/** A value that was overridden. */
export interface LostValue {
  readonly origin: Origin
  readonly value: unknown
}

/**
 * A list of which presets removed items that the user wrote, or that went with the last disk that used them. Its path is
 * that in the merged object.
 */
export interface Shortened {
  /** The number of items that the user wrote. */
  readonly length: number
  /** Digests of the missing ones, by their index among them. */
  readonly missing: ReadonlyMap<number, string>
}

/** Which source set each leaf, and which values were not applied. */
export interface Provenance {
  readonly origins: Origins
  /** Values that lost to a stronger source: the user's to Enforce, presets' to stronger presets or the user. */
  readonly overridden: ReadonlyMap<string, readonly LostValue[]>
  /** Values that `remove` removed. Indexes refer to the list before any removal. */
  readonly removed: Origins
  /** Presets' values that were not applied. Paths in the merged VM; for volumes and their disks, in the preset. */
  readonly skipped: readonly Skipped[]
}

export interface Skipped {
  readonly origin: Origin
  readonly path: string
  readonly reason: 'no-such-item' | 'other-branch' | 'volume-lost' | 'volume-missing'
}
