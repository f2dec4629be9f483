import type { Cause } from './cause.ts'

/**
 * Causes of the kinds that every field can have, as Kubernetes' own `field.Required`, `field.TypeInvalid` and so on.
 */

export const requiredField = (field: string): Cause => ({
  rule: 'required',
  field,
  reason: 'FieldValueRequired',
  message: 'must be given',
})

export const invalidValue = (rule: string, field: string, value: unknown, message: string): Cause => ({
  rule,
  field,
  value,
  reason: 'FieldValueInvalid',
  message,
})

/** @param wanted the type with its article: `an object` */
export const wrongType = (field: string, value: unknown, wanted: string): Cause => ({
  rule: 'type',
  field,
  ...scalarValue(value),
  reason: 'FieldValueTypeInvalid',
  message: `must be ${wanted}, not ${typeName(value)}`,
})

/** Omits objects: they are unreadable in one line, and a deeply nested one cannot be printed. */
export const scalarValue = (value: unknown): { readonly value?: unknown } =>
  typeof value === 'object' || value === undefined ? {} : { value }

function typeName(value: unknown): string {
  if (value === undefined) return 'missing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** The fix for a number or boolean in place of a string. */
export function quoted(value: number | boolean): string {
  if (typeof value === 'boolean')
    return `put it in quotes: without them, YAML reads ${value ? 'y, yes and on as true' : 'n, no and off as false'}`
  // A long integer is rounded by now: copied from here, it would be another serial number.
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return 'put it in quotes'
  return `put it in quotes: ${JSON.stringify(String(value))}`
}
