import { isRecord } from '../api/schema.ts'
import { sizeOf, unmetered, type Steps } from '../api/steps.ts'
import type { CompiledPreset } from './compile.ts'
import { meaningOf } from './cover.ts'
import { lazy } from './lazy.ts'
import type { Conflict } from './merge.ts'
import type { Path } from '../api/path.ts'
import type { MatchStep, RemoveStep } from './remove-path.ts'
import type { Source } from './source.ts'
import type { ListStructure, ObjectStructure, Structure } from './structure.ts'
import { structureAt, valueAt } from './structure.ts'
import type { ListItem, LeafNode, Node, ObjectNode } from './tree.ts'
import { open, valueOf } from './tree.ts'

export interface Removal {
  readonly path: Path
  readonly preset: CompiledPreset
}

export interface Removed {
  readonly node: Node | undefined
  readonly conflicts: readonly Conflict[]
  readonly removed: readonly Removal[]
}

/** A step of a path, or every item of a list. */
type Step = RemoveStep | { readonly kind: 'every' }

/** A path from the root, and the preset that removes it. */
export interface Target {
  readonly steps: readonly Step[]
  readonly preset: CompiledPreset
}

interface Work {
  readonly steps: Steps
  readonly conflicts: Conflict[]
  readonly removed: Removal[]
  /** What the value in a step means, by the step: it is compared with each item of its list. */
  readonly meanings: WeakMap<Step, string>
}

/**
 * Removes the values that the presets' `remove` paths name. Indexes refer to the list before any removal. A value of a
 * stronger source remains; a value of a source of equal rank is a conflict.
 */
export function removePaths(
  node: Node,
  structure: Structure,
  path: Path,
  targets: readonly Target[],
  steps = unmetered,
): Removed {
  const work: Work = { conflicts: [], removed: [], meanings: new WeakMap(), steps }
  return { node: removeIn(node, structure, path, targets, work), ...work }
}

/** @returns undefined if nothing remains */
function removeIn(
  given: Node,
  structure: Structure | undefined,
  path: Path,
  targets: readonly Target[],
  work: Work,
): Node | undefined {
  const [strongest] = targets
    .filter(({ steps }) => steps.length === 0)
    .toSorted((one, other) => other.preset.rank - one.preset.rank)
    .map(({ preset }) => preset)
  // What one preset leaves here because it is weaker than the source, a stronger one can remove.
  const below = targets.filter(
    ({ steps, preset }) => steps.length > 0 && (strongest === undefined || preset.rank > strongest.rank),
  )
  const left = below.length === 0 ? given : removeBelow(given, structure, path, below, work)
  return strongest === undefined || left === undefined ? left : strip(left, path, strongest, work)
}

function removeBelow(
  given: Node,
  structure: Structure | undefined,
  path: Path,
  targets: readonly Target[],
  work: Work,
): Node | undefined {
  const node = open(given, structure, path)
  if (node.kind === 'object') return removeInObject(node, targets, work)
  return node.kind === 'list' ? removeInList(node, targets, work) : given
}

function removeInObject(node: ObjectNode, targets: readonly Target[], work: Work): Node | undefined {
  work.steps.spend(targets.length)
  const { structure, path } = node
  const byKey = Map.groupBy(
    targets.map((target) => withListKey(structure, target)),
    ({ steps: [step] }) => (step?.kind === 'key' ? step.key : undefined),
  )
  const entries = new Map<string, Node>()
  for (const [key, entry] of node.entries) {
    const list = structure.singles.get(key)
    const inner = (byKey.get(list ?? key) ?? []).map(({ steps: [, ...rest], preset }) => ({ steps: rest, preset }))
    const at = { parent: path, key }
    const left =
      list === undefined
        ? removeIn(entry, structure.field(key), at, inner, work)
        : removeInOnlyItem(entry, structure.field(list), at, inner, work)
    if (left !== undefined) entries.set(key, left)
  }
  return entries.size > 0 || isRoot(path) ? { ...node, entries } : node.presence
}

