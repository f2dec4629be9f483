import { setImmediate } from 'node:timers/promises'
import type { Cause } from '../api/cause.ts'
import type { Preset, PresetStatus } from '../api/preset.ts'
import { firstTexts } from '../api/shorten.ts'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import { setCondition } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { CachedVm, Revision } from './slim-vm.ts'

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

/** Longest that counting blocks the event loop at once. */
const sliceMs = 20

/**
 * Counts for all presets, including deleted presets that VMs were completed with. VMs × presets can be many millions,
 * so the event loop gets a turn in between.
 */
export async function countUsage(
  vms: readonly CachedVm[],
  candidates: Pick<Candidates, 'select' | 'get'>,
  namespaceOf: (name: string) => Namespace,
  presetsOf: (vm: CachedVm) => ReadonlyMap<string, Revision> | undefined,
): Promise<ReadonlyMap<string, Usage>> {
  const usages = new Map<string, { matched: number; applied: number; outdated: number }>()
  const usageOf = (id: string) => {
    const known = usages.get(id) ?? { ...unused }
    usages.set(id, known)
    return known
  }
  let sliceStartMs = performance.now()
  for (const vm of vms) {
    if (performance.now() - sliceStartMs > sliceMs) {
      await setImmediate()
      sliceStartMs = performance.now()
    }
    const { labels = {}, namespace = '' } = vm.metadata
    for (const { id } of candidates.select(labels, namespaceOf(namespace))) usageOf(id).matched++
    for (const [id, revision] of presetsOf(vm) ?? []) {
      const usage = usageOf(id)
      usage.applied++
      if (candidates.get(id)?.origin.revision !== revision) usage.outdated++
    }
  }
  return usages
}

/**
 * An accepted preset with its revision and the presets that could conflict with it, or the causes why it is not
 * accepted.
 */
type Compilation =
  | { readonly revision: Revision; readonly overlaps: readonly string[] }
  | { readonly causes: readonly Cause[] }

/** The whole status of a preset. */
export function presetStatus(
  preset: Persisted<Preset>,
  compilation: Compilation,
  usage: Usage,
  now: string,
): PresetStatus {
  const { revision: _revision, ...before } = preset.status ?? {}
  const observedGeneration = preset.metadata.generation ?? 1
  const asserted = [accepted(compilation), conflictFree(compilation)]
  return {
    ...before,
    ...('revision' in compilation ? { revision: compilation.revision } : {}),
    ...usage,
    observedGeneration,
    conditions: asserted.reduce(
      (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
      before.conditions ?? [],
    ),
  }
}

function accepted(compilation: Compilation): NewCondition {
  const type = 'Accepted'
  if ('revision' in compilation) return { type, status: 'True', reason: 'Accepted', message: '' }
  const message = firstTexts(compilation.causes, maxShown, ({ field, message: text }) => `${field}: ${text}`)
  const isCost = compilation.causes.every(({ rule }) => rule === 'preset-condition-cost')
  return { type, status: 'False', reason: isCost ? 'ConditionsTooExpensive' : 'Invalid', message }
}

function conflictFree(compilation: Compilation): NewCondition {
  const type = 'ConflictFree'
  if (!('revision' in compilation)) {
    return { type, status: 'Unknown', reason: 'NotAccepted', message: 'the preset is not applied to any VM' }
  }
  if (compilation.overlaps.length === 0) return { type, status: 'True', reason: 'NoConflicts', message: '' }
  return { type, status: 'False', reason: 'CouldDisagree', message: firstTexts(compilation.overlaps, maxShown, String) }
}

/** A preset may conflict with all others; a longer message would not be read. */
const maxShown = 10
