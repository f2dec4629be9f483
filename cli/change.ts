import { isDeepStrictEqual } from 'node:util'
import { shorten } from '../api/shorten.ts'
import { pathText, rootPath, type Path } from '../api/path.ts'
import type { Subject } from '../presets/kind.ts'
import type { Paint } from './paint.ts'
import { creditedTo, leavesBelow } from './provenance.ts'

/** A changed leaf of an object; `undefined` if it was or is absent. */
export interface Change {
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}

/**
 * The differences between two objects, leaf by leaf, in the order of the first; leaves that only the second has come
 * last.
 */
export function changesBetween(before: Subject, after: Subject): readonly Change[] {
  const found: Change[] = []
  compare(creditedTo(before), creditedTo(after), rootPath, found)
  return [...found.filter((change) => 'before' in change), ...found.filter((change) => !('before' in change))]
}

/** Builds path texts only for differences, because these are few while a VM has hundreds of fields. */
function compare(before: unknown, after: unknown, path: Path, found: Change[]): void {
  if (before === after) return
  if (isBranch(before) && isBranch(after) && Array.isArray(before) === Array.isArray(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const at = { parent: path, key: Array.isArray(before) ? Number(key) : key }
      compare(before[key], after[key], at, found)
    }
  } else if (isLeaf(before) && isLeaf(after)) {
    if (!isDeepStrictEqual(before, after)) found.push({ path: pathText(path), before, after })
  } else {
    for (const leaf of leavesBelow(before, pathText(path))) found.push({ path: leaf.path, before: leaf.value })
    for (const leaf of leavesBelow(after, pathText(path))) found.push({ path: leaf.path, after: leaf.value })
  }
}

const isBranch = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0

const isLeaf = (value: unknown): boolean => value !== undefined && !isBranch(value)

const maxValue = 60
const text = (value: unknown): string => shorten(JSON.stringify(value), maxValue)

export function changeLine({ path, before, after }: Change, paint: Paint): string {
  if (before === undefined) return paint('green', `+ ${path}: ${text(after)}`)
  if (after === undefined) return paint('red', `- ${path}: ${text(before)}`)
  return paint('yellow', `~ ${path}: ${text(before)} → ${text(after)}`)
}
