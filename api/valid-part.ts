import type { Cause } from './cause.ts'
import { isCapped } from './causes.ts'
import { joinPath } from './path.ts'
import { isRecord } from './schema.ts'

type Step = string | number

/** How often the rest is checked again: where removing a leaf does not help, the object around it is removed next. */
const maxRounds = 6

/**
 * A value without its faults, so that the rest can be checked in the same review: the faulty leaves are removed, and
 * where that does not help the objects around them. Each round copies only what it changes, once. The argument is not
 * changed.
 * @param check lists what is wrong; `field` as kubectl prints it
 * @param first what `check` found in `value`, where that is known
 * @returns undefined where no rest passes the check, or where there are more causes than a refusal names: those are
 * answer enough
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
      const steps = existing(rest, stepsOf(field))
      if (steps.length === 0) return undefined
      mark(faulty, steps)
      without.add(fieldOf(steps))
    }
    rest = omit(rest, faulty)
    causes = check(rest)
  }
  return undefined
}

/** What is to be removed, as a tree of steps. */
interface Paths {
  /** All of it, whatever is marked below. */
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

/** `spec.domain.disks[1]` and `labels[a/b]` in steps; a number is an index. */
const stepsOf = (field: string): Step[] =>
  [...field.matchAll(/\[([^\]]*)\]|(\w+)/g)].map(([, inBrackets, word]) => {
    const step = inBrackets ?? word ?? ''
    return inBrackets !== undefined && /^\d+$/.test(step) ? Number(step) : step
  })

const fieldOf = (steps: readonly Step[]): string => steps.reduce<string>(joinPath, '')

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

/**
 * Undefined where nothing remains. An item of a list leaves an empty object behind: the others keep their indexes. A
 * list of scalars goes as a whole.
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
