import type { Cause } from './cause.ts'
import { isCapped } from './causes.ts'
import { joinPath, longestPath, pathKeys } from './path.ts'
import { isRecord } from './schema.ts'

type Step = string | number

/** The number of attempts. If removing a leaf does not help, the next round removes the object around it. */
const maxRounds = 6

/**
 * Removes the faults from a value so that the rest can be checked in the same review. It removes the invalid leaves
 * and, if that does not help, the objects around them. Each round copies only what it changes. The argument is not
 * modified.
 * @param check returns what is wrong; `field` in kubectl's form
 * @param first what `check` returned for `value`, if already known
 * @returns undefined if no part passes the check, or if there are more causes than a refusal lists, which are enough
 */
export function faultless(
  value: unknown,
  check: (value: unknown) => readonly Cause[],
  first = check(value),
): { readonly rest: unknown; readonly without: readonly string[] } | undefined {
  let rest = value
  let causes = first
  const without = new Set<string>()
  for (let round = 0; round < maxRounds; round += 1) {
    if (causes.length === 0) return { rest, without: [...without] }
    if (isCapped(causes)) return undefined
    const faulty = noPaths()
    for (const { field } of causes) {
      // Of a key of megabytes, what is around it is removed.
      const steps = existing(rest, pathKeys(field.slice(0, longestPath)))
      if (steps.length === 0) return undefined
      mark(faulty, steps)
      without.add(fieldOf(steps))
    }
    rest = omit(rest, faulty)
    causes = check(rest)
  }
  return undefined
}

/** The paths to remove, as a tree of steps. */
interface Paths {
  /** Remove the whole value, regardless of `below`. */
  isWhole: boolean
  readonly below: Map<string, Paths>
}

const noPaths = (): Paths => ({ isWhole: false, below: new Map() })

const mark = (paths: Paths, steps: readonly Step[]): void => {
  let at = paths
  for (const step of steps) {
    const next = at.below.get(String(step)) ?? noPaths()
    at.below.set(String(step), next)
    at = next
  }
  at.isWhole = true
}

const fieldOf = (steps: readonly Step[]): string => steps.reduce<string>(joinPath, '')

const member = (value: unknown, step: Step): unknown => {
  if (Array.isArray(value)) return typeof step === 'number' ? value[step] : undefined
  return isRecord(value) && Object.hasOwn(value, step) ? value[step] : undefined
}

/** The longest prefix of a path that exists. The placeholder of a removed item does not count. */
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

/**
 * Returns undefined if nothing remains. A removed item of a list is replaced by an empty object, so that the others
 * keep their indexes. A list of scalars is removed as a whole.
 */
const omit = (value: unknown, { isWhole, below }: Paths): unknown => {
  if (isWhole) return undefined
  if (Array.isArray(value)) {
    const items: unknown[] = [...value]
    for (const [step, paths] of below) {
      const index = Number(step)
      const item = items[index]
      const rest = paths.isWhole && (isRecord(item) || item === null) ? {} : omit(item, paths)
      if (rest === undefined) return undefined
      items[index] = rest
    }
    return items
  }
  if (!isRecord(value)) return undefined
  const entries = Object.entries(value).flatMap(([key, member]): [string, unknown][] => {
    const paths = below.get(key)
    const rest = paths === undefined ? member : omit(member, paths)
    return rest === undefined ? [] : [[key, rest]]
  })
  return Object.fromEntries(entries)
}
