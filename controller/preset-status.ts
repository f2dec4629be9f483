import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Preset, PresetStatus } from '../api/preset.ts'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import { setCondition } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Revision } from './engine.ts'

/** What VMs make of a preset. */
export interface Usage {
  /** VMs that its selectors pick now. */
  readonly matched: number
  /** VMs that were completed with it, in whatever revision. */
  readonly applied: number
  /** Of those, VMs completed with another revision than it has now. */
  readonly outdated: number
}

export const unused: Usage = { matched: 0, applied: 0, outdated: 0 }

/** Counts for all presets in one pass over the VMs. A deleted preset that VMs were completed with has counts, too. */
export function countUsage(
  machines: readonly VirtualMachine[],
  candidates: Pick<Candidates, 'select' | 'get'>,
  namespaceOf: (name: string) => Namespace,
  presetsOf: (machine: VirtualMachine) => ReadonlyMap<string, Revision> | undefined,
): ReadonlyMap<string, Usage> {
  const usages = new Map<string, Usage>()
  const count = (id: string, added: Partial<Usage>) => {
    const { matched, applied, outdated } = usages.get(id) ?? unused
    usages.set(id, {
      matched: matched + (added.matched ?? 0),
      applied: applied + (added.applied ?? 0),
      outdated: outdated + (added.outdated ?? 0),
    })
  }
  for (const machine of machines) {
    const { labels = {}, namespace = '' } = machine.metadata
    for (const { id } of candidates.select(labels, namespaceOf(namespace))) count(id, { matched: 1 })
    for (const [id, revision] of presetsOf(machine) ?? []) {
      count(id, { applied: 1, outdated: candidates.get(id)?.origin.revision === revision ? 0 : 1 })
    }
  }
  return usages
}

/** Either it takes part, in this revision, with these presets that could disagree with it, or it does not, for these causes. */
export type Verdict =
  | { readonly revision: Revision; readonly overlaps: readonly string[] }
  | { readonly causes: readonly Cause[] }

/** The whole status of a preset; a broken one matches nothing. */
export function presetStatus(preset: Persisted<Preset>, verdict: Verdict, usage: Usage, now: string): PresetStatus {
  const { revision: _revision, ...before } = preset.status ?? {}
  const observedGeneration = preset.metadata.generation ?? 1
  const asserted = [accepted(verdict), conflictFree(verdict)]
  return {
    ...before,
    ...('revision' in verdict ? { revision: verdict.revision } : {}),
    ...usage,
    observedGeneration,
    conditions: asserted.reduce(
      (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
      before.conditions ?? [],
    ),
  }
}

function accepted(verdict: Verdict): NewCondition {
  const type = 'Accepted'
  if ('revision' in verdict) return { type, status: 'True', reason: 'Accepted', message: '' }
  const words = verdict.causes.map(({ field, message }) => `${field}: ${message}`)
  const isCost = verdict.causes.every(({ rule }) => rule === 'preset-condition-cost')
  return { type, status: 'False', reason: isCost ? 'ConditionsTooExpensive' : 'Invalid', message: sentence(words) }
}

function conflictFree(verdict: Verdict): NewCondition {
  const type = 'ConflictFree'
  if (!('revision' in verdict)) {
    return { type, status: 'Unknown', reason: 'NotAccepted', message: 'it takes part in nothing' }
  }
  if (verdict.overlaps.length === 0) return { type, status: 'True', reason: 'NoConflicts', message: '' }
  return { type, status: 'False', reason: 'CouldDisagree', message: sentence(verdict.overlaps) }
}

/** More are not read, and a preset may disagree with all others. */
const mostShown = 10

function sentence(words: readonly string[]): string {
  const rest = words.length - mostShown
  return [...words.slice(0, mostShown), ...(rest > 0 ? [`and ${rest} more`] : [])].join('; ')
}
