import type { Cause } from './cause.ts'

/** Checks that a union has exactly one of its kinds. @param one what it is, with its article */
export function checkKind(value: object, kinds: readonly string[], rule: string, field: string, one: string): Cause[] {
  const [first, ...others] = kinds.filter((kind) => Object.hasOwn(value, kind))
  if (first === undefined) {
    return [{ rule, field, reason: 'FieldValueRequired', message: `must set one of: ${kinds.join(', ')}` }]
  }
  return others.map((kind) => ({
    rule,
    field: `${field}.${kind}`,
    reason: 'FieldValueForbidden',
    message: `conflicts with ${first}: ${one} has one kind`,
  }))
}
