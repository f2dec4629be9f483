import type { Origin } from '../api/cause.ts'

/**
 * Who put a leaf where it is: path → origin, paths as kubectl prints them, from `metadata` and `spec` on. A leaf
 * without an entry is the user's own, so that what completion did not touch costs nothing.
 */
export type Origins = ReadonlyMap<string, Origin>

/** A value that was stated and does not stand. */
export interface LostValue {
  readonly origin: Origin
  readonly value: unknown
}

/** What became of everything that was stated, for each leaf. */
export interface Provenance {
  readonly origins: Origins
  /** Values that a stronger source overrode: the user's by Enforce, presets' by stronger ones or the user. */
  readonly overridden: ReadonlyMap<string, readonly LostValue[]>
  /** What `remove` took away; paths in the list before any removal. */
  readonly removed: Origins
  /** Values of presets that had no place; paths in the merged VM, or in the preset for volumes and their disks. */
  readonly skipped: readonly Skipped[]
}

export interface Skipped {
  readonly origin: Origin
  readonly path: string
  readonly reason: 'no-such-item' | 'other-branch' | 'volume-lost' | 'volume-missing'
}
