import { isRecord } from './schema.ts'

/**
 * Counts the cost of a computation in steps. A step is one value (a scalar, an object or a list) visited by one part of
 * the work, which takes a few microseconds at most. The cost is counted rather than measured so that the same arguments
 * always yield the same result.
 */
export interface Steps {
  /** Aborts the computation once the limit is reached. */
  readonly spend: (steps: number) => void
}

/**
 * The limit for one review: about five times the cost of a VM with 400 devices and 20 presets, and at most about half a
 * second of CPU time.
 */
export const maxSteps = 200_000

/**
 * The limit for a VM that was completed before. It contains everything that completion added, so each part visits more,
 * and its claimed provenance is checked as well. What was accepted once must be accepted again.
 */
export const maxStepsAgain = 4 * maxSteps

/** For computations whose input is bounded elsewhere. */
export const unmetered: Steps = { spend() {} }

/**
 * Returns the result of `run`, or that of `refuse` if `run` exceeds the limit. No function that `run` calls may swallow
 * unknown errors.
 */
export function within<T>(limit: number, run: (steps: Steps) => T, refuse: () => T): T {
  // Created only when needed: recording its stack costs as much as a hundred steps.
  let over: Error | undefined
  let left = limit
  const spend = (steps: number): void => {
    left -= steps
    if (left < 0) throw (over ??= new Error(`more than ${limit} steps`))
  }
  try {
    return run({ spend })
  } catch (error) {
    if (over !== undefined && error === over) return refuse()
    throw error
  }
}

/** In bytes of JSON. A long string counts as several values. */
const bytesPerStep = 64

/** Most paths are shorter, in characters. */
const usualPath = 256

/** The path of a value below this level is long: each further level counts as one more value. */
const shallowLevels = 16

/**
 * The number of steps needed to visit each value once. A long key counts like a long string, also for each value below,
 * whose path contains it. It allocates no lists, because it runs for every VM.
 */
export function sizeOf(value: unknown, level = 0, longKeys = 0): number {
  const own = 1 + Math.max(0, level - shallowLevels) + longKeys
  if (typeof value === 'string') return own + stepsOfText(value)
  let size = own
  if (Array.isArray(value)) for (const item of value) size += sizeOf(item, level + 1, longKeys)
  else if (isRecord(value)) for (const key in value) size += sizeOf(value[key], level + 1, longKeys + stepsOfText(key))
  return size
}

/** In JSON, in which merging compares texts, a control character takes six bytes. */
const stepsOfText = (text: string): number =>
  text.length < bytesPerStep ? 0 : Math.floor((Buffer.byteLength(JSON.stringify(text)) - 2) / bytesPerStep)

/** What a long path takes in addition: keys have any length, and a wildcard of a preset repeats them in each item. */
export const stepsOfPath = ({ length }: string): number => Math.floor(length / usualPath)
