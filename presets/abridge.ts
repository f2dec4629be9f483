import { compareText } from './source.ts'

/** As many presets or fields as a message needs to show the problem. */
export const maxNamed = 3

/** `a, b, c and 4 more`, so that a message has a bounded length whatever it is about. */
export function nameSome(names: readonly string[], separator = ', '): string {
  if (names.length <= maxNamed) return names.join(separator)
  return `${names.slice(0, maxNamed).join(', ')} and ${names.length - maxNamed} more`
}

/** The API server forwards 4096 characters of warnings: more of them would not arrive. */
const maxWarnings = 32

/** One warning for each of the first items, sorted. The others are counted, and their texts are never built. */
export function firstWarnings<T>(
  items: readonly T[],
  warning: (item: T) => string,
  others: (count: number) => string,
): string[] {
  const shown = items.slice(0, maxWarnings).map(warning).toSorted(compareText)
  return items.length > maxWarnings ? [...shown, others(items.length - maxWarnings)] : shown
}
