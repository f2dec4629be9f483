import type { Cause } from './cause.ts'

/**
 * How many causes a refusal lists, because a request with more mistakes must not cost more, and no user reads more. The
 * others are counted in one last cause.
 */
export const maxCauses = 256

const rule = 'too-many-faults'

/**
 * Causes as they are found. Beyond the limit they are only counted: to make one, with its nearest name, is the
 * expensive part.
 */
export interface Causes {
  readonly list: Cause[]
  more: number
}

export const noCauses = (): Causes => ({ list: [], more: 0 })

/** Calls `make` only while there is room. */
export const report = (causes: Causes, make: () => Cause): void => {
  if (causes.list.length < maxCauses) causes.list.push(make())
  else causes.more += 1
}

/** @param field the path of the checked value, under which the count of the other causes is reported */
export const listCauses = ({ list, more }: Causes, field: string): Cause[] =>
  more === 0 ? list : [...list, andMore(more, field)]

/** The first causes of several checks together. */
export function capCauses(causes: readonly Cause[], field: string): readonly Cause[] {
  if (causes.length <= maxCauses) return causes
  const shown = causes.filter((cause) => cause.rule !== rule)
  const counted = causes.reduce((sum, { rule: of, value }) => (of === rule ? sum + Number(value) : sum), 0)
  const more = counted + Math.max(0, shown.length - maxCauses)
  return [...shown.slice(0, maxCauses), ...(more === 0 ? [] : [andMore(more, field)])]
}

/** Whether there are more causes than a refusal names. */
export const isCapped = (causes: readonly Cause[]): boolean => causes.some((cause) => cause.rule === rule)

const andMore = (value: number, field: string): Cause => ({
  rule,
  field,
  value,
  reason: 'FieldValueTooMany',
  message: 'more faults are not listed',
  suggestion: 'fix the ones above first',
})
