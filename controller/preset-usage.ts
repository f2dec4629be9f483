import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import { keyOf } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Change, Store } from '../runtime/store.ts'
import type { CachedVm, Revision } from './slim-vm.ts'

type Vm = Persisted<CachedVm>

/** How VMs use a preset. */
export interface Usage {
  /** VMs that its selectors pick now. */
  readonly matched: number
  /** VMs that were completed with it, in any revision. */
  readonly applied: number
  /** VMs among them that were completed with another revision than the current one. */
  readonly outdated: number
}

export const unused: Usage = { matched: 0, applied: 0, outdated: 0 }

/**
 * How VMs use each preset, including deleted presets that VMs were completed with. After a change of VMs, only these are
 * counted again, with the presets that select them or that they were completed with. One tenant can change VMs as often
 * as it likes, and the cluster can have many thousands of VMs and presets of others.
 */
interface PresetUsage {
  /** Notes the change of a VM. Returns whether it can change a usage. */
  update(change: Change<CachedVm>): boolean
  /** Presets, or labels of namespaces, have changed: every VM is counted again. */
  restart(): void
  /** Counts what has changed. Returns the ids of the presets whose usage changed. Must not run twice at once. */
  count(): Promise<ReadonlySet<string>>
  of(id: string): Usage
}

interface UsageSources {
  readonly vms: Pick<Store<CachedVm>, 'get' | 'list'>
  readonly candidates: Pick<Candidates, 'select' | 'get'>
  readonly namespaceOf: (name: string) => Namespace
  readonly presetsOf: (vm: CachedVm) => ReadonlyMap<string, Revision> | undefined
}

/** Longest that counting blocks the event loop at once. VMs × presets can be many millions. */
const sliceMs = 20

export function createPresetUsage({ vms, candidates, namespaceOf, presetsOf }: UsageSources): PresetUsage {
  let usages: Counts = new Map()
  /** The version of each VM that `usages` contains, by key. */
  const counted = new Map<string, Vm>()
  /** The keys of the VMs that have changed since. */
  const changed = new Set<string>()
  /** Whether VMs were counted with other presets, or not at all. Until the first count, nothing is noted of VMs. */
  let isOutdated = true

  const isUsedAlike = (one: Vm, other: Vm): boolean =>
    isDeepStrictEqual(one.metadata.labels, other.metadata.labels) && isDeepStrictEqual(presetsOf(one), presetsOf(other))

  const add = (to: Counts, vm: Vm, sign: 1 | -1): void => {
    const { labels = {}, namespace = '' } = vm.metadata
    for (const { id } of candidates.select(labels, namespaceOf(namespace))) countsOf(to, id).matched += sign
    for (const [id, revision] of presetsOf(vm) ?? []) {
      const counts = countsOf(to, id)
      counts.applied += sign
      if (candidates.get(id)?.origin.revision !== revision) counts.outdated += sign
    }
  }

  /** By how much the usages differ from those that were counted before. */
  const differences = async (keys: readonly string[]): Promise<Counts> => {
    const found: Counts = new Map()
    let sliceStartMs = performance.now()
    for (const key of keys) {
      if (performance.now() - sliceStartMs > sliceMs) {
        await setImmediate()
        sliceStartMs = performance.now()
      }
      const before = counted.get(key)
      const now = vms.get(key)
      if (before === now) continue
      if (before !== undefined) add(found, before, -1)
      if (now !== undefined) add(found, now, 1)
      if (now === undefined) counted.delete(key)
      else counted.set(key, now)
    }
    return found
  }

  const countAll = async (): Promise<ReadonlySet<string>> => {
    isOutdated = false
    counted.clear()
    changed.clear()
    const before = usages
    usages = await differences(vms.list().map(({ metadata }) => keyOf(metadata)))
    const ids = new Set([...before.keys(), ...usages.keys()])
    return new Set([...ids].filter((id) => !isDeepStrictEqual(before.get(id), usages.get(id))))
  }

  return {
    update(change) {
      const key = keyOf(change.object.metadata)
      if (change.kind === 'updated' && isUsedAlike(change.object, change.previous)) {
        // So that the previous version is not kept in memory.
        if (counted.get(key) === change.previous) counted.set(key, change.object)
        return false
      }
      if (isOutdated) return true
      if (change.kind === 'deleted' && !counted.has(key)) changed.delete(key)
      else changed.add(key)
      return true
    },
    restart() {
      isOutdated = true
    },
    async count() {
      if (isOutdated) return countAll()
      const keys = [...changed]
      changed.clear()
      const found = await differences(keys)
      // What was subtracted may never have been added: presets changed in between.
      if (isOutdated) return countAll()
      const ids = new Set<string>()
      for (const [id, difference] of found) {
        if (isDeepStrictEqual(difference, unused)) continue
        const counts = countsOf(usages, id)
        counts.matched += difference.matched
        counts.applied += difference.applied
        counts.outdated += difference.outdated
        if (isDeepStrictEqual(counts, unused)) usages.delete(id)
        ids.add(id)
      }
      return ids
    },
    of: (id) => usages.get(id) ?? unused,
  }
}

type Counts = Map<string, { -readonly [Name in keyof Usage]: Usage[Name] }>

function countsOf(all: Counts, id: string) {
  const known = all.get(id) ?? { ...unused }
  all.set(id, known)
  return known
}
