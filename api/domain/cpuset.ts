/**
 * A set of CPUs or NUMA nodes as libvirt prints it: ascending, neighbours as ranges. `0-3,^2,8` is `0-1,3,8`; what is excluded must
 * have been named before.
 * @returns the text itself where it is no such set
 */
export const canonicalCpuset = (text: string): string => {
  const ranges = rangesOf(text)
  return ranges === undefined
    ? text
    : ranges.map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`)).join(',')
}

/** Whether a text is such a set, and not an empty one: libvirt has no use for that. */
export const isCpuset = (text: string): boolean => rangesOf(text) !== undefined

/** Longer than any list of all CPUs of a machine; bounds the work. */
const maxLength = 16_384

const rangesOf = (text: string): Range[] | undefined => {
  if (text.length > maxLength) return undefined
  let ranges: Range[] = []
  for (const part of text.split(',')) {
    const match = /^\s*(\^)?\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*$/.exec(part)
    if (!match) return undefined
    const [, not, first, last = first] = match
    const range = { first: Number(first), last: Number(last) }
    if (range.last < range.first) return undefined
    if (not === undefined) ranges.push(range)
    else ranges = merge(ranges).flatMap((other) => without(other, range))
  }
  return ranges.length === 0 ? undefined : merge(ranges)
}

/** The numbers of a set in its canonical form; none where it is no such set. */
export const numbersIn = (set: string): number[] =>
  set.split(',').flatMap((range) => {
    const [, first, last = first] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(range) ?? []
    if (first === undefined || Number(last) - Number(first) > 100_000) return []
    return Array.from({ length: Number(last) - Number(first) + 1 }, (_, index) => Number(first) + index)
  })

interface Range {
  readonly first: number
  readonly last: number
}

const without = (range: Range, hole: Range): Range[] => [
  ...(range.first < hole.first ? [{ first: range.first, last: Math.min(range.last, hole.first - 1) }] : []),
  ...(range.last > hole.last ? [{ first: Math.max(range.first, hole.last + 1), last: range.last }] : []),
]

const merge = (ranges: readonly Range[]): Range[] => {
  const merged: Range[] = []
  for (const range of ranges.toSorted((left, right) => left.first - right.first)) {
    const previous = merged.at(-1)
    if (!previous || previous.last + 1 < range.first) merged.push(range)
    else merged[merged.length - 1] = { first: previous.first, last: Math.max(previous.last, range.last) }
  }
  return merged
}
