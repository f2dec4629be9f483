import { hasLongInteger, holdersOfLongIntegers, mayBeRounded } from '../../api/long-integer.ts'

/** The operations of RFC 6902 that virtset sends. */
export type Operation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }

/** An encoded JSON patch. */
export interface Patch {
  readonly operations: number
  /** In base64. */
  readonly encoded: string
}

export const writePatch = (operations: readonly Operation[]): Patch => ({
  operations: operations.length,
  encoded: encode(JSON.stringify(operations)),
})

const encode = (text: string): string => Buffer.from(text).toString('base64')

/** With more operations below one value, the value itself is replaced, because a few larger operations are cheaper. */
const maxOperationsBelow = 8

/**
 * The operations that turn `before` into `after`. A missing subtree is one `add`. Parts shared by reference cost
 * nothing. Lists are compared item by item and appended to; a list that lost items is replaced. `undefined` means
 * absent. An integer of `before` that may be rounded is only written with a list whose items may have moved.
 *
 * @param mayMove whether items of lists can have another place in `after`
 */
export function patchBetween(before: Json, after: Json, mayMove = true): Operation[] {
  // Few objects have any, and the walk that finds where takes more memory.
  const holders = hasLongInteger(before) ? holdersOfLongIntegers(before) : new Set()
  return recordChanges(before, after, '', { holders, mayMove })
}

type Json = { readonly [key: string]: unknown }

interface Exact {
  /** What has integers that may be rounded: no more of it may be written than has changed. */
  readonly holders: ReadonlySet<unknown>
  readonly mayMove: boolean
}

function changes(before: unknown, after: unknown, path: string, exact: Exact): Operation[] {
  if (before === after) return []
  const below = partChanges(before, after, path, exact)
  if (below === undefined || (below.length > maxOperationsBelow && !exact.holders.has(before)))
    return [{ op: 'replace', path, value: after }]
  return below
}

/** Undefined if the value must be replaced as a whole. */
function partChanges(before: unknown, after: unknown, path: string, exact: Exact): Operation[] | undefined {
  if (Array.isArray(before)) return Array.isArray(after) ? listChanges(before, after, path, exact) : undefined
  return isJson(before) && isJson(after) ? recordChanges(before, after, path, exact) : undefined
}

function recordChanges(before: Json, after: Json, path: string, exact: Exact): Operation[] {
  const operations: Operation[] = []
  for (const key of Object.keys(before)) {
    if (has(before, key) && !has(after, key)) operations.push({ op: 'remove', path: `${path}/${escape(key)}` })
  }
  for (const key of Object.keys(after)) {
    // Skips shared parts before their path is built.
    if (!has(after, key) || (Object.hasOwn(before, key) && before[key] === after[key])) continue
    const at = `${path}/${escape(key)}`
    if (!has(before, key)) operations.push({ op: 'add', path: at, value: after[key] })
    else operations.push(...changes(before[key], after[key], at, exact))
  }
  return operations
}

function listChanges(
  before: readonly unknown[],
  after: readonly unknown[],
  path: string,
  exact: Exact,
): Operation[] | undefined {
  if (after.length < before.length) return undefined
  // Equal numbers need not be the same integer if items have moved.
  if (exact.mayMove && before.some(mayBeRounded)) return undefined
  return after.flatMap((item, index): Operation[] => {
    if (index >= before.length) return [{ op: 'add', path: `${path}/-`, value: item }]
    const at = `${path}/${index}`
    const below = changes(before[index], item, at, exact)
    const mayBeMoved = exact.mayMove && exact.holders.has(before[index]) && below.some(({ op }) => op !== 'add')
    return mayBeMoved ? [{ op: 'replace', path: at, value: item }] : below
  })
}

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

const has = (value: Json, key: string): boolean => Object.hasOwn(value, key) && value[key] !== undefined

const escape = (key: string): string =>
  key.includes('~') || key.includes('/') ? key.replaceAll('~', '~0').replaceAll('/', '~1') : key
