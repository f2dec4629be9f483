import type { Origin } from '../api/cause.ts'
import { isRecord } from '../api/schema.ts'
import { sizeOf, type Steps } from '../api/steps.ts'
import { comparison, type Comparison } from './comparison.ts'
import { covers, meaningOf } from './cover.ts'
import { lazy } from './lazy.ts'
import type { Source } from './source.ts'
import { compareText, isFilledIn, isUser, lowestRank, userRank } from './source.ts'
import type { ListStructure, Structure } from './structure.ts'
import { structureAt, valueAt } from './structure.ts'

/** As the value of a key, matches every item of the list. */
const everyItem = '*'

/** What a source states of an item. */
export interface ItemSource extends Source {
  /** It is stated of every item. */
  readonly isForEvery?: true
}

interface Item extends ItemSource {
  /**
   * The key under each alternative, undefined if a part of it is missing. An item without any key has its meaning as an
   * additional one.
   */
  readonly ids: readonly (string | undefined)[]
}

interface Group {
  readonly members: Item[]
}

export interface Grouped {
  /** Sources to merge into one item each, in the order of the resulting list. */
  readonly groups: readonly (readonly ItemSource[])[]
  /** Items that can only change an existing item, and that match none. */
  readonly homeless: readonly { readonly origin: Origin; readonly label: string }[]
}

/**
 * Groups the sources' items that are the same item: the user's first, each in a group of its own, then those that
 * presets add, strongest preset first. The items of one source remain in their order.
 */
export function groupItems(structure: ListStructure, sources: readonly Source[], by = comparison()): Grouped {
  const users: Group[] = []
  const brought: Item[] = []
  const stars: Item[] = []
  for (const { source, items } of inOrder(structure, sources, by)) {
    if (isUser(source)) for (const item of items) users.push({ members: [item] })
    else if (isFilledIn(source)) joinFilledIn(users, items)
    else for (const item of items) (isStar(structure, item.value) ? stars : brought).push(item)
  }
  const homes = indexHomes(structure, users)
  const newcomers = brought.filter((item) => {
    const found = isKeyless(structure, item) ? coveredBy(structure, item, users, by) : homesOf(item, homes, by.steps)
    for (const home of found) home.members.push(item)
    return found.length === 0
  })
  const clusters = clusterItems(newcomers, by.steps)
  const created = clusters.filter(({ members }) => canBegin(structure, members))
  const homeless = clusters
    .filter(({ members }) => !canBegin(structure, members))
    .flatMap(({ members }) =>
      members.map((item) => ({ origin: item.origin, label: labelOf(structure, item.value, by) })),
    )
  const groups = [...users, ...created]
  const homesOfStars = groups.map((group) => ({ group, keysAt: keysIn(structure, [...group.members]) }))
  for (const star of stars) {
    by.steps.spend(groups.length * sizeOf(star.value))
    spread(structure, star, homesOfStars)
  }
  return { groups: groups.map(({ members }) => members), homeless }
}

/** What was filled in is the list of which the user wrote these items or none, so each is in the same place. */
function joinFilledIn(users: Group[], items: readonly Item[]): void {
  for (const [place, item] of items.entries()) {
    const group = users[place]
    if (group === undefined) users.push({ members: [item] })
    else group.members.push(item)
  }
}

/**
 * The items of each source, strongest source first. Sources of equal rank are ordered by the keys of their items, so
 * that neither names nor the given order matter.
 */
const inOrder = (structure: ListStructure, sources: readonly Source[], by: Comparison) =>
  sources
    .flatMap((source) => {
      if (!Array.isArray(source.value)) return []
      const items = itemsOf(structure, source, source.value, by)
      const text = lazy(() => JSON.stringify(items.map(({ ids }) => ids)))
      return [{ source, items, text }]
    })
    .toSorted((left, right) => right.source.rank - left.source.rank || compareText(left.text(), right.text()))

/** The items of one source. Equal items without a key in one preset are separate items, distinguished by number. */
function itemsOf(structure: ListStructure, source: Source, values: readonly unknown[], by: Comparison): Item[] {
  const seen = new Map<string, number>()
  return values.map((value) => {
    const ids = structure.keys.map((paths) => idOf(structure.item, paths, value))
    if (ids.some((id) => id !== undefined)) return { rank: source.rank, origin: source.origin, value, ids }
    const meaning = meaningOf(structure.item, value, by)
    const count = seen.get(meaning) ?? 0
    seen.set(meaning, count + 1)
    return { rank: source.rank, origin: source.origin, value, ids: [...ids, `${meaning}#${count}`] }
  })
}

/** The item's key under each alternative that it has. */
export const keysOfItem = ({ keys, item }: ListStructure, value: unknown): readonly string[] =>
  keys.flatMap((paths, index) => {
    const id = idOf(item, paths, value)
    return id === undefined ? [] : [`${index} ${id}`]
  })

function idOf(structure: Structure, paths: readonly (readonly string[])[], value: unknown): string | undefined {
  const parts: string[] = []
  for (const path of paths) {
    const leaf = structureAt(structure, path)
    const part = valueAt(value, path) ?? (leaf?.kind === 'leaf' ? leaf.absent : undefined)
    if (part === undefined) return undefined
    parts.push(leaf?.kind === 'leaf' ? leaf.meaning(part) : JSON.stringify(part))
  }
  return parts.join('\0')
}

