import type { Origin } from '../api/cause.ts'
import { isRecord } from '../api/schema.ts'
import { unmetered } from '../api/steps.ts'
import { createMeanings, type Comparison } from './comparison.ts'
import { coversAll, leafPaths, prune } from './cover.ts'
import { beginsItem, creatorOf, groupItems } from './items.ts'
import type { Path } from '../api/path.ts'
import type { Source } from './source.ts'
import { compareSources, compareText, isFilledIn, isUser } from './source.ts'
import {
  asJson,
  type LeafStructure,
  type ListStructure,
  type ObjectStructure,
  type Structure,
  type UnionStructure,
} from './structure.ts'
import type { LeafNode, ListItem, Node } from './tree.ts'
import { unchanged } from './tree.ts'

/** Sources of one rank that set one leaf to different values, with no stronger source for it. */
export interface Conflict {
  readonly path: Path
  readonly sources: readonly Source[]
}

export type SkipReason = 'no-such-item' | 'other-branch' | 'volume-lost' | 'volume-missing'

/** A preset's value that is not applied. */
export interface Skip {
  readonly origin: Origin
  readonly path: Path
  readonly reason: SkipReason
}

/** A list that presets make longer than allowed. */
export interface LongList {
  readonly path: Path
  readonly length: number
  readonly maxItems: number
  /** The presets' sources for this list. */
  readonly sources: readonly Source[]
}

export interface Merge extends Comparison {
  readonly conflicts: Conflict[]
  readonly longLists: LongList[]
  readonly skipped: Skip[]
  /** The user's values that lost and in whose place there is no leaf: of a union branch, or of another form. */
  readonly lostParts: { readonly path: Path; readonly source: Source }[]
}

/** @param meanings of values that another merge has read too */
export const emptyMerge = (steps = unmetered, meanings = createMeanings()): Merge => ({
  conflicts: [],
  longLists: [],
  skipped: [],
  lostParts: [],
  steps,
  meanings,
})

/**
 * Merges all sources of one VM, including the user: for each leaf the strongest source wins. The order of `sources`
 * does not matter, and none of them is modified.
 * @returns undefined if there is no value
 */
export const mergeSources = (
  structure: Structure,
  sources: readonly Source[],
  path: Path,
  merge: Merge,
): Node | undefined => mergeNode(structure, sources.toSorted(compareSources), path, merge)

/** @param sources at least one, strongest first */
function mergeNode(structure: Structure, sources: readonly Source[], path: Path, merge: Merge): Node | undefined {
  const [first] = sources
  if (first !== undefined && sources.length === 1 && (isUser(first) || isFilledIn(first))) return unchanged(first.value)
  if (structure.kind === 'leaf') return mergeLeaf(structure, sources, path, merge)
  const user = sources.find(isUser)
  if (user !== undefined && !hasForm(structure, user.value))
    return mergeOtherForm(structure, sources, user, path, merge)
  return structure.kind === 'object'
    ? mergeObject(structure, sources, path, merge)
    : mergeList(structure, sources, path, merge)
}

const hasForm = ({ kind }: ObjectStructure | ListStructure, value: unknown): boolean =>
  kind === 'object' ? isRecord(value) : Array.isArray(value)

/**
 * The user wrote a value of another form where presets have an object or a list: `null`, which a schema can allow, or
 * what the schema refuses later. It is one value, so a stronger source that states anything here overrides all of it;
 * then it is as if the user had written nothing.
 */
function mergeOtherForm(
  structure: ObjectStructure | ListStructure,
  sources: readonly Source[],
  user: Source,
  path: Path,
  merge: Merge,
): Node | undefined {
  if (!sources.some(({ rank, value }) => rank > user.rank && isMaking(structure, value))) return unchanged(user.value)
  merge.lostParts.push({ path, source: user })
  return mergeNode(
    structure,
    sources.filter((source) => source !== user),
    path,
    merge,
  )
}

