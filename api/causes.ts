import type { Cause } from './cause.ts'

/**
 * The maximum number of causes that a refusal lists. A request with more faults must not cost more, and users do not
 * read more. One last cause counts the others.
 */
export const maxCauses = 256

const rule = 'too-many-faults'

/**
 * Accumulates causes. Those beyond the limit are only counted, because making a cause (with the nearest valid name) is
 * the expensive part.
 */
export interface Causes {
  readonly list: Cause[]
  more: number
}

export const noCauses = (): Causes => ({ list: [], more: 0 })

/** Calls `make` only below the limit. */
export const report = (causes: Causes, make: () => Cause): void => {
  if (causes.list.length < maxCauses) causes.list.push(make())
  else causes.more += 1
}

/** @param field the path of the checked value, under which the count of the other causes is reported */
export const listCauses = ({ list, more }: Causes, field: string): Cause[] =>
  more === 0 ? list : [...list, andMore(more, field)]

/** Caps the causes of several checks together, and adds up what the checks did not list. */
export function capCauses(causes: readonly Cause[], field: string): readonly Cause[] {
  if (causes.length <= maxCauses) return causes
  const shown = causes.filter((cause) => cause.rule !== rule)
  const counted = causes.reduce((sum, { rule: of, value }) => (of === rule ? sum + Number(value) : sum), 0)
  const more = counted + Math.max(0, shown.length - maxCauses)
  return [...shown.slice(0, maxCauses), ...(more === 0 ? [] : [andMore(more, field)])]
}

/** Whether some causes were only counted. */
export const isCapped = (causes: readonly Cause[]): boolean => causes.some((cause) => cause.rule === rule)

const andMore = (value: number, field: string): Cause => ({
  rule,
  field,
  value,
  reason: 'FieldValueTooMany',
  message: 'more faults are not listed',
  suggestion: 'fix the ones above first',
})

/** Causes as they are logged. Values can be secrets, and messages can contain values. */
export const loggedCauses = (causes: readonly Cause[]): string[] =>
  causes.slice(0, 20).map(({ rule, field }) => `${rule} ${field}`)
