import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../api/cause.ts'
import { shorten } from '../api/shorten.ts'
import { isRecord } from '../api/schema.ts'
import type { Completed, Refused } from '../completion/complete.ts'
import { joinPath } from '../api/path.ts'
import { causeLine } from './scope.ts'

/** The expected result of a test. Members that it omits are not checked. */
export interface Expectation {
  /**
   * A part of the completed VM, or with `exact` the whole VM. Lists must be complete, and are compared item by item.
   */
  readonly completed?: unknown
  readonly exact?: boolean
  /**
   * Exactly these causes, in any order. A string must be contained in `FIELD: MESSAGE`; an object's members must equal
   * those of the cause.
   */
  readonly causes?: readonly unknown[]
  /** Exactly these warnings, in any order; each must contain its string. */
  readonly warnings?: readonly string[]
  /** Exactly the presets that were applied, in any order. */
  readonly presets?: readonly string[]
}

/** The actual result, in the form of an expectation. */
export interface Result {
  readonly completed: unknown
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
  readonly presets: readonly string[]
}

export const resultOf = (
  outcome: Completed | Pick<Refused, 'outcome' | 'causes' | 'warnings' | 'participants'>,
): Result => ({
  completed: outcome.outcome === 'completed' ? outcome.vm : undefined,
  causes: outcome.outcome === 'refused' ? outcome.causes : [],
  warnings: outcome.warnings,
  presets: outcome.participants.map(({ preset }) => preset.id).toSorted(),
})

/** The differences between the expected and the actual result, one line each. */
export function mismatches(expected: Expectation, result: Result): readonly string[] {
  const isCompletionExpected = expected.causes === undefined
  const different =
    expected.completed === undefined || result.completed === undefined
      ? []
      : differences(expected.completed, result.completed, expected.exact === true, '')
  return [
    ...(isCompletionExpected && result.completed === undefined
      ? result.causes.map((cause) => `refused: ${causeLine(cause)}`)
      : []),
    ...different,
    ...(different.length > 0 && result.presets.length === 0 ? [noPreset] : []),
    ...(expected.causes === undefined ? [] : unmatched('cause', expected.causes, result.causes, isCause, causeLine)),
    ...(expected.warnings === undefined
      ? []
      : unmatched(
          'warning',
          expected.warnings,
          result.warnings,
          (text, warning) => warning.includes(String(text)),
          String,
        )),
    ...(expected.presets === undefined
      ? []
      : unmatched('preset', expected.presets, result.presets, (id, preset) => preset === id, String)),
  ]
}

const noPreset = 'no preset was applied: compare its namespace and labels with those of the test'

/** Matches each expected item with the first unmatched actual item that fits. */
function unmatched<T>(
  what: string,
  expected: readonly unknown[],
  actual: readonly T[],
  fits: (expected: unknown, actual: T) => boolean,
  text: (actual: T) => string,
): string[] {
  const left = [...actual]
  const missing = expected.filter((one) => {
    const at = left.findIndex((candidate) => fits(one, candidate))
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
  return [
    ...missing.map((one) => `no such ${what}: ${typeof one === 'string' ? one : JSON.stringify(one)}`),
    ...left.map((one) => `unexpected ${what}: ${text(one)}`),
  ]
}

const isCause = (expected: unknown, cause: Cause): boolean =>
  isRecord(expected)
    ? Object.entries(expected).every(([key, value]) => isDeepStrictEqual(Reflect.get(cause, key), value))
    : causeLine(cause).includes(String(expected))

function differences(expected: unknown, actual: unknown, isExact: boolean, path: string): string[] {
  if (isRecord(expected) && isRecord(actual)) {
    const keys = isExact ? new Set([...Object.keys(expected), ...Object.keys(actual)]) : Object.keys(expected)
    return [...keys].flatMap((key) => differences(expected[key], actual[key], isExact, joinPath(path, key)))
  }
  if (Array.isArray(expected) && Array.isArray(actual)) {
    return Array.from({ length: Math.max(expected.length, actual.length) }, (_, index) =>
      differences(expected[index], actual[index], isExact, joinPath(path, index)),
    ).flat()
  }
  return isDeepStrictEqual(expected, actual) ? [] : [`${path}: expected ${shown(expected)}, got ${shown(actual)}`]
}

const shown = (value: unknown): string => (value === undefined ? 'nothing' : shorten(JSON.stringify(value), 80))