/** Whether a value makes something where there is nothing. Items that only change others, such as `'*'`, do not. */
function isMaking(structure: Structure, value: unknown): boolean {
  if (structure.kind === 'leaf') return true
  if (structure.kind === 'list') return Array.isArray(value) && value.some((item) => beginsItem(structure, item))
  if (!isRecord(value)) return false
  const keys = Object.keys(value)
  return keys.length === 0 || keys.some((key) => isMaking(structure.field(key) ?? asJson, value[key]))
}

function mergeLeaf(structure: LeafStructure, sources: readonly Source[], path: Path, merge: Merge): Node | undefined {
  const [top] = sources
  if (top === undefined) return undefined
  if (sources.length === 1) {
    const { value, origin, rank } = top
    return { kind: 'leaf', value, origin, rank, stated: sources, lost: [] }
  }
  const group = sources.filter(({ rank }) => rank === top.rank)
  merge.steps.spend(sources.length)
  const user = sources.find(isUser)
  const meaningIn = ({ value }: Source) => merge.meanings(structure, value, merge.steps)
  const meaning = meaningIn(top)
  const isEqual = (source: Source) => meaningIn(source) === meaning
  if (!group.every(isEqual)) {
    merge.conflicts.push({ path, sources: group })
    return user === undefined ? undefined : unchanged(user.value)
  }
  const isUsers = user !== undefined && isEqual(user)
  return {
    kind: 'leaf',
    value: isUsers ? user.value : commonSpelling(structure, group),
    origin: isUsers ? user.origin : top.origin,
    rank: top.rank,
    stated: sources.filter((source) => !isUser(source) && isEqual(source)),
    lost: sources.filter((source) => !isEqual(source)),
  }
}

/** The spelling that all sources share, or else libvirt's own, so that neither order nor names decide. */
function commonSpelling(structure: LeafStructure, group: readonly Source[]): unknown {
  const [first, ...others] = group
  const text = JSON.stringify(first?.value)
  return others.every(({ value }) => JSON.stringify(value) === text) ? first?.value : structure.spelling(first?.value)
}

type Fields = { readonly [key: string]: unknown }

interface ObjectSource extends Source {
  readonly value: Fields
}

const isObjectSource = (source: Source): source is ObjectSource => isRecord(source.value)

function mergeObject(structure: ObjectStructure, given: readonly Source[], path: Path, merge: Merge): Node | undefined {
  const user = given.find(isUser)
  const objects = withOneSpelling(structure, given.filter(isObjectSource))
  const sources = structure.union === undefined ? objects : settleUnion(structure.union, objects, path, merge)
  const entries = new Map<string, Node>()
  const own = sources.find(isUser)?.value ?? {}
  const stated = membersOf(sources)
  for (const key of keysOf(structure, own, stated)) {
    const members = stated.get(key)
    // Most fields are set by the user alone.
    if (members === undefined) {
      entries.set(key, unchanged(own[key]))
      continue
    }
    const node = mergeField(structure, key, members, { parent: path, key }, merge)
    if (node !== undefined) entries.set(key, withUsersSpelling(structure, key, node, user?.value))
  }
  if (entries.size === 0) return presence(sources)
  return {
    kind: 'object',
    structure,
    entries,
    user: isRecord(user?.value) ? user.value : undefined,
    path,
    presence: presence(objects),
  }
}

/** All sources' values for each key that a preset states. One pass: many sources may have one key each. */
function membersOf(sources: readonly ObjectSource[]): ReadonlyMap<string, readonly Source[]> {
  const members = new Map<string, Source[]>()
  for (const source of sources) {
    if (!isUser(source)) for (const key of Object.keys(source.value)) members.set(key, [])
  }
  for (const { rank, origin, value } of sources) {
    for (const key of Object.keys(value)) members.get(key)?.push({ rank, origin, value: value[key] })
  }
  return members
}

