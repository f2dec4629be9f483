import { isRecord } from './schema.ts'

/**
 * Counts what a computation costs, in steps. A step is one value (a scalar, an object or a list) that one part of the
 * work looks at: at most some microseconds. Counted and not measured, so that the same arguments always give the same
 * answer.
 */
export interface Steps {
  /** Ends the computation once the limit is reached. */
  readonly spend: (steps: number) => void
}

/**
 * For one review: some five times what a VM with 400 devices and 20 presets takes, and about half a second of CPU at
 * most.
 */
export const maxSteps = 200_000

/**
 * For a VM that was completed before. It comes with all that was added, so each part looks at more of it, and its claim
 * is checked as well: what was accepted once must be accepted again.
 */
export const maxStepsAgain = 4 * maxSteps

/** For computations whose input is bounded elsewhere. */
export const unmetered: Steps = { spend() {} }

/**
 * What `run` returns, or what `refuse` does where `run` needs more steps than the limit. Nothing that `run` calls may
 * catch what it does not know.
 */
export function within<T>(limit: number, run: (steps: Steps) => T, refuse: () => T): T {
  const over = new Error(`more than ${limit} steps`)
  let left = limit
  const spend = (steps: number): void => {
    left -= steps
    if (left < 0) throw over
  }
  try {
    return run({ spend })
  } catch (error) {
    if (error === over) return refuse()
    throw error
  }
}

/** Long texts count for more than one value. */
const charactersPerStep = 64

/** How many steps it takes to look at each value once. Makes no lists of what it counts: it is done for every VM. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 1 + Math.floor(value.length / charactersPerStep)
  let size = 1
  if (Array.isArray(value)) for (const item of value) size += sizeOf(item)
  else if (isRecord(value)) for (const key in value) size += sizeOf(value[key])
  return size
}
