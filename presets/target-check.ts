import type { Cause } from '../api/cause.ts'
import { groupOf, type PresetTarget } from '../api/preset-target.ts'
import type { ObjectKind } from './object-kind.ts'
import { restrictedPathCauses } from './restricted.ts'

/** A kind that the API server serves, with the name of its resource, e.g. `deployments`. Or why it cannot be used. */
export type ServedKind =
  | { readonly kind: ObjectKind; readonly resource: string }
  | { readonly causes: readonly Cause[] }

/** The name that a target must have, so that a kind has at most one: `pods`, `deployments.apps`. */
export const targetName = (resource: string, apiVersion: string): string =>
  [resource, groupOf(apiVersion)].filter((part) => part !== '').join('.')

/** Checks a target with the kind that it names. */
export function checkPresetTarget({ metadata, spec }: PresetTarget, served: ServedKind): readonly Cause[] {
  if ('causes' in served) return served.causes
  const { kind, resource } = served
  const name = targetName(resource, spec.apiVersion)
  return [
    ...(metadata.name === name ? [] : [fault('metadata.name', metadata.name, `must be ${JSON.stringify(name)}`)]),
    ...(kind.isNamespaced || spec.namespaceSelector === undefined
      ? []
      : [fault('spec.namespaceSelector', undefined, `must be absent: a ${kind.noun} is in no namespace`)]),
    ...restrictedPathCauses(spec.restricted ?? [], kind.structure),
  ]
}

const fault = (field: string, value: unknown, message: string): Cause => ({
  rule: 'preset-target',
  field,
  value,
  reason: 'FieldValueInvalid',
  message,
})
