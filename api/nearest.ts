/**
 * The candidate that `word` is most likely a typo of, if any. Ignores case. At most a third of the letters (but at
 * least one) may be inserted, omitted, changed or swapped with a neighbor. Of equally near candidates, the first. If
 * only one candidate begins with `word`, it is that one: `cd` means `cdrom`, not `fd`.
 * @param candidates pass the same array for the same candidates (`fieldNames`), so that they are prepared only once
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const lower = word.slice(0, maxLength).toLowerCase()
  const letters = lettersOf(lower)
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(lower.length / 3)) + 1
  const [longer, another] = lower.length > 1 ? beginningWith(lower, preparedFrom(candidates)) : []
  if (longer !== undefined && another === undefined) return longer
  for (const candidate of preparedFrom(candidates)) {
    if (Math.abs(candidate.lower.length - lower.length) >= bestDistance) continue
    if (lettersApart(letters, candidate.letters) >= bestDistance) continue
    const distance = editDistance(lower, candidate.lower, bestDistance)
    if (distance >= bestDistance) continue
    best = candidate.text
    bestDistance = distance
  }
  return best
}

/** The first two candidates that begin with `lower`. */
function beginningWith(lower: string, candidates: readonly Prepared[]): string[] {
  const found: string[] = []
  for (const candidate of candidates) {
    if (!candidate.lower.startsWith(lower)) continue
    found.push(candidate.text)
    if (found.length === 2) break
  }
  return found
}

/** No key or word of libvirt or Kubernetes is longer. Bounds the work that a hostile key can cause. */
const maxLength = 64

interface Prepared {
  readonly text: string
  readonly lower: string
  readonly letters: number
}

const prepared = new WeakMap<object, readonly Prepared[]>()

function preparedFrom(candidates: Iterable<string>): readonly Prepared[] {
  const known = prepared.get(candidates as object)
  if (known !== undefined) return known
  const made = [...candidates].map((text) => {
    const lower = text.toLowerCase()
    return { text, lower, letters: lettersOf(lower) }
  })
  prepared.set(candidates as object, made)
  return made
}

const names = new WeakMap<object, readonly string[]>()

/** The names of fields; the same array each time. */
export function fieldNames(fields: object): readonly string[] {
  const known = names.get(fields) ?? Object.keys(fields)
  names.set(fields, known)
  return known
}

/** A set of the characters in a text, as bits; several characters share one. */
function lettersOf(text: string): number {
  let letters = 0
  for (let index = 0; index < text.length; index++) letters |= 1 << (text.charCodeAt(index) & 31)
  return letters
}

/** A lower bound for the distance: each step adds and removes at most one character. */
const lettersApart = (left: number, right: number): number => Math.max(bits(left & ~right), bits(right & ~left))

function bits(set: number): number {
  let count = 0
  for (let rest = set; rest !== 0; rest &= rest - 1) count++
  return count
}

/**
 * The optimal string alignment distance: Levenshtein's, with a swap of neighbors as one step.
 * @param limit ends the search as soon as the distance cannot be less, and returns the limit
 */
export function editDistance(left: string, right: string, limit = Infinity): number {
  let before: number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    let least = row
    for (let column = 1; column <= right.length; column++) {
      const isSame = left[row - 1] === right[column - 1]
      let cost = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (isSame ? 0 : 1),
      )
      const isSwapped =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      if (isSwapped) cost = Math.min(cost, (before[column - 2] ?? 0) + 1)
      current.push(cost)
      if (cost < least) least = cost
    }
    // A swap continues from the row before, which is at most one step less.
    if (least > limit) return limit
    before = previous
    previous = current
  }
  return Math.min(limit, previous[right.length] ?? 0)
}