/** A short key names every item of its list, so that users cannot keep a value by writing it in the other spelling. */
function withListKey({ singles }: ObjectStructure, { steps: [step, ...rest], preset }: Target): Target {
  const list = step?.kind === 'key' ? singles.get(step.key) : undefined
  const own = step === undefined ? rest : [step, ...rest]
  return { preset, steps: list === undefined ? own : [{ kind: 'key', key: list }, { kind: 'every' }, ...rest] }
}

/** Removes from the value of a short key what the targets name in its list. */
function removeInOnlyItem(
  given: Node,
  structure: Structure | undefined,
  path: Path,
  targets: readonly Target[],
  work: Work,
): Node | undefined {
  if (structure?.kind !== 'list') return given
  // It was merged as a field of its object, so it needs no key of its own.
  const item: ListItem = { node: given, path, place: 0, createdBy: Infinity }
  const left = removeIn(
    { kind: 'list', structure, items: [item], user: undefined, path },
    structure,
    path,
    targets,
    work,
  )
  return left?.kind === 'list' ? left.items[0]?.node : undefined
}

/** The VM and its domain remain even if they are empty; so its spec and metadata never are. */
const isRoot = ({ parent, key }: Path): boolean => parent === undefined || (parent.key === 'spec' && key === 'domain')

function removeInList(node: Extract<Node, { kind: 'list' }>, targets: readonly Target[], work: Work): Node | undefined {
  work.steps.spend(node.items.length * targets.length)
  const items: ListItem[] = []
  for (const [index, item] of node.items.entries()) {
    const readings = readingsOf(node.structure, item, work)
    const inner = targets.flatMap(({ steps, preset }) =>
      steps[0] !== undefined && isMeant(steps[0], readings, index, work) ? [{ steps: steps.slice(1), preset }] : [],
    )
    const left = removeIn(item.node, node.structure.item, item.path, inner, work)
    if (left === undefined) continue
    // Another preset would have created the item without the key that a weaker one, or itself, removes.
    const stronger = inner.filter(({ preset }) => preset.rank > item.createdBy)
    const ofStronger = stronger.length === inner.length ? left : removeAside(item, node.structure.item, stronger, work)
    if (stronger.length === 0 || isWhole(node.structure, ofStronger, item, work)) items.push({ ...item, node: left })
  }
  return items.length === 0 && node.items.length > 0 ? undefined : { ...node, items }
}

/** What would be left of an item if only these targets were removed. */
const removeAside = (item: ListItem, structure: Structure, targets: readonly Target[], work: Work): Node | undefined =>
  targets.length === 0
    ? item.node
    : removeIn(item.node, structure, item.path, targets, { ...work, conflicts: [], removed: [] })

/** A value of an item, in the forms with which a path is compared. */
interface Reading {
  readonly structure: Structure
  readonly meaning: string
  readonly json: string
}

/**
 * Reads values of an item, each once: thousands of paths can name one value, and users decide how large it is. A path
 * with a short key can have several values, one for each item of its list.
 */
function readingsOf({ item: structure, keys }: ListStructure, item: ListItem, work: Work) {
  const isKey = (at: string) => keys.some((paths) => paths.some((path) => path.join('.') === at))
  const value = lazy(() => valueOf(item.node, item.path, work.steps))
  const known = new Map<string, readonly Reading[]>()
  return ({ at, path }: MatchStep): readonly Reading[] => {
    const read = known.get(at)
    if (read !== undefined) return read
    work.steps.spend(path.length)
    const leaf = structureAt(structure, path)
    const own = valuesAt(value(), path, structure)
    // The API server fills in other defaults only where their parents exist, and none for `null`.
    const found = own.length === 0 && leaf?.kind === 'leaf' && isKey(at) ? [leaf.absent] : own
    const readings = found.flatMap((one): readonly Reading[] => {
      if (one === undefined || leaf === undefined) return []
      work.steps.spend(sizeOf(one))
      return [{ structure: leaf, meaning: meaningOf(leaf, one), json: JSON.stringify(one) }]
    })
    known.set(at, readings)
    return readings
  }
}