/** Whether an item has no key and is identified by its meaning. */
const isKeyless = ({ keys }: ListStructure, { ids }: Item): boolean => ids.length > keys.length

/** The user's item that contains everything in a preset's item without a key; none or one. */
function coveredBy(structure: ListStructure, item: Item, users: readonly Group[], by: Comparison): readonly Group[] {
  const found = users.find(
    ({ members: [first] }) => first !== undefined && covers(structure.item, item.value, first.value, by),
  )
  return found === undefined ? [] : [found]
}

/**
 * An index of items by their identity keys. Two items are the same if they agree in the first alternative that both
 * have. Which alternative to look up therefore depends on the set of alternatives that indexed items have (`0,2`).
 * There are few such sets, so items need not be compared pairwise.
 */
interface ItemIndex<T> {
  readonly sets: Map<string, readonly number[]>
  readonly byId: Map<string, T>
}

const emptyIndex = <T>(): ItemIndex<T> => ({ sets: new Map(), byId: new Map() })

const alternativesOf = ({ ids }: Item): readonly number[] =>
  ids.flatMap((id, index) => (id === undefined ? [] : [index]))

const keyOf = (set: string, alternative: number, { ids }: Item): string => `${set}\0${alternative}\0${ids[alternative]}`

/** Returns the keys under which an item is indexed, and records its set of alternatives. */
function ownKeys<T>(index: ItemIndex<T>, item: Item): readonly string[] {
  const alternatives = alternativesOf(item)
  const set = alternatives.join()
  index.sets.set(set, alternatives)
  return alternatives.map((alternative) => keyOf(set, alternative, item))
}

/** Yields the keys under which equal items are indexed, with the alternative that decides. */
function* sameKeys<T>(index: ItemIndex<T>, item: Item): Generator<readonly [key: string, by: number]> {
  for (const [set, alternatives] of index.sets) {
    const by = alternatives.find((alternative) => item.ids[alternative] !== undefined)
    if (by !== undefined) yield [keyOf(set, by, item), by]
  }
}

interface Home {
  readonly place: number
  readonly group: Group
}

/** The user's items with each key, in their order. Many kinds of objects can have several. */
function indexHomes({ partOf = '' }: ListStructure, users: readonly Group[]): ItemIndex<Home[]> {
  const isPart = ({ group: { members } }: Home) =>
    isRecord(members[0]?.value) && Object.hasOwn(members[0].value, partOf)
  const index = emptyIndex<Home[]>()
  const homes = users.map((group, place): Home => ({ place, group }))
  // Last: other items are known by then, also those with other keys beside the common one.
  for (const home of [...homes.filter((one) => !isPart(one)), ...homes.filter(isPart)]) {
    const [first] = home.group.members
    if (first === undefined) continue
    if (isPart(home) && [...sameKeys(index, first)].some(([key]) => index.byId.has(key))) continue
    for (const key of ownKeys(index, first)) {
      const known = index.byId.get(key)
      if (known === undefined) index.byId.set(key, [home])
      else known.push(home)
    }
  }
  return index
}

/**
 * The user's items that a preset's item refers to. One of strength Enforce refers to all that are the same item: which
 * of them counts is not known here (of a container's `env`, the last). Others refer to one: by the first alternative,
 * then by the position in the list.
 */
function homesOf(item: Item, homes: ItemIndex<Home[]>, steps: Steps): readonly Group[] {
  const found = [...sameKeys(homes, item)].flatMap(([key, by]) => {
    const same = homes.byId.get(key)
    return same === undefined ? [] : [{ by, same }]
  })
  if (item.rank > userRank) {
    const count = found.reduce((sum, { same }) => sum + same.length, 0)
    // Presets are counted once, as a whole.
    if (count > 1) steps.spend((count - 1) * sizeOf(item.value))
    return found.flatMap(({ same }) => same.map(({ group }) => group))
  }
  let best: (Home & { readonly by: number }) | undefined
  for (const { by, same } of found) {
    const [home] = same
    if (home === undefined) continue
    if (best === undefined || by < best.by || (by === best.by && home.place < best.place)) best = { ...home, by }
  }
  return best === undefined ? [] : [best.group]
}

/** An item of a cluster, and those behind it: two such lists are joined without moving items. */
interface Member {
  readonly item: Item
  next?: Member
}

/** Items that belong to one group. `into` is set when it is merged into another cluster. */
interface Cluster {
  readonly head: Member
  tail: Member
  into?: Cluster
  /** The index of its first item. */
  readonly first: number
}

