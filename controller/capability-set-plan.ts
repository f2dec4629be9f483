import type { Capabilities } from '../api/capabilities.ts'
import { capabilitySetName, type NodeCapabilitySet } from '../api/node-capability-set.ts'
import type { PublishedProfile } from '../api/node-profile.ts'

/** What a pass over all profiles and sets observes. */
export interface Observed {
  /** Whether profiles are to share capabilities. */
  readonly isSharing: boolean
  /** Equal capabilities must be the same object. */
  readonly profiles: readonly PublishedProfile[]
  readonly sets: readonly Pick<NodeCapabilitySet, 'metadata' | 'spec'>[]
}

/** The times in ms at which passes have observed something for the first time, by the name of a set. */
export interface Since {
  /** At least two nodes have published these capabilities whole. */
  readonly isCommon: ReadonlyMap<string, number>
  /** No profile names the set. */
  readonly isUnused: ReadonlyMap<string, number>
}

export const never: Since = { isCommon: new Map(), isUnused: new Map() }

export type SetAction =
  | { readonly do: 'create'; readonly name: string; readonly capabilities: Capabilities }
  | { readonly do: 'retire'; readonly name: string; readonly retired: boolean }
  | { readonly do: 'delete'; readonly name: string }

/** Of nodes that roll to a new image, or that change their capabilities with each publication, none is created. */
const commonMs = 600_000
/** Handlers read the set again after ten minutes; an image that is rolled back may need it again. */
const unusedMs = 3_600_000
/**
 * Sets are stored by every webhook and controller. A large cluster has a dozen kinds of nodes, and twice as many while
 * an image rolls out. Nodes of others repeat their capabilities.
 */
const mostSets = 32
/** Usual ones have 87,000 characters of JSON. */
const longest = 256 * 1024

/**
 * Which sets to create, retire and delete. A set is created once at least two nodes have had its capabilities for ten
 * minutes, so a node alone can cause none, whatever it publishes. There are at most `mostSets`, and each stays for an
 * hour, which also limits how many can be created in an hour.
 */
export function planSets(
  { isSharing, profiles, sets }: Observed,
  since: Since,
  nowMs: number,
): { readonly actions: readonly SetAction[]; readonly since: Since } {
  const named = new Set(profiles.flatMap(({ spec }) => ('capabilitySetName' in spec ? [spec.capabilitySetName] : [])))
  const existing = sets.map(({ metadata, spec }) => ({ name: metadata.name ?? '', isRetired: spec.retired === true }))
  const unused = existing.map(({ name }) => name).filter((name) => !named.has(name))
  const isUnused = continued(since.isUnused, unused, nowMs)
  const isOver = (name: string) => nowMs - (isUnused.get(name) ?? nowMs) >= unusedMs
  const known = new Set(existing.map(({ name }) => name))
  const common = isSharing ? commonOf(profiles).filter(({ name }) => !known.has(name)) : []
  const isCommon = continued(
    since.isCommon,
    common.map(({ name }) => name),
    nowMs,
  )
  const isDue = ({ name }: { readonly name: string }) => nowMs - (isCommon.get(name) ?? nowMs) >= commonMs
  return {
    actions: [
      ...existing.map(({ name, isRetired }): SetAction | undefined => {
        if (isOver(name)) return { do: 'delete', name }
        return isRetired === isSharing ? { do: 'retire', name, retired: !isSharing } : undefined
      }),
      ...common
        .filter(isDue)
        .slice(0, Math.max(0, mostSets - sets.length))
        .map((one): SetAction => ({ do: 'create', ...one })),
    ].filter((action) => action !== undefined),
    since: { isCommon, isUnused },
  }
}

/** Capabilities that at least two profiles have whole, those of the most nodes first. */
function commonOf(
  profiles: readonly PublishedProfile[],
): readonly { readonly name: string; readonly capabilities: Capabilities }[] {
  const whole = profiles.flatMap(({ spec }) => ('capabilities' in spec ? [spec.capabilities] : []))
  return [...Map.groupBy(whole, (capabilities) => capabilities)]
    .filter(([, nodes]) => nodes.length >= 2)
    .toSorted(([, some], [, others]) => others.length - some.length)
    .slice(0, mostSets)
    .filter(([capabilities]) => JSON.stringify(capabilities).length <= longest)
    .map(([capabilities]) => ({ name: capabilitySetName(capabilities), capabilities }))
}

/** The times of what is still observed, and now for what is new. */
const continued = (before: ReadonlyMap<string, number>, names: readonly string[], nowMs: number) =>
  new Map(names.map((name) => [name, before.get(name) ?? nowMs]))