/** The values at a path, in whichever spelling the lists with a short key are. */
function valuesAt(value: unknown, [key, ...rest]: readonly string[], structure: Structure | undefined): unknown[] {
  if (key === undefined) return [value]
  if (structure?.kind !== 'object') return []
  const list = structure.singles.get(key)
  const items = list === undefined ? undefined : valueAt(value, [list])
  const own = valueAt(value, [key])
  const below = [...(own === undefined ? [] : [own]), ...(Array.isArray(items) ? items : [])]
  return below.flatMap((one) => valuesAt(one, rest, structure.field(key)))
}

function isMeant(
  step: Step,
  readings: ReturnType<typeof readingsOf>,
  index: number,
  { meanings, steps }: Work,
): boolean {
  if (step.kind === 'key') return false
  if (step.kind === 'every') return true
  if (step.kind === 'index') return step.index === index
  const found = readings(step)
  steps.spend(found.length)
  return found.some(({ structure, meaning, json }) => {
    const meant = meanings.get(step) ?? meaningOf(structure, step.value)
    meanings.set(step, meant)
    return meaning === meant || json === step.value
  })
}

/** Whether an item still has its key and its union's deciding attribute. Without them it is removed as well. */
function isWhole(
  { item: structure, keys }: ListStructure,
  left: Node | undefined,
  item: ListItem,
  { steps }: Work,
): boolean {
  if (left === undefined) return false
  const before = valueOf(item.node, item.path, steps)
  const after = valueOf(left, item.path, steps)
  const remains = (path: readonly string[]) => valueAt(before, path) === undefined || valueAt(after, path) !== undefined
  if (!keys.flat().every(remains)) return false
  const union = structure.kind === 'object' ? structure.union : undefined
  if (union === undefined || !isRecord(before) || !isRecord(after)) return true
  return union.branchOf(before) === undefined || union.branchOf(after) !== undefined
}

/** Removes all values at or below a place whose sources are weaker than `preset`. */
function strip(given: Node, path: Path, preset: CompiledPreset, work: Work): Node | undefined {
  switch (given.kind) {
    case 'unchanged':
      work.removed.push({ path, preset })
      return undefined
    case 'leaf':
      return stripLeaf(given, path, preset, work)
    case 'object': {
      const left = [...given.entries].flatMap(([key, entry]) => {
        const node = strip(entry, { parent: path, key }, preset, work)
        return node === undefined ? [] : [[key, node] as const]
      })
      if (left.length > 0) return { ...given, entries: new Map(left) }
      const { presence } = given
      return presence && stripLeaf(presence, path, preset, work)
    }
    case 'list': {
      const left = given.items.flatMap((item) => {
        const node = strip(item.node, item.path, preset, work)
        // What a stronger preset sets of every item creates none.
        const isLost = preset.rank > item.createdBy && !isWhole(given.structure, node, item, work)
        return node === undefined || isLost ? [] : [{ ...item, node }]
      })
      return left.length === 0 ? undefined : { ...given, items: left }
    }
  }
}

function stripLeaf(leaf: LeafNode, path: Path, preset: CompiledPreset, work: Work): Node | undefined {
  if (leaf.rank > preset.rank) return leaf
  if (leaf.rank === preset.rank) {
    const remover: Source = { rank: preset.rank, origin: preset.origin, value: undefined }
    const setters = leaf.stated.filter(({ rank }) => rank === preset.rank)
    work.conflicts.push({ path, sources: [...setters, remover] })
    return leaf
  }
  work.removed.push({ path, preset })
  return undefined
}
