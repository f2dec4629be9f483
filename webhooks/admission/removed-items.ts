import { ancestorsOf, joinPath, parentPath, withPathsAbove } from '../../api/path.ts'
import { isRecord } from '../../api/schema.ts'
import type { Shortened } from '../../presets/origins.ts'
import { digestOf } from '../../presets/digest.ts'
import { isSameJson } from './same-json.ts'

/** A sent spec whose lists have the items of the stored ones, by index. */
export interface WithoutRemoved {
  readonly spec: unknown
  /** The path in the spec as it was sent, for a path in this one. */
  readonly sentPath: (path: string) => string
}

/**
 * The sent spec without the items that presets removed when the VM was created: a manifest that is sent again still
 * contains them. A list has them if it is as long as the one that the user sent, and has the same items at these
 * indexes. As the manifest is the user's, so are all its lists; but a list that equals the stored one is that one.
 * @param shortened the lists that lost items, by their paths in the stored VM
 */
export function withoutRemovedItems(
  sent: unknown,
  stored: unknown,
  shortened: ReadonlyMap<string, Shortened>,
): WithoutRemoved {
  if (shortened.size === 0) return { spec: sent, sentPath: (path) => path }
  // What is sent can be nested deeper than the stack allows, and have any number of members and items elsewhere.
  const above = withPathsAbove([...shortened.keys()].map(parentPath))
  const lists = new Map<string, RestOfList>()

  /** @returns undefined for what only contained removed items */
  const visit = (value: unknown, other: unknown, path: string, sentPath: string, level: number): unknown => {
    if (Array.isArray(value)) return visitItems(value, other, path, sentPath, level)
    if (!isRecord(value) || !above.has(path)) return value
    const members = Object.keys(value).flatMap((key) => {
      const below = isRecord(other) && Object.hasOwn(other, key) ? other[key] : undefined
      const left = visit(value[key], below, joinPath(path, key), joinPath(sentPath, key), level)
      return left === undefined ? [] : [[key, left] as const]
    })
    const isEmptied = members.length === 0 && Object.keys(value).length > 0
    return isEmptied && other === undefined ? undefined : Object.fromEntries(members)
  }

  const visitItems = (
    value: readonly unknown[],
    other: unknown,
    path: string,
    sentPath: string,
    level: number,
  ): unknown => {
    const found = level < mostLevels ? shortened.get(path) : undefined
    if ((found === undefined && !above.has(path)) || (found !== undefined && isSameJson(value, other))) return value
    const removed = found === undefined ? none : removedIndexes(value, other, found, path)
    if (removed.size === 0 && value.length > 0 && !above.has(path)) return value
    const others: readonly unknown[] = Array.isArray(other) ? other : []
    const kept = [...value.keys()].filter((index) => !removed.has(index))
    if (removed.size > 0) lists.set(path, { sentPath, kept })
    const visitItem = (index: number, place: number): unknown =>
      visit(value[index], others[place], joinPath(path, place), joinPath(sentPath, index), level + 1) ?? value[index]
    const items = kept.map(above.has(path) ? visitItem : (index) => value[index])
    return items.length === 0 && found !== undefined && other === undefined ? undefined : items
  }

  const spec = visit(sent, stored, 'spec', 'spec', 0)
  // Users choose how long a path is that is not one of a list.
  const lengths = new Set([...lists.keys()].map((path) => path.length))
  return { spec, sentPath: (path) => sentPathOf(path, lists, lengths) }
}

/** Of lists in lists: each is read once more. A VM has at most three, but a claim can name any. */
const mostLevels = 4

const none: ReadonlySet<number> = new Set()

/** The key of the items of lists that server-side apply merges: these can have other items between the user's. */
const mergedBy: ReadonlyMap<string, string> = new Map([
  ['spec.volumes', 'name'],
  ['spec.ports', 'name'],
  ['spec.taps', 'dev'],
])

/** The indexes of the items of a sent list that presets removed. */
function removedIndexes(
  sent: readonly unknown[],
  stored: unknown,
  { length, missing }: Shortened,
  path: string,
): ReadonlySet<number> {
  const isAsSent =
    sent.length === length &&
    [...missing].every(([index, digest]) => index < length && digestOf(sent[index]) === digest)
  if (isAsSent) return new Set(missing.keys())
  const key = mergedBy.get(path)
  const others: readonly unknown[] = Array.isArray(stored) ? stored : []
  // Every item is stored or missing, except for new ones, which are refused. The length can be any in a claim.
  if (key === undefined || sent.length > missing.size + 2 * others.length) return none
  const keyOf = (item: unknown): unknown => (isRecord(item) ? item[key] : undefined)
  const present = new Set(others.map(keyOf))
  const digests = new Set(missing.values())
  const isRemoved = (item: unknown): boolean => {
    const own = keyOf(item)
    return typeof own === 'string' && !present.has(own) && digests.has(digestOf(item))
  }
  return new Set([...sent.keys()].filter((index) => isRemoved(sent[index])))
}

/** A sent list without the items that presets removed. */
interface RestOfList {
  /** Its path in the spec as it was sent. */
  readonly sentPath: string
  /** The indexes that its items have there. */
  readonly kept: readonly number[]
}

function sentPathOf(path: string, lists: ReadonlyMap<string, RestOfList>, lengths: ReadonlySet<number>): string {
  const above = ancestorsOf(path, lengths).findLast((one) => lists.has(one)) ?? ''
  const list = lists.get(above)
  const [item = '', index] = /^\[(\d+)\]/.exec(path.slice(above.length)) ?? []
  if (list === undefined || index === undefined) return path
  return joinPath(list.sentPath, list.kept[Number(index)] ?? Number(index)) + path.slice(above.length + item.length)
}