function mergeField(
  structure: ObjectStructure,
  key: string,
  sources: readonly Source[],
  path: Path,
  merge: Merge,
): Node | undefined {
  const field = structure.field(key)
  const user = sources.find(isUser)
  // The schema refuses unknown keys later; the user's value is left as it is.
  if (field === undefined) return user === undefined ? undefined : unchanged(user.value)
  return mergeNode(field, sources, path, merge)
}

/** If the user wrote the only item under its short key, it remains there as long as it is the only one. */
function withUsersSpelling(structure: ObjectStructure, key: string, node: Node, user: unknown): Node {
  if (node.kind !== 'list' || !isRecord(user)) return node
  const single = [...structure.singles].find(([short, list]) => list === key && Object.hasOwn(user, short))?.[0]
  return single === undefined ? node : { ...node, single }
}

/** An empty object means that the element exists (`acpi: {}`), so it is a value. */
function presence(sources: readonly ObjectSource[]): LeafNode | undefined {
  const present = sources.filter(({ value }) => Object.keys(value).length === 0)
  const credited = present.find(isUser) ?? present[0]
  if (credited === undefined) return undefined
  const { value, origin } = credited
  const stated = present.filter((source) => !isUser(source))
  return { kind: 'leaf', value, origin, rank: present[0]?.rank ?? credited.rank, stated, lost: [] }
}

/** The user's keys as written, then keys that presets add, in the order of the description. */
function keysOf(structure: ObjectStructure, own: Fields, stated: ReadonlyMap<string, unknown>): readonly string[] {
  const added = [...stated.keys()].filter((key) => !Object.hasOwn(own, key))
  added.sort((left, right) => structure.place(left) - structure.place(right) || compareText(left, right))
  return [...Object.keys(own), ...added]
}

/** If one source writes the only item of a list under its short key and another writes the list, both become lists. */
function withOneSpelling(structure: ObjectStructure, sources: readonly ObjectSource[]): readonly ObjectSource[] {
  let result = sources
  for (const [single, list] of structure.singles) {
    if (!result.some(({ value }) => Object.hasOwn(value, list))) continue
    result = result.map((source) => {
      if (!Object.hasOwn(source.value, single)) return source
      const { [single]: only, [list]: items = [], ...others } = source.value
      const asList = [only, ...(Array.isArray(items) ? items : [items])]
      return { ...source, value: { ...others, [list]: asList } }
    })
  }
  return result
}

/**
 * The strongest source that selects a branch decides for all. Sources that select another branch lose all their fields
 * of the union; sources that select none lose those that are not valid in the branch.
 */
function settleUnion(
  union: UnionStructure,
  sources: readonly ObjectSource[],
  path: Path,
  merge: Merge,
): readonly ObjectSource[] {
  const undecided = sources.find((source) => isUser(source) && union.branchOf(source.value) === undefined)
  const owned = undecided === undefined ? [] : ownedPaths(union, undecided.value)
  const mayDecide = (source: ObjectSource): boolean =>
    undecided === undefined ||
    owned.length === 0 ||
    source.rank > undecided.rank ||
    arePathsValid(union, union.branchOf(source.value), owned)
  const decided = sources.filter((source) => union.branchOf(source.value) !== undefined && mayDecide(source))
  const [top] = decided
  const branch = top === undefined ? undefined : union.branchOf(top.value)
  const rivals = decided.filter(({ rank }) => rank === top?.rank)
  if (rivals.some(({ value }) => union.branchOf(value) !== branch))
    return splitUnion(union, sources, rivals, path, merge)
  return sources.map((source) => {
    const own = union.branchOf(source.value)
    if (own === branch) return source
    if (own === undefined) return branch === undefined ? source : onlyValid(union, branch, source, path, merge)
    return mayDecide(source) ? withoutBranch(union, source, path, merge) : withoutUnion(union, source, path, merge)
  })
}

