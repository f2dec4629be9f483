import type { Condition } from '../api/object.ts'

/**
 * The conditions with this one set: in its old place, or at the end. `lastTransitionTime` moves only with the status, and a
 * condition that says the same as before is the same object, so that nothing is written for it.
 */
export function withCondition(
  conditions: readonly Condition[],
  asserted: Omit<Condition, 'lastTransitionTime'>,
  now: Date,
): readonly Condition[] {
  const before = conditions.find(({ type }) => type === asserted.type)
  const lastTransitionTime = before?.status === asserted.status ? before.lastTransitionTime : now.toISOString()
  const condition = { ...asserted, lastTransitionTime }
  if (before === undefined) return [...conditions, condition]
  return conditions.map((one) => (one === before ? condition : one))
}
