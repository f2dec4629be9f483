import { compareText } from './source.ts'

/** The number of presets or fields that a message names before it abbreviates the list. */
export const maxNamed = 3

/** Formats names as `a, b, c and 4 more`, which bounds the length of a message. */
export function nameSome(names: readonly string[], separator = ', '): string {
  if (names.length <= maxNamed) return names.join(separator)
  return `${names.slice(0, maxNamed).join(', ')} and ${names.length - maxNamed} more`
}

/** The API server forwards at most 4096 characters of warnings, so more warnings than this would be dropped. */
const maxWarnings = 32

/** One warning for each of the first items, sorted, and one that counts the others. Their texts are never built. */
export function firstWarnings<T>(
  items: readonly T[],
  warning: (item: T) => string,
  others: (count: number) => string,
): string[] {
  const shown = items.slice(0, maxWarnings).map(warning).toSorted(compareText)
  return items.length > maxWarnings ? [...shown, others(items.length - maxWarnings)] : shown
}
