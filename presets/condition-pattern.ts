import { RE2JS } from 're2js'
import { takeBytes, takeSteps, type Meter } from './condition-budget.ts'
import { fail } from './condition-values.ts'

/** The maximum instructions of literal patterns, which stay in memory as long as the preset. */
export const largestPattern = 5000
/** The maximum instructions of a pattern computed at run time, which the author of the condition cannot foresee. */
export const largestFound = 1000

/** Instructions that the matcher executes per step for one character of the text. */
const instructionsPerStep = 4
/** Steps to create a matcher and its engine, which each search does. */
const matchSteps = 100

/** RE2 takes linear time, as in Kubernetes; JavaScript's own engine can be made to run for hours. */
export const matchCost = (characters: number, instructions: number): number =>
  matchSteps + Math.ceil(((characters + 1) * instructions) / instructionsPerStep)

/** The steps to parse and compile a pattern. Each instruction is an object. */
export const compileCost = (instructions: number): number => 200 + 40 * instructions

/** The bytes of the instructions, and of a thread of the matcher for each. */
export const patternBytes = (instructions: number): number => 200 * instructions

/** The instructions that a Unicode class counts as. It is a table of ranges. */
const namedClass = 50
/** The same for patterns that ignore case, which look up each character of a range: `(?i)[Ā-￿]` takes 2.5 ms. */
const foldedClass = 150
const foldedRange = 2500

/** Instructions that every pattern has in addition to its own, such as fail and match. */
const fixedInstructions = 3
/** The instruction that decides whether to repeat. Copies include their own, because a character counts as 2. */
const choice = 1

/**
 * Returns an upper bound for the instructions of a pattern with each repetition expanded, and for the cost of its
 * classes. It is computed before the library compiles the pattern, because compilation is the expensive part. Never
 * negative.
 */
export function unfoldedLength(pattern: string): number {
  const isFolded = /\(\?[a-zA-Z-]*i/.test(pattern)
  const weights = { named: isFolded ? foldedClass : namedClass, range: isFolded ? foldedRange : 2 }
  /** The lengths of the open groups; the first is the whole pattern. */
  const open = [fixedInstructions]
  /** The length of the expression that a repetition would apply to, including repetitions already applied to it. */
  let atom = 0
  const lengthen = (length: number): void => void open.push((open.pop() ?? 0) + length)
  const add = (length: number): void => {
    atom = length
    lengthen(length)
  }
  for (const [token, , repeated] of pattern.matchAll(tokens)) {
    // Flags and empty quotations produce nothing, so a repetition after them applies to what precedes them.
    if (producesNothing.test(token)) continue
    if (repeated !== undefined) {
      const whole = atom * Math.max(1, ...repeated.split(',').map(Number)) + choice
      lengthen(whole - atom)
      atom = whole
    } else if (/^[?*+]$/.test(token)) {
      lengthen(3 * choice)
      atom += 3 * choice
    } else if (token === '(') open.push(4)
    else if (token === ')' && open.length > 1) add(open.pop() ?? 0)
    else if (token.startsWith('[')) add(classLength(token, weights))
    else if (/^\\p/i.test(token)) add(weights.named)
    else add(token.startsWith('\\Q') ? 2 * token.length : 2)
  }
  return open.reduce((total, length) => total + length, 0)
}

const producesNothing = /^(?:\(\?[a-zA-Z-]*\)|\\Q(?:\\E)?)$/

/** Quoted text, repetition, flags, Unicode class, character code, escaped character, class, any other character. */
const tokens =
  /\\Q.*?(?:\\E|$)|(\{(\d+(?:,\d*)?)\})|\(\?[a-zA-Z-]*\)|\\[pP](?:\{[^}]*\}|.)|\\x\{[0-9a-fA-F]+\}|\\.|\[\^?\]?(?:\[:\^?\w{1,10}:\]|\\.|[^\]\\])*\]?|./gsu

function classLength(text: string, { named, range }: { readonly named: number; readonly range: number }): number {
  const names = text.match(/\\p|\[:/gi)?.length ?? 0
  // ASCII ranges are short, so they cost nothing extra.
  const ranges = /[^\0-\x7f]|\\[xX0-7]/u.test(text) ? (text.match(/-/g)?.length ?? 0) : 0
  return 2 + text.length / 8 + names * named + ranges * range
}

export function matchesWritten(text: string, pattern: RE2JS, meter: Meter): boolean {
  takeSteps(meter, matchCost(text.length, pattern.programSize()))
  takeBytes(meter, patternBytes(pattern.programSize()))
  try {
    // `test` would cache up to 8 MiB of states for each pattern.
    return pattern.matcher(text).find()
  } finally {
    pattern.reset()
  }
}

export function matchesFound(text: string, pattern: string, meter: Meter): boolean {
  const instructions = pattern.length > largestFound ? Infinity : unfoldedLength(pattern)
  if (instructions > largestFound) return fail(meter, 'the pattern is too large')
  takeSteps(meter, compileCost(instructions))
  takeBytes(meter, patternBytes(instructions))
  return matchesWritten(text, compileFound(pattern, meter), meter)
}

function compileFound(pattern: string, meter: Meter): RE2JS {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    return fail(meter, error instanceof Error ? error.message : String(error))
  }
}
