import type { Cause } from './cause.ts'
import { keyPrefix } from './label.ts'
import { group } from './object.ts'

/** Keys of labels and annotations that belong to virtset: `virtset.io/…` and those of its own sub-domains. */
export function isReservedKey(key: string): boolean {
  const prefix = keyPrefix(key)
  return prefix === group || prefix.endsWith(`.${group}`)
}

/** A cause for each reserved key in `keys`, but for those in `allowed`. */
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
      message: `keys of ${group} are reserved for virtset itself`,
    }))