/** Presets of one rank select different branches: one conflict, on the deciding attribute. Drops their union fields. */
function splitUnion(
  union: UnionStructure,
  sources: readonly ObjectSource[],
  rivals: readonly ObjectSource[],
  path: Path,
  merge: Merge,
): readonly ObjectSource[] {
  const { by } = union
  merge.conflicts.push({
    path: by === undefined ? path : { parent: path, key: by },
    sources: rivals.map((source) => ({ ...source, value: by === undefined ? source.value : source.value[by] })),
  })
  return sources.map((source) =>
    isUser(source) ? source : { ...source, value: prune(source.value, (key) => !union.owns(key)) },
  )
}

const ownedPaths = (union: UnionStructure, value: Fields): readonly string[] => leafPaths(prune(value, union.owns))

function arePathsValid(union: UnionStructure, branch: string | undefined, paths: readonly string[]): boolean {
  const valid = branch === undefined ? undefined : union.validIn(branch)
  return valid !== undefined && coversAll(valid, paths)
}

/** For a source that selects no branch: drops what is not valid in the selected branch. */
function onlyValid(
  union: UnionStructure,
  branch: string,
  source: ObjectSource,
  path: Path,
  merge: Merge,
): ObjectSource {
  const valid = union.validIn(branch)
  if (valid === undefined) return source
  const isValid = (key: string) => !union.owns(key) || coversAll(valid, leafPaths({ [key]: source.value[key] }))
  noteLoss(source, (key) => !isValid(key), path, merge)
  return { ...source, value: prune(source.value, isValid) }
}

/** For a source that selected another branch: drops all but the deciding attribute, which loses like any leaf. */
function withoutBranch(union: UnionStructure, source: ObjectSource, path: Path, merge: Merge): ObjectSource {
  const isLost = (key: string) => union.owns(key) && key !== union.by
  noteLoss(source, isLost, path, merge)
  return { ...source, value: prune(source.value, (key) => !isLost(key)) }
}

/** For a source that must not decide because the user's values are not valid in its branch. */
function withoutUnion(union: UnionStructure, source: ObjectSource, path: Path, merge: Merge): ObjectSource {
  noteLoss(source, union.owns, path, merge)
  return { ...source, value: prune(source.value, (key) => !union.owns(key)) }
}

function noteLoss(source: ObjectSource, isLost: (key: string) => boolean, path: Path, merge: Merge): void {
  for (const [key, value] of Object.entries(source.value)) {
    if (!isLost(key)) continue
    const at = { parent: path, key }
    if (isUser(source)) merge.lostParts.push({ path: at, source: { ...source, value } })
    else merge.skipped.push({ origin: source.origin, path: at, reason: 'other-branch' })
  }
}

function mergeList(structure: ListStructure, sources: readonly Source[], path: Path, merge: Merge): Node | undefined {
  const user = sources.find(isUser)
  const { groups, homeless } = groupItems(structure, sources, merge)
  for (const { origin, label } of homeless) {
    merge.skipped.push({ origin, path: { parent: path, key: label }, reason: 'no-such-item' })
  }
  const length = groups.length
  const { maxItems } = structure
  const users = Array.isArray(user?.value) ? user.value.length : 0
  if (length > maxItems && length > users) {
    merge.longLists.push({ path, length, maxItems, sources: sources.filter((source) => !isUser(source)) })
    return user === undefined ? undefined : unchanged(user.value)
  }
  const items: ListItem[] = []
  for (const [place, members] of groups.entries()) {
    const at: Path = { parent: path, key: items.length }
    const node = mergeNode(structure.item, members.toSorted(compareSources), at, merge)
    if (node !== undefined) items.push({ node, path: at, place, createdBy: creatorOf(structure, members) })
  }
  if (user === undefined && items.length === 0) return undefined
  return { kind: 'list', structure, items, user: Array.isArray(user?.value) ? user.value : undefined, path }
}
