import { joinPath } from './path.ts'
import { isRecord } from './schema.ts'

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

/** The paths of such integers. For values of limited depth. */
export function longIntegersIn(value: unknown, path: string): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => longIntegersIn(item, `${path}[${index}]`))
  if (isRecord(value)) {
    return Object.entries(value).flatMap(([key, member]) => longIntegersIn(member, joinPath(path, key)))
  }
  return mayBeRounded(value) ? [path] : []
}

interface Part {
  readonly value: object
  readonly above: Part | undefined
}

/**
 * The objects and lists of a value that have such an integer at any depth. Visits each part of it once. A value can be
 * nested deeper than the stack allows.
 */
export function holdersOfLongIntegers(value: object): ReadonlySet<unknown> {
  const found = new Set<unknown>()
  const waiting: Part[] = [{ value, above: undefined }]
  for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
    for (const member of Object.values(part.value)) {
      if (typeof member === 'object' && member !== null) waiting.push({ value: member, above: part })
      if (!mayBeRounded(member)) continue
      for (let at: Part | undefined = part; at !== undefined && !found.has(at.value); at = at.above) found.add(at.value)
    }
  }
  return found
}