/** Groups items that are the same, transitively. */
function clusterItems(items: readonly Item[], steps: Steps): Group[] {
  const index = emptyIndex<Cluster[]>()
  const clusters = new Set<Cluster>()
  for (const [place, item] of items.entries()) {
    steps.spend(1)
    const keys = [...sameKeys(index, item)].map(([key]) => key)
    const found = keys.flatMap((key) => index.byId.get(key) ?? [])
    const same = new Set(found.map((cluster) => current(cluster, steps)))
    const own = newCluster(item, place)
    const [first, ...others] = [...[...same].toSorted((one, other) => one.first - other.first), own]
    for (const other of others) {
      first.tail.next = other.head
      first.tail = other.tail
      other.into = first
      clusters.delete(other)
    }
    clusters.add(first)
    // All clusters that these keys led to are now one.
    for (const key of keys) if (index.byId.has(key)) index.byId.set(key, [first])
    for (const key of ownKeys(index, item)) {
      const known = index.byId.get(key)
      if (known === undefined) index.byId.set(key, [first])
      else if (known.at(-1) !== first) known.push(first)
    }
  }
  return [...clusters]
    .toSorted((one, other) => one.first - other.first)
    .map(({ head }) => ({ members: [...itemsFrom(head)] }))
}

function newCluster(item: Item, first: number): Cluster {
  const only: Member = { item }
  return { head: only, tail: only, first }
}

function* itemsFrom(head: Member): Generator<Item> {
  for (let at: Member | undefined = head; at !== undefined; at = at.next) yield at.item
}

/** Shortens the way for the next time. */
function current(cluster: Cluster, steps: Steps): Cluster {
  let at = cluster
  while (at.into !== undefined) {
    steps.spend(1)
    at.into = at.into.into ?? at.into
    at = at.into
  }
  return at
}

/** An item without its union's deciding attribute can only change an existing item. */
function canBegin(structure: ListStructure, members: readonly Pick<Item, 'value'>[]): boolean {
  const union = structure.item.kind === 'object' ? structure.item.union : undefined
  if (union === undefined) return true
  return members.some(({ value }) => isRecord(value) && union.branchOf(value) !== undefined)
}

/** Whether a preset's item can be the beginning of a new one. */
export const beginsItem = (structure: ListStructure, value: unknown): boolean =>
  !isStar(structure, value) && canBegin(structure, [{ value }])

/** The rank of the strongest preset that would create the item without the other sources. */
export const creatorOf = (structure: ListStructure, sources: readonly ItemSource[]): number =>
  sources
    .filter((source) => !isUser(source) && source.isForEvery !== true && canBegin(structure, [source]))
    .reduce((strongest, { rank }) => Math.max(strongest, rank), lowestRank)

const isStar = (structure: ListStructure, value: unknown): boolean =>
  structure.keys.some((paths) => paths.some((path) => path.length > 0 && valueAt(value, path) === everyItem))

interface StarHome {
  readonly group: Group
  readonly keysAt: (path: readonly string[]) => ReadonlySet<string | undefined>
}

/** The values of a part of the key in these items. Read once: many `'*'` items can be compared with many members. */
function keysIn({ item }: ListStructure, members: readonly Item[]): StarHome['keysAt'] {
  const known = new Map<string, ReadonlySet<string | undefined>>()
  return (path) => {
    const text = path.join('.')
    const found = known.get(text) ?? new Set(members.map(({ value }) => idOf(item, [path], value)))
    known.set(text, found)
    return found
  }
}

/** Applies a `'*'` item to each item whose other key fields are equal. */
function spread(structure: ListStructure, star: Item, homes: readonly StarHome[]): void {
  const value = withoutStars(structure, star.value)
  const fixed = structure.keys
    .find((paths) => paths.some((path) => valueAt(star.value, path) === everyItem))
    ?.filter((path) => ![everyItem, undefined].includes(textAt(star.value, path)))
    .map((path) => ({ path, id: idOf(structure.item, [path], star.value) }))
  for (const { group, keysAt } of homes) {
    const isMeant = (fixed ?? []).every(({ path, id }) => keysAt(path).has(id))
    if (isMeant) group.members.push({ ...star, value, isForEvery: true })
  }
}

const textAt = (value: unknown, path: readonly string[]): string | undefined => {
  const at = valueAt(value, path)
  return at === undefined || typeof at === 'string' ? at : JSON.stringify(at)
}

export function withoutStars(structure: ListStructure, value: unknown): unknown {
  let result = value
  for (const path of structure.keys.flat()) {
    if (valueAt(result, path) === everyItem) result = without(result, path)
  }
  return result
}

/** Returns a copy without the value at a path, and without objects that become empty. */
function without(value: unknown, path: readonly string[]): unknown {
  const [key, ...rest] = path
  if (key === undefined || !isRecord(value)) return value
  const { [key]: member, ...others } = value
  if (rest.length === 0) return others
  const left = without(member, rest)
  return isRecord(left) && Object.keys(left).length === 0 ? others : { ...value, [key]: left }
}

/** Identifies a preset's skipped item as in a path, without the brackets: `target.dev=vdb`. */
function labelOf(structure: ListStructure, value: unknown, by: Comparison): string {
  const paths = structure.keys.find((alternative) => alternative.every((path) => valueAt(value, path) !== undefined))
  if (paths === undefined) return meaningOf(structure.item, value, by).slice(0, 64)
  return paths.map((path) => `${path.join('.')}=${textAt(value, path)}`).join()
}
