/** Go has integers of 64 bits, of which JSON.parse keeps 53. From there on, both round alike. */
const end = 2 ** 64

/** Whether JSON.parse may have rounded an integer that the API server stores exactly. */
export const mayBeRounded = (value: unknown): boolean =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(Number(value)) <= end

/** Whether a value has such an integer anywhere. Visits each part of it once. */
export function hasLongInteger(value: unknown): boolean {
  const waiting = [value]
  while (waiting.length > 0) {
    const next = waiting.pop()
    if (mayBeRounded(next)) return true
    if (typeof next === 'object' && next !== null) for (const part of Object.values(next)) waiting.push(part)
  }
  return false
}

/** The objects and lists of a value that have such an integer at any depth. Visits each part once. */
export function holdersOfLongIntegers(value: unknown, found = new Set<unknown>()): ReadonlySet<unknown> {
  if (typeof value !== 'object' || value === null) return found
  for (const part of Object.values(value)) {
    holdersOfLongIntegers(part, found)
    if (mayBeRounded(part) || found.has(part)) found.add(value)
  }
  return found
}
