import { maxCpusetLength } from './limits.ts'

/** Consecutive numbers, including both. */
export interface Range {
  readonly first: number
  readonly last: number
}

/**
 * A set of CPUs or NUMA nodes in the form that libvirt prints: ascending, with adjacent numbers as ranges. `0-3,^2,8`
 * becomes `0-1,3,8`. An exclusion applies only to numbers before it.
 * @returns the text itself if it is not a valid set
 */
export const canonicalCpuset = (text: string): string => {
  const ranges = parse(text)
  return ranges === undefined ? text : cpusetText(ranges)
}

/** Sets are equal if their texts are. */
export const cpusetText = (ranges: readonly Range[]): string =>
  ranges.map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`)).join(',')

/** Whether a text is a valid set. An empty set is invalid, as in libvirt. */
export const isCpuset = (text: string): boolean => parse(text) !== undefined

interface Part extends Range {
  readonly isExcluded: boolean
}

/** White space only where nothing beside it can match it, so that the expression is linear. `text` is trimmed. */
const partForm = /^(\^\s*)?(\d{1,5})(?:\s*-\s*(\d{1,5}))?$/

/** Parses a set into ascending, disjoint ranges. Undefined if it is invalid or empty. */
const parse = (text: string): readonly Range[] | undefined => {
  if (text.length > maxCpusetLength) return undefined
  const parts: Part[] = []
  for (const part of text.split(',')) {
    const match = partForm.exec(part.trim())
    if (!match) return undefined
    const [, not, first, last = first] = match
    const range = { first: Number(first), last: Number(last), isExcluded: not !== undefined }
    if (range.last < range.first) return undefined
    parts.push(range)
  }
  const ranges = parts.some(({ isExcluded }) => isExcluded) ? withoutExcluded(parts) : union(parts)
  return ranges.length === 0 ? undefined : ranges
}

/** Ascending and disjoint; adjacent ranges are merged. */
const union = (ranges: readonly Range[]): Range[] => {
  const merged: Range[] = []
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (before === undefined || before.last < first - 1) merged.push({ first, last })
    else if (before.last < last) merged[merged.length - 1] = { first: before.first, last }
  }
  return merged
}

/**
 * The last part that has a number decides about it. From the last part to the first, each takes what is still free
 * between two borders, so each place is visited once, however often parts overlap.
 */
const withoutExcluded = (parts: readonly Part[]): Range[] => {
  const borders = [...new Set(parts.flatMap(({ first, last }) => [first, last + 1]))].toSorted((a, b) => a - b)
  const places = new Map(borders.map((border, place) => [border, place]))
  const placeOf = (border: number): number => places.get(border) ?? borders.length
  // For each place, one that is not behind the next free one.
  const next = borders.map((_, place) => place)
  const freeFrom = (start: number): number => {
    let place = start
    for (let to = next[place] ?? place; to !== place; to = next[place] ?? place) {
      next[place] = next[to] ?? to
      place = to
    }
    return place
  }
  const kept: Range[] = []
  for (const { first, last, isExcluded } of parts.toReversed()) {
    const end = placeOf(last + 1)
    for (let place = freeFrom(placeOf(first)); place < end; place = freeFrom(place)) {
      const [from, to] = [borders[place], borders[place + 1]]
      if (!isExcluded && from !== undefined && to !== undefined) kept.push({ first: from, last: to - 1 })
      next[place] = place + 1
    }
  }
  return union(kept)
}

/** The numbers from 0 to `count` - 1 that are in none of the sets, as a set; '' if there are none. */
export const restOf = (count: number, sets: readonly string[]): string => {
  const rest: Range[] = []
  let first = 0
  for (const taken of union(sets.flatMap((set) => parse(set) ?? []))) {
    const last = Math.min(taken.first, count) - 1
    if (first <= last) rest.push({ first, last })
    first = taken.last + 1
  }
  if (first < count) rest.push({ first, last: count - 1 })
  return cpusetText(rest)
}

/** Rules refuse larger numbers. */
const maxNumbers = 4096

/**
 * The numbers of a set such as `0-3,^2,8` as ascending, disjoint ranges; none if it is invalid.
 * @param most no more numbers. With one more than there are CPUs or nodes, these contain the first that does not exist
 */
export const rangesOf = (text: string | undefined, most = maxNumbers): readonly Range[] => {
  const ranges: Range[] = []
  let left = Math.min(most, maxNumbers)
  for (const { first, last } of (text === undefined ? undefined : parse(text)) ?? []) {
    if (left <= 0) break
    const end = Math.min(last, first + left - 1)
    ranges.push({ first, last: end })
    left -= end - first + 1
  }
  return ranges
}

/**
 * The numbers of a set such as `0-3,^2,8`, ascending. Two such lists must not be compared number by number: a few
 * characters can name thousands. `rangesOf` is for that.
 * @param most lists no more, as `rangesOf`
 */
export const numbersOf = (text: string | undefined, most = maxNumbers): readonly number[] =>
  rangesOf(text, most).flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, at) => first + at))

/** The ranges with only the numbers below `count`. */
export const rangesBelow = (ranges: readonly Range[], count: number): readonly Range[] =>
  ranges.flatMap(({ first, last }) => (first < count ? [{ first, last: Math.min(last, count - 1) }] : []))

/** The numbers of a list as a set, in any order. */
export const rangesOfNumbers = (numbers: readonly number[]): readonly Range[] =>
  union(numbers.map((number) => ({ first: number, last: number })))

/** The number of numbers. */
export const sizeOfRanges = (ranges: readonly Range[]): number =>
  ranges.reduce((size, { first, last }) => size + last - first + 1, 0)

/** The index of the first range that ends at or after `number`. */
const placeIn = (ranges: readonly Range[], number: number): number => {
  let [low, high] = [0, ranges.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ranges[middle]?.last ?? 0) < number) low = middle + 1
    else high = middle
  }
  return low
}

/** The lowest number of `one` that is not in `other`. */
export const firstOutside = (one: readonly Range[], other: readonly Range[]): number | undefined => {
  for (const { first, last } of one) {
    const found = other[placeIn(other, first)]
    if (found === undefined || found.first > first) return first
    // Adjacent ranges are merged, so the number after a range is not in the set.
    if (found.last < last) return found.last + 1
  }
  return undefined
}

/** More than the largest number that a set can name. */
const endOfNumbers = 100_000

/**
 * The item of a list that has each number. Finds what items have in common without comparing each with every other.
 * Every number is visited once as long as it has no other owner, and then ends the search.
 */
export interface Owners {
  /** The lowest of the numbers that has an owner other than `except`. */
  readonly find: (
    ranges: readonly Range[],
    except?: number,
  ) => { readonly number: number; readonly owner: number } | undefined
  /** @param owner the index of an item */
  readonly set: (ranges: readonly Range[], owner: number) => void
}

export const createOwners = (): Owners => {
  const owners = new Uint16Array(endOfNumbers)
  return {
    find(ranges, except = -1) {
      for (const { first, last } of ranges) {
        for (let number = first; number <= last; number += 1) {
          const owner = owners[number] ?? 0
          if (owner !== 0 && owner !== except + 1) return { number, owner: owner - 1 }
        }
      }
      return undefined
    },
    set(ranges, owner) {
      for (const { first, last } of ranges) owners.fill(owner + 1, first, last + 1)
    },
  }
}
