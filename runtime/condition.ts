import { longestConditionMessage } from '../api/object.ts'
import type { Condition } from '../api/object.ts'
import { shortenToBytes } from '../api/shorten.ts'
import { shownText } from './shown-text.ts'

/** A condition without its transition time. */
export type NewCondition = Omit<Condition, 'lastTransitionTime'>

/**
 * The conditions with this one replaced or added. `lastTransitionTime` is `now` (RFC 3339) only if the status changed.
 * A message that the API server would refuse for its length is shortened, and has only characters that can be shown.
 * Without a change, it returns the same array.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  given: NewCondition,
  now: string,
): readonly Condition[] {
  const condition = { ...given, message: shortenToBytes(shownText(given.message), longestConditionMessage) }
  const before = conditions?.find(({ type }) => type === condition.type)
  if (!before) return [...(conditions ?? []), { ...condition, lastTransitionTime: now }]
  const lastTransitionTime = before.status === condition.status ? before.lastTransitionTime : now
  const after = { ...condition, lastTransitionTime }
  if (conditions && isSame(before, after)) return conditions
  return (conditions ?? []).map((existing) => (existing.type === condition.type ? after : existing))
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  for (const condition of conditions ?? []) if (condition.type === type) return condition
  return undefined
}

function isSame(a: Condition, b: Condition): boolean {
  return (
    a.status === b.status &&
    a.reason === b.reason &&
    a.message === b.message &&
    a.observedGeneration === b.observedGeneration &&
    a.lastTransitionTime === b.lastTransitionTime
  )
}
