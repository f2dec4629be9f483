import { longestStatusMessage, type Condition } from '../api/object.ts'
import { shorten, shortenToBytes } from '../api/shorten.ts'
import { shownLine } from './shown-text.ts'

/** A condition without its transition time. */
export type NewCondition = Omit<Condition, 'lastTransitionTime'>

/**
 * A message as a status or an event has it: shortened, in one line, with only characters that can be shown. Some quote what others
 * write, such as an event of a pod. The API server's refusal of a pod quotes what the user wrote, and can have megabytes.
 * @param longest bytes of UTF-8
 */
export const statusMessage = (text: string, longest = longestStatusMessage): string =>
  // First to what is certainly too long unless there is indentation in it, which is left out.
  shortenToBytes(shownLine(shorten(text, longest + 2)), longest)

/**
 * The conditions with this one replaced or added. `lastTransitionTime` is `now` (RFC 3339) only if the status changed.
 * Its message is shortened as `statusMessage` does. Without a change, it returns the same array.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  given: NewCondition,
  now: string,
): readonly Condition[] {
  const condition = { ...given, message: statusMessage(given.message) }
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
