/**
 * The candidate that `word` is most likely a typo of, if any. Ignores case. At most a third of the letters (but at
 * least one) may be inserted, omitted, changed or swapped with a neighbour. Of equally near candidates, the first.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const lower = word.slice(0, maxLength).toLowerCase()
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(lower.length / 3)) + 1
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - lower.length) >= bestDistance) continue
    const distance = editDistance(lower, candidate.toLowerCase())
    if (distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

/** No key or word of libvirt or Kubernetes is longer. Bounds the work that a hostile key can cause. */
const maxLength = 64

/** The optimal string alignment distance: Levenshtein's, with a swap of neighbours as one step. */
export function editDistance(left: string, right: string): number {
  let before: number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
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
    }
    before = previous
    previous = current
  }
  return previous[right.length] ?? 0
}
