/**
 * Freezes a value parsed from JSON, which has no cycles. It does not recurse, because an object can be nested deeper
 * than the stack allows. Assumes that a frozen value is frozen throughout.
 */
export function deepFreeze<T>(value: T): T {
  const left: unknown[] = [value]
  while (left.length > 0) {
    const next = left.pop()
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue
    // Not `push(...values)`, which puts every value on the stack.
    for (const member of Object.values(Object.freeze(next))) left.push(member)
  }
  return value
}
