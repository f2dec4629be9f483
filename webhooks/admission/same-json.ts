/**
 * Whether two values of JSON are the same, whatever the order of keys. Without recursion: an object can be nested
 * deeper than the stack allows.
 */
export function isSameJson(one: unknown, other: unknown): boolean {
  const left: (readonly [unknown, unknown])[] = [[one, other]]
  for (let pair = left.pop(); pair !== undefined; pair = left.pop()) {
    const [first, second] = pair
    if (first === second) continue
    if (!isMembers(first) || !isMembers(second) || Array.isArray(first) !== Array.isArray(second)) return false
    // The keys of a list are a text for each item.
    if (Array.isArray(first) && Array.isArray(second) && first.length !== second.length) return false
    const keys = Object.keys(first)
    if (keys.length !== Object.keys(second).length) return false
    for (const key of keys) {
      if (!Object.hasOwn(second, key)) return false
      left.push([first[key], second[key]])
    }
  }
  return true
}

/** An object or a list. */
const isMembers = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null
