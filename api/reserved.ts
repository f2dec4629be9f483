import type { Cause } from './cause.ts'
import { keyPrefix } from './label.ts'
import { group } from './object.ts'

/** Whether a key of a label or annotation is reserved for virtset: `virtset.io/…` and its subdomains. */
export function isReservedKey(key: string): boolean {
  const prefix = keyPrefix(key)
  return prefix === group || prefix.endsWith(`.${group}`)
}

export const reservedKey = `keys of ${group} are reserved for virtset itself`

/** A cause for each reserved key in `keys`, except those in `allowed`. */
export const reservedKeyCauses = (
  keys: { readonly [key: string]: string },
  field: string,
  allowed: readonly string[] = [],
): Cause[] =>
  Object.entries(keys)
    .filter(([key]) => isReservedKey(key) && !allowed.includes(key))
    .map(([key, value]) => ({
      rule: 'reserved-key',
      field: `${field}[${key}]`,
      value,
      reason: 'FieldValueForbidden',
      message: reservedKey,
    }))
