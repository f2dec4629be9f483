import type { Origin } from '../api/cause.ts'
import { isRecord } from '../api/schema.ts'
import { stepsOfPath, unmetered, type Steps } from '../api/steps.ts'
import type { Path } from '../api/path.ts'
import { joinPath, pathText } from '../api/path.ts'
import type { Source } from './source.ts'
import { byUser, lowestRank, userRank } from './source.ts'
import type { ListStructure, ObjectStructure, Structure } from './structure.ts'
import { valueAt } from './structure.ts'

/** A merged VM whose leaves record which sources state them. */
export type Node = UnchangedNode | LeafNode | ObjectNode | ListNode

/** The user's value, or one that was filled in, which no preset sets. */
export interface UnchangedNode {
  readonly kind: 'unchanged'
  readonly value: unknown
}

export interface LeafNode {
  readonly kind: 'leaf'
  readonly value: unknown
  readonly origin: Origin
  /** The rank of the strongest source that states this value. The origin may be another source. */
  readonly rank: number
  /** All presets that state this value. */
  readonly stated: readonly Source[]
  /** Sources that state another value. */
  readonly lost: readonly Source[]
}

export interface ObjectNode {
  readonly kind: 'object'
  readonly structure: ObjectStructure
  readonly entries: ReadonlyMap<string, Node>
  /** The user's own object, if any. It is returned as is if nothing in it changed. */
  readonly user: { readonly [key: string]: unknown } | undefined
  readonly path: Path
  /** The empty object that presets state, which is there without any field. */
  readonly presence?: LeafNode | undefined
}

export interface ListNode {
  readonly kind: 'list'
  readonly structure: ListStructure
  readonly items: readonly ListItem[]
  readonly user: readonly unknown[] | undefined
  readonly path: Path
  /** The short key under which an only item is written. */
  readonly single?: string
}

export interface ListItem {
  readonly node: Node
  /** Where it is now. */
  readonly path: Path
  /** Where it was when the sources were merged, the user's items first. */
  readonly place: number
  /** The rank of the strongest preset that would have created the item, had there been none. */
  readonly createdBy: number
}

export const unchanged = (value: unknown): UnchangedNode => ({ kind: 'unchanged', value })

const userLeaf = (value: unknown): LeafNode => ({
  kind: 'leaf',
  value,
  origin: byUser,
  rank: userRank,
  stated: [],
  lost: [],
})

/** Expands a user's value by one level, so that something in it can be changed. An empty value is a leaf. */
export function open(node: Node, structure: Structure | undefined, path: Path): Node {
  if (node.kind !== 'unchanged') return node
  const { value } = node
  if (structure?.kind === 'object' && isRecord(value) && Object.keys(value).length > 0) {
    const entries = new Map(Object.entries(value).map(([key, member]) => [key, unchanged(member)]))
    return { kind: 'object', structure, entries, user: value, path }
  }
  if (structure?.kind === 'list' && Array.isArray(value) && value.length > 0) {
    const user: readonly unknown[] = value
    const items = user.map((item, key) => ({
      node: unchanged(item),
      path: { parent: path, key },
      place: key,
      createdBy: lowestRank,
    }))
    return { kind: 'list', structure, items, user, path }
  }
  return userLeaf(value)
}

/** Cluster presets by the path of a leaf. */
export type ByLeaf = ReadonlyMap<string, readonly Origin[]>

/** What cluster presets state of an object. */
export interface Granted {
  /** Those that state a leaf's value, even if another preset is its origin. */
  readonly stated: ByLeaf
  /** Those that state another value for a leaf. */
  readonly overruled: ByLeaf
}

/** The merged value, and an entry for each leaf that is not simply the user's. */
export interface Emitted {
  readonly value: unknown
  /** Leaves that presets set. */
  readonly origins: ReadonlyMap<string, Origin>
  readonly granted: Granted
  /** Values that were overridden. */
  readonly lost: ReadonlyMap<string, readonly Source[]>
  /** Lists from which items of the user are missing. */
  readonly shortened: ReadonlyMap<string, ShortenedList>
}

/** A list of the user, and the indexes of its items that are missing. */
export interface ShortenedList {
  readonly user: readonly unknown[]
  readonly missing: readonly number[]
}

interface Emission {
  readonly origins: Map<string, Origin>
  readonly granted: { readonly [K in keyof Granted]: Map<string, readonly Origin[]> }
  readonly lost: Map<string, readonly Source[]>
  readonly shortened: Map<string, ShortenedList>
  readonly steps: Steps
  /** Whether the paths of items get their indexes in this value. */
  readonly isFinal: boolean
}

const emptyEmission = (steps: Steps, isFinal: boolean): Emission => ({
  steps,
  isFinal,
  origins: new Map(),
  granted: { stated: new Map(), overruled: new Map() },
  lost: new Map(),
  shortened: new Map(),
})

/** Converts the tree to a plain value. Unchanged parts are the user's own objects, not copies. */
export function emit(root: Node, path: Path, steps = unmetered): Emitted {
  const emission = emptyEmission(steps, true)
  return { value: emitNode(root, pathText(path), emission), ...emission }
}

/** The plain value of a subtree, of which the tree may not contain everything any more. */
export const valueOf = (node: Node, path: Path, steps: Steps): unknown =>
  emitNode(node, pathText(path), emptyEmission(steps, false))

