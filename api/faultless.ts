import type { Cause } from './cause.ts'
import { isRecord } from './schema.ts'

type Step = string | number

/** How often it is tried: what is faulty still goes with what it stands in. */
const maxRounds = 6

/**
 * A value without what is wrong in it, so that the rest can be judged in the same answer: the faulty leaves go, and where that does not
 * help what they stand in. What comes in is not changed.
 * @param check tells what is wrong; `field` as kubectl prints it
 * @returns undefined where no rest passes the check
 */
export function faultless(
  value: unknown,
  check: (value: unknown) => readonly Cause[],
): { readonly rest: unknown; readonly without: readonly string[] } | undefined {
  let rest = value
  const without = new Set<string>()
  for (let round = 0; round < maxRounds; round += 1) {
    const causes = check(rest)
    if (causes.length === 0) return { rest, without: [...without] }
    for (const { field } of causes) {
      const steps = existing(rest, stepsOf(field))
      if (steps.length === 0) return undefined
      rest = omit(rest, steps)
      without.add(fieldOf(steps))
    }
  }
  return undefined
}

/** `spec.domain.disks[1]` and `labels[a/b]` in steps; a number is an index. */
const stepsOf = (field: string): Step[] =>
  [...field.matchAll(/\[([^\]]*)\]|(\w+)/g)].map(([, inBrackets, word]) => {
    const step = inBrackets ?? word ?? ''
    return inBrackets !== undefined && /^\d+$/.test(step) ? Number(step) : step
  })

const fieldOf = (steps: readonly Step[]): string =>
  steps.reduce<string>((field, step) => {
    if (typeof step === 'number' || !/^\w+$/.test(step)) return `${field}[${step}]`
    return field === '' ? step : `${field}.${step}`
  }, '')

const member = (value: unknown, step: Step): unknown => {
  if (Array.isArray(value)) return typeof step === 'number' ? value[step] : undefined
  return isRecord(value) && Object.hasOwn(value, step) ? value[step] : undefined
}

/** The longest beginning of a path that is there. What takes the place of an item does not count. */
const existing = (value: unknown, steps: readonly Step[]): Step[] => {
  const found: Step[] = []
  let at = value
  for (const step of steps) {
    at = member(at, step)
    if (at === undefined) break
    found.push(step)
  }
  while (typeof found.at(-1) === 'number' && isEmpty(found.reduce<unknown>(member, value))) found.pop()
  return found
}

const isEmpty = (value: unknown): boolean => isRecord(value) && Object.keys(value).length === 0

/** An item of a list leaves an empty object behind: the others keep their indexes. A list of anything else goes as a whole. */
const omit = (value: unknown, steps: readonly Step[]): unknown => {
  const [step, ...below] = steps
  if (step === undefined) return undefined
  if (Array.isArray(value)) {
    const item = value[Number(step)]
    const kept = below.length === 0 ? (isRecord(item) || item === null ? {} : undefined) : omit(item, below)
    return kept === undefined ? undefined : value.with(Number(step), kept)
  }
  if (!isRecord(value)) return undefined
  const entries = Object.entries(value).flatMap(([key, item]): [string, unknown][] => {
    if (key !== String(step)) return [[key, item]]
    const kept = below.length === 0 ? undefined : omit(item, below)
    return kept === undefined ? [] : [[key, kept]]
  })
  return Object.fromEntries(entries)
}
