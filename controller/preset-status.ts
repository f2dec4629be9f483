import type { Cause } from '../api/cause.ts'
import type { Preset, PresetStatus } from '../api/preset.ts'
import { firstTexts } from '../api/shorten.ts'
import { setCondition } from '../runtime/condition.ts'
import type { NewCondition } from '../runtime/condition.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Usage } from './preset-usage.ts'
import type { Revision } from './slim-vm.ts'

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
