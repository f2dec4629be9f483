import type { Paint } from './paint.ts'

/** A line that is in both texts, only in the first, or only in the second. */
export interface DiffLine {
  readonly kind: ' ' | '-' | '+'
  readonly text: string
}

/**
 * The shortest way from one list of lines to another (Myers 1986, An O(ND) Difference Algorithm). What is taken away comes before
 * what is put in its place.
 */
export function diffLines(before: readonly string[], after: readonly string[]): readonly DiffLine[] {
  const trace = furthestReaches(before, after)
  const backwards: DiffLine[] = []
  let [x, y] = [before.length, after.length]
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reach = trace[edits] ?? new Map<number, number>()
    const diagonal = x - y
    const isInsertion = comesFromAbove(reach, diagonal, edits)
    const from = isInsertion ? diagonal + 1 : diagonal - 1
    const fromX = edits === 0 ? 0 : (reach.get(from) ?? 0)
    const fromY = edits === 0 ? 0 : fromX - from
    while (x > fromX && y > fromY && before[x - 1] === after[y - 1]) {
      backwards.push({ kind: ' ', text: before[x - 1] ?? '' })
      x--
      y--
    }
    if (edits === 0) break
    backwards.push(isInsertion ? { kind: '+', text: after[y - 1] ?? '' } : { kind: '-', text: before[x - 1] ?? '' })
    x = fromX
    y = fromY
  }
  return backwards.toReversed()
}

/** For each number of edits: how far along `before` each diagonal had come before them. */
function furthestReaches(before: readonly string[], after: readonly string[]): ReadonlyMap<number, number>[] {
  const reach = new Map<number, number>([[1, 0]])
  const trace: ReadonlyMap<number, number>[] = []
  for (let edits = 0; edits <= before.length + after.length; edits++) {
    trace.push(new Map(reach))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = comesFromAbove(reach, diagonal, edits)
        ? (reach.get(diagonal + 1) ?? 0)
        : (reach.get(diagonal - 1) ?? 0) + 1
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x++
      reach.set(diagonal, x)
      if (x >= before.length && x - diagonal >= after.length) return trace
    }
  }
  return trace
}

const comesFromAbove = (reach: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean =>
  diagonal === -edits || (diagonal !== edits && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1))

const contextLines = 3

/** As `diff -u` prints it, with three lines around each change; '' where there is none. */
export function unifiedDiff(names: readonly [string, string], before: string, after: string, paint: Paint): string {
  const lines = diffLines(linesOf(before), linesOf(after))
  const shown = lines.map((_, index) =>
    lines.slice(Math.max(0, index - contextLines), index + contextLines + 1).some(({ kind }) => kind !== ' '),
  )
  if (!shown.includes(true)) return ''
  const printed = [paint('bold', `--- ${names[0]}`), paint('bold', `+++ ${names[1]}`)]
  let [oldLine, newLine] = [1, 1]
  for (const [index, line] of lines.entries()) {
    if (shown[index] === true) {
      if (shown[index - 1] !== true) {
        const length = shown.slice(index).indexOf(false)
        const hunk = lines.slice(index, length < 0 ? undefined : index + length)
        printed.push(paint('cyan', `@@ -${oldLine},${count(hunk, '+')} +${newLine},${count(hunk, '-')} @@`))
      }
      printed.push(painted(line, paint))
    }
    if (line.kind !== '+') oldLine++
    if (line.kind !== '-') newLine++
  }
  return `${printed.join('\n')}\n`
}

const linesOf = (text: string): string[] => text.replace(/\n$/, '').split('\n')

const count = (lines: readonly DiffLine[], without: '+' | '-'): number =>
  lines.filter(({ kind }) => kind !== without).length

function painted({ kind, text }: DiffLine, paint: Paint): string {
  if (kind === ' ') return ` ${text}`
  return paint(kind === '+' ? 'green' : 'red', `${kind}${text}`)
}
