import { RE2JS } from 're2js'
import { takeBytes, takeSteps, type Meter } from './condition-budget.ts'
import { fail } from './condition-values.ts'

/** Instructions that a pattern may have. Those of a written pattern stay in memory as long as the preset does. */
export const largestPattern = 5000
/** Of a pattern that is a part of the object or put together: the author of the condition has not seen it. */
export const largestFound = 1000

/** Instructions of a pattern that are taken for one character of the text within one step. */
const instructionsPerStep = 4
/** A matcher, and the engine that it makes for each search. */
const matchSteps = 100

/** In linear time, as Kubernetes has it; JavaScript's own engine can be made to run for hours. */
export const matchCost = (characters: number, instructions: number): number =>
  matchSteps + Math.ceil(((characters + 1) * instructions) / instructionsPerStep)

/** Each instruction is an object; the parser and the compiler have a cost of their own. */
export const compileCost = (instructions: number): number => 200 + 40 * instructions

/** An instruction, and a thread of the matcher for it. */
export const patternBytes = (instructions: number): number => 200 * instructions

/** @throws for an invalid pattern, or one that is too large */
export function compilePattern(pattern: string, largest = largestPattern): RE2JS {
  if (unfoldedLength(pattern) > largest) throw new Error('too large')
  const compiled = RE2JS.compile(pattern)
  if (compiled.programSize() > largest) throw new Error('too large')
  return compiled
}

/** A class of Unicode's is a table of ranges. */
const namedClass = 50
/** Without regard to case, each character of a range is looked up: `(?i)[Ā-￿]` takes 2.5 ms. */
const foldedClass = 150
const foldedRange = 2500

/** Each pattern has these beside its own: one that fails, one that matches. */
const fixedInstructions = 3
/**
 * The instruction that decides whether to repeat. That of each copy is counted with what is copied: a character counts
 * as 2.
 */
const choice = 1

/**
 * An upper bound for the instructions of a pattern with each repetition written out, and for the cost of its classes.
 * It is computed before the library compiles the pattern, because compilation is what takes the time. Never less than
 * 0, whatever the pattern.
 */
export function unfoldedLength(pattern: string): number {
  const isFolded = /\(\?[a-zA-Z-]*i/.test(pattern)
  const weights = { named: isFolded ? foldedClass : namedClass, range: isFolded ? foldedRange : 2 }
  /** Lengths of the groups that are open; the first is the pattern. */
  const open = [fixedInstructions]
  /** Length of what a repetition would repeat, with the repetitions that it already has. */
  let atom = 0
  const lengthen = (length: number): void => void open.push((open.pop() ?? 0) + length)
  const add = (length: number): void => {
    atom = length
    lengthen(length)
  }
  for (const [token, , repeated] of pattern.matchAll(tokens)) {
    // Flags and an empty quotation produce nothing: a repetition after them repeats what is before them.
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

/**
 * A quoted text, a repetition, flags, a named class, a character by its number, an escaped character, a class, any
 * other character.
 */
const tokens =
  /\\Q.*?(?:\\E|$)|(\{(\d+(?:,\d*)?)\})|\(\?[a-zA-Z-]*\)|\\[pP](?:\{[^}]*\}|.)|\\x\{[0-9a-fA-F]+\}|\\.|\[\^?\]?(?:\[:\^?\w{1,10}:\]|\\.|[^\]\\])*\]?|./gsu

function classLength(text: string, { named, range }: { readonly named: number; readonly range: number }): number {
  const names = text.match(/\\p|\[:/gi)?.length ?? 0
  // Ranges of ASCII are short.
  const ranges = /[^\0-\x7f]|\\[xX0-7]/u.test(text) ? (text.match(/-/g)?.length ?? 0) : 0
  return 2 + text.length / 8 + names * named + ranges * range
}

export function matchesWritten(text: string, pattern: RE2JS, meter: Meter): boolean {
  takeSteps(meter, matchCost(text.length, pattern.programSize()))
  takeBytes(meter, patternBytes(pattern.programSize()))
  try {
    // Not `test`: that keeps up to 8 MiB of states for each pattern.
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
    return compilePattern(pattern, largestFound)
  } catch (error) {
    return fail(meter, error instanceof Error ? error.message : String(error))
  }
}