/** Converts the subtree at a path to a plain value, without creating the rest. */
export function emitAt(node: Node, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return emitNode(node, '', emptyEmission(unmetered, false))
  if (node.kind === 'unchanged') return valueAt(node.value, [key, ...rest])
  const entry = node.kind === 'object' ? node.entries.get(key) : undefined
  return entry === undefined ? undefined : emitAt(entry, rest)
}

/**
 * The tree without what only cluster presets state. A value that they override is the one that would be there without
 * them.
 * @returns undefined if nothing remains
 */
export function withoutCluster(node: Node): Node | undefined {
  switch (node.kind) {
    case 'unchanged':
      return node
    case 'leaf':
      return leafWithoutCluster(node)
    case 'object': {
      const entries = [...node.entries].flatMap(([key, entry]) => {
        const left = withoutCluster(entry)
        return left === undefined ? [] : [[key, left] as const]
      })
      return entries.length === 0 && node.user === undefined ? undefined : { ...node, entries: new Map(entries) }
    }
    case 'list': {
      const items = node.items.flatMap((item) => {
        const left = withoutCluster(item.node)
        return left === undefined ? [] : [{ ...item, node: left }]
      })
      return items.length === 0 && node.user === undefined ? undefined : { ...node, items }
    }
  }
}

function leafWithoutCluster(leaf: LeafNode): Node | undefined {
  if (leaf.origin.by === 'user') return leaf
  const [strongest] = [...leaf.stated, ...leaf.lost]
    .filter(({ origin }) => !isOfCluster(origin))
    .toSorted((left, right) => right.rank - left.rank)
  return strongest === undefined ? undefined : unchanged(strongest.value)
}

/** @param path as text, so that each node appends its own key instead of each leaf joining all of them */
function emitNode(node: Node, path: string, emission: Emission): unknown {
  emission.steps.spend(stepsOfPath(path))
  switch (node.kind) {
    case 'unchanged':
      return node.value
    case 'leaf':
      return emitLeaf(node, path, emission)
    case 'object':
      return emitObject(node, path, emission)
    case 'list':
      return emitList(node, path, emission)
  }
}

function emitLeaf(node: LeafNode, path: string, emission: Emission): unknown {
  if (node.origin.by !== 'user') emission.origins.set(path, node.origin)
  const { stated, overruled } = emission.granted
  noteCluster(stated, path, node.stated)
  noteCluster(overruled, path, node.lost)
  if (node.lost.length > 0) emission.lost.set(path, node.lost)
  return node.value
}

function noteCluster(noted: Map<string, readonly Origin[]>, path: string, sources: readonly Source[]): void {
  const cluster = sources.map(({ origin }) => origin).filter(isOfCluster)
  if (cluster.length > 0) noted.set(path, cluster)
}

const isOfCluster = (origin: Origin): boolean => origin.by === 'preset' && origin.namespace === undefined

function emitObject(node: ObjectNode, path: string, emission: Emission): unknown {
  const { user } = node
  const object: { [key: string]: unknown } = {}
  let isChanged = user === undefined || Object.keys(user).length !== node.entries.size
  for (const [key, entry] of node.entries) {
    const [name, member] = memberOf(key, entry)
    const value = member.kind === 'unchanged' ? member.value : emitNode(member, joinPath(path, name), emission)
    isChanged ||= user?.[name] !== value
    put(object, name, value)
  }
  if (!isChanged) return user
  for (const [key, value] of Object.entries(user ?? {})) {
    if (!Object.hasOwn(object, key) && !node.structure.singles.has(key)) noteLists(value, joinPath(path, key), emission)
  }
  return object
}

/** All lists of a value that is missing. */
function noteLists(value: unknown, path: string, emission: Emission): void {
  emission.steps.spend(stepsOfPath(path))
  if (Array.isArray(value)) emission.shortened.set(path, { user: value, missing: [...value.keys()] })
  else if (isRecord(value)) {
    for (const [key, member] of Object.entries(value)) noteLists(member, joinPath(path, key), emission)
  }
}

/** An only item is written under its short key, if the list has one. */
function memberOf(key: string, entry: Node): readonly [string, Node] {
  if (entry.kind !== 'list' || entry.single === undefined) return [key, entry]
  const [only, ...others] = entry.items
  return only === undefined || others.length > 0 ? [key, entry] : [entry.single, only.node]
}

/** Assigning `__proto__` would set the prototype; here it is a key like any other. */
export function put(object: { [key: string]: unknown }, key: string, value: unknown): void {
  if (key !== '__proto__') object[key] = value
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
}

function emitList(node: ListNode, path: string, emission: Emission): unknown {
  const { user } = node
  let isChanged = user === undefined || user.length !== node.items.length
  const items = node.items.map((item, index) => {
    if (emission.isFinal) item.path.key = index
    const value = emitNode(item.node, `${path}[${index}]`, emission)
    isChanged ||= user?.[index] !== value
    return value
  })
  if (user !== undefined) {
    const left = new Set(node.items.map(({ place }) => place))
    const missing = [...user.keys()].filter((place) => !left.has(place))
    if (missing.length > 0) emission.shortened.set(path, { user, missing })
  }
  return isChanged ? items : user
}
