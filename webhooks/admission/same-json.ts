/**
 * Whether two values of JSON are the same, whatever the order of keys. Without recursion: an object can be nested
 * deeper than the stack allows.
 */
export function isSameJson(one: unknown, other: unknown): boolean {
  const left: (readonly [unknown, unknown])[] = [[one, other]]
  for (let pair = left.pop(); pair !== undefined; pair = left.pop()) {
    const [first, second] = pair
    if (first === second) continue
    if (!isObject(first) || !isObject(second) || Array.isArray(first) !== Array.isArray(second)) return false
    const [entries, members] = [Object.entries(first), new Map(Object.entries(second))]
    if (entries.length !== members.size) return false
    for (const [key, value] of entries) {
      if (!members.has(key)) return false
      left.push([value, members.get(key)])
    }
  }
  return true
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
