import type { Origin } from '../api/cause.ts'
import type { Steps } from '../api/steps.ts'
import type { Namespace } from './candidates.ts'
import { selects } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import type { Kind, Subject } from './kind.ts'
import { createBudget } from './condition-budget.ts'
import { matchConditions, conditionInput } from './match.ts'
import { parentPath } from '../api/path.ts'
import { settle, settledWithoutCluster, type Settled } from './settle.ts'
import { priorityOf, rankOf } from './source.ts'
import type { ByLeaf } from './tree.ts'

/** What the granting presets state of an object. */
export interface Stated {
  /** Those that state the leaf at a path. */
  readonly grantorsAt: (path: string) => readonly Origin[]
  /** Those that state another value for the leaf at a path. */
  readonly overruledAt: (path: string) => readonly Origin[]
  /** The object with what it lacks of that. */
  readonly whole: Subject
  /** Leaves that it lacks, of which they state different values. */
  readonly unsettled: readonly string[]
}

/** What cluster presets grant. */
export interface Grants {
  /** To the object after injection. */
  readonly injected: Stated
  /** To another object, for the same items. */
  readonly statedOf: (object: Subject) => Stated
  /** Another object with what the granting presets of strength Enforce state. */
  readonly enforceOn: (object: Subject) => Subject
}

interface Injected {
  /** As the user sent it. */
  readonly object: Subject
  readonly applied: readonly CompiledPreset[]
  readonly namespace: Namespace
  readonly request: unknown
  readonly kind: Kind
  /** After injection. */
  readonly settled: Pick<Settled, 'object' | 'granted'>
  readonly steps: Steps
}

/**
 * A namespace's presets are no more trusted than its users. A cluster preset therefore grants only if its selectors and
 * conditions also match the object with the namespace's presets applied. Otherwise these could add what the cluster
 * preset excludes.
 */
export function grantsOf({ settled, ...injected }: Injected): Grants {
  let found: readonly CompiledPreset[] | undefined
  const grantors = () => (found ??= grantorsOf(injected))
  const isByGrantor = (origin: Origin) => grantors().some((preset) => preset.origin === origin)
  const statedIn = ({ object, granted }: Injected['settled'], unsettled: readonly string[] = []): Stated => {
    const [statedAt, overruledAt] = [presetsIn(granted.stated), presetsIn(granted.overruled)]
    return {
      grantorsAt: (path) => statedAt(path).filter(isByGrantor),
      overruledAt: (path) => overruledAt(path).filter(isByGrantor),
      whole: object,
      unsettled,
    }
  }
  return {
    injected: statedIn(settled),
    statedOf: (object) => {
      // Applied below the object's own values, so that those are unchanged, but in their order.
      const below = grantors().map((preset) => {
        const layer = preset.strength === 'Enforce' ? 'namespace Default' : 'cluster Default'
        return { ...preset, rank: rankOf(layer, priorityOf(preset.rank)), removes: [] }
      })
      const stated = settle(object, below, injected.kind, injected.steps)
      return statedIn(stated, stated.unsettled)
    },
    enforceOn: (object) => {
      const enforcing = grantors().filter(({ strength }) => strength === 'Enforce')
      // A removal would move the items that follow.
      const setting = enforcing.map((preset) => ({ ...preset, removes: [] }))
      return settle(object, setting, injected.kind, injected.steps).object
    },
  }
}

/**
 * The presets of the leaf at a path. Entries exist for leaves only, so an entry above a path is an element that presets
 * set as one value. A path can have hundreds of ancestors, each of hundreds of characters, so only those as long as an
 * entry are looked up.
 */
function presetsIn(known: ByLeaf): (path: string) => readonly Origin[] {
  let lengths: ReadonlySet<number> | undefined
  return (path) => {
    if (known.size === 0) return []
    lengths ??= new Set(known.keys().map(({ length }) => length))
    for (let at = path; at !== ''; at = parentPath(at)) {
      const found = lengths.has(at.length) ? known.get(at) : undefined
      if (found !== undefined) return found
    }
    return []
  }
}

function grantorsOf({ object, applied, namespace, request, kind, steps }: Omit<Injected, 'settled'>) {
  const cluster = applied.filter((preset) => preset.namespace === undefined)
  if (cluster.length === applied.length) return cluster
  const namespaced = applied.filter((preset) => preset.namespace !== undefined)
  // Without removals the cluster presets do not change what the namespace's presets add.
  const written = namespaced.some(({ removes }) => removes.length > 0)
    ? settledWithoutCluster(object, applied, kind, steps)
    : settle(object, namespaced, kind, steps).object
  const input = conditionInput(written, namespace, request)
  const budget = createBudget()
  return cluster.filter(
    (preset) =>
      selects(preset, written.metadata.labels ?? {}, namespace) &&
      matchConditions(preset, input, budget).outcome === 'matches',
  )
}
