import type { Cause } from '../api/cause.ts'
import { isRecord } from '../api/schema.ts'

/** What is known of how a stored spec came about, by paths as kubectl prints them. */
export interface Remembered {
  /** Whether the user wrote the leaf that is stored there. */
  isUsers(path: string): boolean
  /** Whether the user had written something else there, maybe this, and a preset overrode it or took it away. */
  isOverridden(path: string, value: unknown): boolean
}

/** How many differences are told one by one; a wholly different spec needs no more. */
const maxDifferences = 50

/**
 * A stored spec is fixed, yet a manifest in git, which has only what its author wrote, must be appliable again and again. So
 * what completion added may be absent from `sent`: `restored` has it back. Completion appends to lists, hence items are
 * compared by their place. What differs, or is new, is a cause each, unless it is what the user had written before a preset
 * overrode it; so is what the user wrote at first and now leaves out.
 */
export function restoreSpec(
  sent: unknown,
  stored: unknown,
  remembered: Remembered,
): { readonly restored: unknown } | { readonly causes: Cause[] } {
  const causes = [...differences(sent, stored, 'spec', remembered)]
  if (causes.length === 0) return { restored: stored }
  const shown = causes.slice(0, maxDifferences)
  if (shown.length === causes.length) return { causes }
  return { causes: [...shown, fixed('spec', undefined, `and ${causes.length - shown.length} more differences`)] }
}

function differences(sent: unknown, stored: unknown, field: string, remembered: Remembered): Cause[] {
  if (remembered.isOverridden(field, sent)) return []
  if (isRecord(sent) && isRecord(stored)) {
    const keys = [...new Set([...Object.keys(sent), ...Object.keys(stored)])]
    return keys.flatMap((key) => {
      const at = /^\w+$/.test(key) ? `${field}.${key}` : `${field}[${key}]`
      if (!Object.hasOwn(stored, key)) {
        return remembered.isOverridden(at, sent[key]) ? [] : [fixed(at, sent[key], 'may not be added')]
      }
      if (!Object.hasOwn(sent, key)) return missing(stored[key], at, remembered)
      return differences(sent[key], stored[key], at, remembered)
    })
  }
  if (Array.isArray(sent) && Array.isArray(stored)) {
    const shorter = Math.min(sent.length, stored.length)
    return [
      ...stored
        .slice(0, shorter)
        .flatMap((item, index) => differences(sent[index], item, `${field}[${index}]`, remembered)),
      ...sent.slice(shorter).map((item, index) => fixed(`${field}[${shorter + index}]`, item, 'may not be added')),
      ...stored.slice(shorter).flatMap((item, index) => missing(item, `${field}[${shorter + index}]`, remembered)),
    ]
  }
  if (isSameScalar(sent, stored)) return []
  return [fixed(field, sent, `may not be changed from ${short(stored)}`)]
}

/** The first leaf of what is absent that the user had written; one cause tells of the whole subtree. */
function missing(stored: unknown, field: string, remembered: Remembered): Cause[] {
  return hasUsersLeaf(stored, field, remembered)
    ? [fixed(field, undefined, `may not be taken away: ${short(stored)}`)]
    : []
}

function hasUsersLeaf(stored: unknown, path: string, remembered: Remembered): boolean {
  if (Array.isArray(stored)) return stored.some((item, index) => hasUsersLeaf(item, `${path}[${index}]`, remembered))
  if (isRecord(stored))
    return Object.entries(stored).some(([key, item]) => hasUsersLeaf(item, `${path}.${key}`, remembered))
  return remembered.isUsers(path)
}

/** Whether two values are the same, but for the spelling of scalars. */
export function isSameValue(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => isSameValue(item, right[index]))
  }
  if (!isRecord(left) || !isRecord(right)) return isSameScalar(left, right)
  const keys = Object.keys(left)
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && isSameValue(left[key], right[key]))
  )
}

/** A decimal string equals its number, and a word of yes and no its truth value: spellings that the API calls equal. */
function isSameScalar(left: unknown, right: unknown): boolean {
  return left === right || (isScalar(left) && isScalar(right) && plain(left) === plain(right))
}

const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

const truths: ReadonlyMap<string, string> = new Map([
  ['yes', 'true'],
  ['on', 'true'],
  ['no', 'false'],
  ['off', 'false'],
])

function plain(value: string | number | boolean): string {
  if (typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return String(value)
  return truths.get(value) ?? value
}

function short(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`
}

const fixed = (field: string, value: unknown, message: string): Cause => ({
  rule: 'spec-immutable',
  field,
  ...(value === undefined ? {} : { value }),
  reason: value === undefined ? 'FieldValueForbidden' : 'FieldValueInvalid',
  message: `${message}; the spec of a VM is fixed once it is stored`,
})
