import type { Cause } from '../api/cause.ts'
import { shorten } from '../api/shorten.ts'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import type { Namespace } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import { celValue } from './condition.ts'
import { spend, type Budget } from './condition-budget.ts'
import type { Subject } from './kind.ts'
import type { Variables } from './condition-run.ts'

/** The result of a preset's conditions for an object. */
export type Match =
  | { readonly outcome: 'matches' }
  | { readonly outcome: 'unmet'; readonly condition: string }
  | Failure

export interface Failure {
  readonly outcome: 'failed'
  readonly condition: string
  readonly error: string
}

/**
 * The variables of conditions: the object as its user sent it, the request and the namespace. Created on first use.
 * @param request an AdmissionRequest as the API server sends it; {} offline
 */
export function conditionInput(object: Subject, namespace: Namespace, request: unknown): () => Variables {
  let made: Variables | undefined
  return () => {
    made ??= makeVariables(object, namespace, request)
    return made
  }
}

function makeVariables(given: Subject, { name, labels }: Namespace, request: unknown): Variables {
  const object = withoutProvenance(given)
  // As in Kubernetes, it is null for a cluster-scoped object.
  const namespaceObject = name === '' ? null : { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }
  return {
    object: celValue(object),
    request: celValue(request),
    namespaceObject: celValue(namespaceObject),
  }
}

/** The provenance annotation does not come from the user. */
function withoutProvenance(object: Subject): Subject {
  const { annotations } = object.metadata
  if (annotations?.[completedByAnnotation] === undefined) return object
  const { [completedByAnnotation]: _, ...others } = annotations
  return { ...object, metadata: { ...object.metadata, annotations: others } }
}

/**
 * Evaluates a preset's conditions. If one is false the preset does not match, even if others fail. Evaluation ends when
 * the budget is exhausted.
 */
export function matchConditions(preset: CompiledPreset, input: () => Variables, budget: Budget): Match {
  if (preset.conditions.length === 0) return { outcome: 'matches' }
  return spend(budget, preset, (meter, whyOver) => {
    let failure: Match | undefined
    for (const condition of preset.conditions) {
      const result = condition.evaluate(input(), meter)
      if ('over' in result) return { outcome: 'failed', condition: condition.name, error: whyOver(result.over) }
      if ('error' in result) failure ??= { outcome: 'failed', condition: condition.name, error: result.error }
      else if (!result.isTrue) return { outcome: 'unmet', condition: condition.name }
    }
    return failure ?? { outcome: 'matches' }
  })
}

const maxExpression = 256

/**
 * A Default preset whose condition fails is left out. An Enforce preset must not be left out, so the object is refused.
 */
export const conditionCause = ({ id, conditions }: CompiledPreset, { condition, error }: Failure): Cause => ({
  rule: 'preset-condition',
  field: 'metadata',
  reason: 'FieldValueInvalid',
  message: `preset "${id}" has strength Enforce, but its condition "${condition}" cannot be evaluated: ${error}`,
  suggestion: `see ${shorten(conditions.find(({ name }) => name === condition)?.expression ?? condition, maxExpression)}`,
})
