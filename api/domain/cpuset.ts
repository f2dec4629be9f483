/**
 * A set of CPUs or NUMA nodes in the form that libvirt prints: ascending, with adjacent numbers as ranges. `0-3,^2,8`
 * becomes `0-1,3,8`. An exclusion applies only to numbers before it.
 * @returns the text itself if it is not a valid set
 */
export const canonicalCpuset = (text: string): string => {
  const ranges = rangesOf(text)
  return ranges === undefined ? text : textOf(ranges)
}

const textOf = (ranges: readonly Range[]): string =>
  ranges.map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`)).join(',')

/** Whether a text is a valid set. An empty set is invalid, as in libvirt. */
export const isCpuset = (text: string): boolean => rangesOf(text) !== undefined

/** Longer than a list of all CPUs of any machine; bounds the work. */
const maxLength = 16_384

/** Parses a set into ascending, disjoint ranges, which allow binary search. */
const rangesOf = (text: string): Range[] | undefined => {
  if (text.length > maxLength) return undefined
  const ranges: Range[] = []
  for (const part of text.split(',')) {
    const match = /^\s*(\^)?\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*$/.exec(part)
    if (!match) return undefined
    const [, not, first, last = first] = match
    const range = { first: Number(first), last: Number(last) }
    if (range.last < range.first) return undefined
    if (not === undefined) include(ranges, range)
    else exclude(ranges, range)
  }
  return ranges.length === 0 ? undefined : ranges
}

/** The numbers from 0 to `count` - 1 that are in none of the sets, as a set; '' if there are none. */
export const restOf = (count: number, sets: readonly string[]): string => {
  const rest = count < 1 ? [] : [{ first: 0, last: count - 1 }]
  for (const range of sets.flatMap((set) => rangesOf(set) ?? [])) exclude(rest, range)
  return textOf(rest)
}

interface Range {
  readonly first: number
  readonly last: number
}

/** The index of the first range that ends at or after `number`. */
const placeOf = (ranges: readonly Range[], number: number): number => {
  let [low, high] = [0, ranges.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ranges[middle]?.last ?? 0) < number) low = middle + 1
    else high = middle
  }
  return low
}

/** The number of consecutive ranges from index `begin` on that start at or before `number`. */
const countUpTo = (ranges: readonly Range[], begin: number, number: number): number => {
  let end = begin
  while ((ranges[end]?.first ?? Infinity) <= number) end += 1
  return end - begin
}

const include = (ranges: Range[], { first, last }: Range): void => {
  // Adjacent ranges are merged.
  const begin = placeOf(ranges, first - 1)
  const count = countUpTo(ranges, begin, last + 1)
  const merged = {
    first: Math.min(first, count === 0 ? first : (ranges[begin]?.first ?? first)),
    last: Math.max(last, count === 0 ? last : (ranges[begin + count - 1]?.last ?? last)),
  }
  ranges.splice(begin, count, merged)
}

const exclude = (ranges: Range[], { first, last }: Range): void => {
  const begin = placeOf(ranges, first)
  const count = countUpTo(ranges, begin, last)
  const [before, after] = [ranges[begin], ranges[begin + count - 1]]
  if (count === 0 || !before || !after) return
  ranges.splice(
    begin,
    count,
    ...(before.first < first ? [{ first: before.first, last: first - 1 }] : []),
    ...(after.last > last ? [{ first: last + 1, last: after.last }] : []),
  )
}

/** Rules refuse larger numbers. */
const maxNumbers = 4096

/**
 * The numbers of a set such as `0-3,^2,8`, ascending.
 * @param most lists no more. With one more than there are CPUs or nodes, these contain the first that does not exist,
 * and the work does not depend on the set, which can name 100,000 with a few characters
 */
export const numbersOf = (text: string | undefined, most = maxNumbers): readonly number[] => {
  const limit = Math.min(most, maxNumbers)
  if (text === undefined || text === '') return []
  const numbers: number[] = []
  for (const part of canonicalCpuset(text).split(',')) {
    const [first, last = first] = part.split('-').map(Number)
    if (first === undefined || last === undefined || Number.isNaN(first) || Number.isNaN(last)) return []
    for (let number = first; number <= last && numbers.length < limit; number += 1) numbers.push(number)
  }
  return numbers
}
