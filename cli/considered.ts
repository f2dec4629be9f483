import type { VirtualMachine } from '../api/virtual-machine.ts'
import { isInScope, type Candidates, type Namespace } from '../presets/candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from '../presets/compile.ts'
import { createBudget, type Budget } from '../presets/condition-budget.ts'
import { excludePresets } from '../presets/exclude.ts'
import type { Subject } from '../presets/kind.ts'
import { matchConditions, conditionInput } from '../presets/match.ts'
import { requirementText, unmetRequirement, type Labels, type Requirement, type Selector } from '../presets/selector.ts'
import { compareText, layerOf, priorityOf } from '../presets/source.ts'
import type { CompleteSettings } from './complete.ts'
import { requestOf } from './completion.ts'

/** A preset in scope, and its effect on the VM. */
export interface Considered {
  readonly preset: string
  readonly layer: string
  readonly priority: number
  readonly outcome: 'applied' | 'warned' | 'audited' | 'no match' | 'excluded' | 'undecided' | 'broken' | 'deleted'
  readonly why?: string
}

/**
 * Every preset in the scope of a VM as its user wrote it, strongest first.
 * @param isNew whether the current user creates the VM now; the creator of a stored VM is unknown
 */
export async function considered(
  vm: VirtualMachine,
  settings: Pick<CompleteSettings, 'scopes' | 'namespace'>,
  { uid, isNew }: { readonly uid: string; readonly isNew: boolean },
): Promise<readonly ConsideredNow[]> {
  const name = vm.metadata.namespace ?? settings.namespace
  const { inventory, userInfo, ...scope } = await settings.scopes.of(name)
  const exempt = (await scope.exempt(vm)) ?? new Set<string>()
  const namespace = inventory.namespace(name)
  const { candidates, quarantined } = inventory
  const request = requestOf(vm, namespace.name, uid, isNew ? userInfo : undefined)
  return consideredIn(vm, { candidates, quarantined: quarantined.values(), namespace, exempt, request, noun: 'VM' })
}

/** With the current revision of the preset, if it exists. */
export type ConsideredNow = Considered & { readonly revision?: string }

interface ConsideredScope {
  readonly candidates: Candidates
  readonly quarantined: Iterable<QuarantinedPreset>
  readonly namespace: Namespace
  readonly exempt?: ReadonlySet<string>
  readonly request: { readonly [key: string]: unknown }
  readonly noun: string
}

/** Every preset in scope of an object of any kind, strongest first. */
export function consideredIn(
  object: Subject,
  { candidates, quarantined, namespace, exempt = new Set(), request, noun }: ConsideredScope,
): readonly ConsideredNow[] {
  const all = candidates
    .inScope(namespace)
    .toSorted((left, right) => right.rank - left.rank || compareText(left.id, right.id))
  const labels = object.metadata.labels ?? {}
  const { excluded } = excludePresets(object.metadata.annotations, candidates.select(labels, namespace), exempt)
  const budget = createBudget()
  const input = conditionInput(object, namespace, request)
  return [
    ...all.map((preset) => ({
      ...consider(preset, labels, excluded, input, budget, noun),
      revision: preset.origin.revision,
    })),
    ...[...quarantined]
      .filter((preset) => isInScope(preset, namespace))
      .map(({ id, causes }): Considered => ({
        preset: id,
        layer: '',
        priority: 0,
        outcome: 'broken',
        why: causes.map(({ field, message }) => `${field}: ${message}`).join('; '),
      })),
  ]
}

function consider(
  preset: CompiledPreset,
  labels: Labels,
  excluded: readonly CompiledPreset[],
  input: ReturnType<typeof conditionInput>,
  budget: Budget,
  noun: string,
): Considered {
  const { id, rank, mode } = preset
  const known = { preset: id, layer: layerOf(rank), priority: priorityOf(rank) }
  const unmet = unmetBy(preset.selector, labels, noun)
  if (unmet !== undefined) return { ...known, outcome: 'no match', why: `selector ${unmet}` }
  if (excluded.includes(preset))
    return { ...known, outcome: 'excluded', why: 'by the annotation virtset.io/exclude-presets' }
  const match = matchConditions(preset, input, budget)
  if (match.outcome === 'unmet')
    return { ...known, outcome: 'no match', why: `condition "${match.condition}" is false` }
  if (match.outcome === 'failed') {
    return { ...known, outcome: 'undecided', why: `condition "${match.condition}": ${match.error}` }
  }
  if (mode === 'Apply') return { ...known, outcome: 'applied' }
  return { ...known, outcome: mode === 'Warn' ? 'warned' : 'audited', why: `mode ${mode} changes nothing` }
}

function unmetBy(selector: Selector, labels: Labels, noun: string): string | undefined {
  const unmet = unmetRequirement(selector, labels)
  return unmet === undefined ? undefined : `${requirementText(unmet)}, ${hasText(unmet, labels, noun)}`
}

const hasText = ({ key }: Requirement, labels: Labels, noun: string): string =>
  labels[key] === undefined ? `and the ${noun} has no label ${key}` : `and the ${noun} has ${key}=${labels[key]}`
