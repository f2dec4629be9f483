import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { completedByAnnotation } from '../api/machine.ts'
import type { Namespace } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import { celValue } from './condition.ts'
import { spend, type Budget } from './condition-budget.ts'
import type { Variables } from './condition-program.ts'

/** What a preset's conditions say of a VM. */
export type Match =
  | { readonly outcome: 'matches' }
  | { readonly outcome: 'unmet'; readonly condition: string }
  | { readonly outcome: 'failed'; readonly condition: string; readonly error: string }

/**
 * What conditions see: the VM as its user sent it, the request and the namespace. Made only when the first condition asks.
 * @param request an AdmissionRequest as the API server sends it; {} offline
 */
export function reviewer(machine: VirtualMachine, namespace: Namespace, request: unknown): () => Variables {
  let made: Variables | undefined
  return () => {
    made ??= makeReview(machine, namespace, request)
    return made
  }
}

function makeReview(machine: VirtualMachine, { name, labels }: Namespace, request: unknown): Variables {
  const object = withoutProvenance(machine)
  const namespaceObject = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }
  return {
    object: celValue(object),
    request: celValue(request),
    namespaceObject: celValue(namespaceObject),
  }
}

/** Our own notes on a VM are nothing that its user sent. */
function withoutProvenance(machine: VirtualMachine): VirtualMachine {
  const { annotations } = machine.metadata
  if (annotations?.[completedByAnnotation] === undefined) return machine
  const { [completedByAnnotation]: _, ...others } = annotations
  return { ...machine, metadata: { ...machine.metadata, annotations: others } }
}

/**
 * All conditions are evaluated: one that is false means that the preset does not match, whatever errors others give. Where the budget ends,
 * evaluation ends.
 */
export function matchConditions(preset: CompiledPreset, review: () => Variables, budget: Budget): Match {
  if (preset.conditions.length === 0) return { outcome: 'matches' }
  return spend(budget, preset, (meter, whyOver) => {
    let failure: Match | undefined
    for (const condition of preset.conditions) {
      const result = condition.evaluate(review(), meter)
      if ('over' in result) return { outcome: 'failed', condition: condition.name, error: whyOver(result.over) }
      if ('error' in result) failure ??= { outcome: 'failed', condition: condition.name, error: result.error }
      else if (!result.isTrue) return { outcome: 'unmet', condition: condition.name }
    }
    return failure ?? { outcome: 'matches' }
  })
}

/** A default without an answer is left out; what is enforced may not be left out. */
export const conditionCause = (
  { id, conditions }: CompiledPreset,
  { condition, error }: Extract<Match, { outcome: 'failed' }>,
): Cause => ({
  rule: 'preset-condition',
  field: 'metadata',
  reason: 'FieldValueInvalid',
  message: `preset "${id}" enforces, and its condition "${condition}" cannot be decided: ${error}`,
  suggestion: `see ${conditions.find(({ name }) => name === condition)?.expression ?? condition}`,
})
