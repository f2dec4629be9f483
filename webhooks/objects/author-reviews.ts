import { LRUCache } from 'lru-cache'
import type { Cause } from '../../api/cause.ts'
import { targetText, type ObjectPreset } from '../../api/object-preset.ts'
import type { WatchedObjects } from '../../inventory/objects.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { keyOf, type Persisted } from '../../runtime/resource.ts'
import type { May, MayAccess } from '../admission/permission.ts'
import { authorOf, type Author } from './author.ts'
import { missingPermissions } from './preset-permission.ts'

/** What the authors of stored presets lack to write them now. */
export interface AuthorReviews {
  /** Reviews the permissions of some authors again, those that were not reviewed for the longest time first. */
  refresh(objects: Pick<WatchedObjects, 'storedPresets' | 'target'>): Promise<void>
  /** Undefined if it is not known, e.g. because the preset was written without the webhooks. */
  get(preset: Persisted<ObjectPreset>): Review | undefined
}

export interface Review {
  readonly author: Author
  /** Empty if the author could write the preset. */
  readonly causes: readonly Cause[]
  /** Made so short a time ago that it can replace what another replica has found. */
  readonly isRecent: boolean
}

/** A lost permission is noticed within this time, unless there are very many presets. */
const freshMs = 10 * 60_000
/** Some rounds: the write of one can fail. */
const recentMs = 60_000
/** The presets and reviews of one round, so that they are a small share of the requests to the API server. */
const roundPresets = 2000
const roundReviews = 32
const maxKnown = 10_000
/** One for all presets, which are reviewed one by one: no tenant delays the reviews of the others. */
const requester = { tenant: 'authors of presets' }

interface Known extends Omit<Review, 'isRecent'> {
  readonly atMs: number
}

export function createAuthorReviews(mayAccess: MayAccess, log: Logger, clock: Clock): AuthorReviews {
  const known = new LRUCache<string, Known>({ max: maxKnown })
  /** The preset with which the next round begins. */
  let next = 0

  const review = async (preset: Persisted<ObjectPreset>, author: Author, objects: Pick<WatchedObjects, 'target'>) => {
    const entry = objects.target(targetText(preset.spec.target))
    if (entry === undefined || !('kind' in entry)) return
    const atMs = clock.monotonic()
    const may: May = (access) => mayAccess(author, access, requester)
    const causes = await missingPermissions(preset, entry, may)
    known.set(keyFor(preset, author), { author, causes, atMs })
  }

  return {
    async refresh(objects) {
      const presets = objects.storedPresets()
      let left = roundReviews
      for (let looked = 0; looked < Math.min(presets.length, roundPresets) && left > 0; looked++) {
        next = (next + 1) % presets.length
        const preset = presets[next]
        const author = authorOf(preset)
        if (preset === undefined || author === undefined) continue
        const before = known.get(keyFor(preset, author))
        if (before !== undefined && clock.monotonic() - before.atMs < freshMs) continue
        left -= 1
        try {
          await review(preset, author, objects)
        } catch (error) {
          log.warn({ err: error, preset: keyOf(preset.metadata) }, 'could not review the author of a preset; retrying')
          return
        }
      }
    },
    get(preset) {
      const author = authorOf(preset)
      const review = author === undefined ? undefined : known.get(keyFor(preset, author))
      return review && { ...review, isRecent: clock.monotonic() - review.atMs < recentMs }
    },
  }
}

/** Presets of a namespace by the same author for the same kind need the same permissions. */
const keyFor = ({ kind, metadata, spec }: Persisted<ObjectPreset>, { username, groups }: Author): string =>
  JSON.stringify([
    username,
    groups,
    targetText(spec.target),
    kind === 'ObjectPreset' ? metadata.namespace : [metadata.name, metadata.generation],
  ])
