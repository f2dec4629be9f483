import type { Cause } from '../api/cause.ts'
import { nearest } from '../api/nearest.ts'
import type { ObjectPresetSpec } from '../api/object-preset.ts'
import { joinPath, pathKeys } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { parseRemovePath } from './remove-path.ts'
import type { ListStructure, ObjectStructure, Structure } from './structure.ts'

/** Restricted paths by their keys. */
interface Tree {
  isEnd: boolean
  readonly below: Map<string, Tree>
}

const everyItem = '*'

function treeOf(paths: readonly string[]): Tree {
  const root: Tree = { isEnd: false, below: new Map() }
  for (const path of paths) {
    let at = root
    for (const key of pathKeys(path).map(String)) {
      const next = at.below.get(key) ?? { isEnd: false, below: new Map() }
      at.below.set(key, next)
      at = next
    }
    at.isEnd = true
  }
  return root
}

/** A field of a preset that a target restricts. */
export interface RestrictedUse {
  readonly field: string
  readonly path: string
}

/**
 * The places at which a preset sets or removes a restricted field. To remove what is above a restricted field removes
 * the field. So does to remove the key of the item that contains it, or to set a single value that could contain it, or
 * another branch of its union, because what the preset sets replaces the whole: by default, too, if the user has not
 * written it, but another webhook or the defaults of the kind.
 */
export function restrictedUses(
  { object = {}, remove = [] }: Pick<ObjectPresetSpec, 'object' | 'remove'>,
  restricted: readonly string[],
  structure: Structure,
): readonly RestrictedUse[] {
  const tree = treeOf(restricted)
  const removals = remove.flatMap((text, index): readonly RestrictedUse[] =>
    removes(text, tree, structure) ? [{ field: `spec.remove[${index}]`, path: text }] : [],
  )
  return [...uses({ value: object, structure, tree, field: 'spec.object', path: '' }), ...removals]
}

interface Place {
  readonly value: unknown
  /** Undefined below a single value. */
  readonly structure: Structure | undefined
  readonly tree: Tree
  readonly field: string
  readonly path: string
}

function uses(place: Place): readonly RestrictedUse[] {
  const { value, structure, tree, field, path } = place
  if (tree.isEnd || structure === undefined || structure.kind === 'leaf') return [{ field, path }]
  if (replacesBranch(value, structure, tree)) return [{ field, path }]
  return membersOf(value, structure).flatMap(({ key, at, member, below }) =>
    nextOf(tree, key).flatMap((next) =>
      uses({ value: member, structure: below, tree: next, field: joinPath(field, at), path: joinPath(path, key) }),
    ),
  )
}

function membersOf(value: unknown, structure: ObjectStructure | ListStructure) {
  if (structure.kind === 'list') {
    const items: readonly unknown[] = Array.isArray(value) ? value : []
    return items.map((member, at) => ({ key: everyItem, at, member, below: structure.item }))
  }
  const fields = Object.entries(isRecord(value) ? value : {})
  return fields.map(([key, member]) => ({ key, at: key, member, below: structure.field(key) }))
}

/** `[*]` stands for every item of a list, and for every key of a map. */
const nextOf = (tree: Tree, key: string): readonly Tree[] =>
  [...new Set([key, everyItem])].flatMap((one) => tree.below.get(one) ?? [])

/** Whether the value is of one branch of a union, of which another branch is restricted. */
function replacesBranch(value: unknown, structure: Structure, { below }: Tree): boolean {
  if (structure.kind !== 'object' || structure.union === undefined || !isRecord(value)) return false
  const { union } = structure
  const branch = union.branchOf(value)
  return branch !== undefined && [...below.keys()].some((key) => key !== branch && union.owns(key))
}

function removes(text: string, tree: Tree, structure: Structure): boolean {
  const path = parseRemovePath(text)
  // Refused for its form.
  if (path === undefined) return false
  let at: readonly Tree[] = [tree]
  let [above, below]: readonly (Structure | undefined)[] = [undefined, structure]
  for (const step of path.steps) {
    const key = step.kind === 'key' ? step.key : everyItem
    if (above?.kind === 'list' && isRequired(key, above)) return at.length > 0
    at = at.flatMap((one) => nextOf(one, key))
    if (at.some(({ isEnd }) => isEnd)) return true
    ;[above, below] = [below, below === undefined ? undefined : structureBelow(below, key)]
  }
  return at.length > 0
}

const structureBelow = (structure: Structure, key: string): Structure | undefined => {
  if (structure.kind === 'object') return structure.field(key)
  return structure.kind === 'list' ? structure.item : undefined
}

/** Whether an item of the list is removed when it loses this field: its key, or the branch of its union. */
const isRequired = (key: string, { keys, item }: ListStructure): boolean =>
  keys.flat().some(([first]) => first === key) || (item.kind === 'object' && item.union?.owns(key) === true)

/** A cause for each restricted path that the kind does not have, or that ends in no field. */
export const restrictedPathCauses = (restricted: readonly string[], structure: Structure): readonly Cause[] =>
  restricted.flatMap((path, index): readonly Cause[] => {
    const fault = faultOf(pathKeys(path), structure)
    if (fault === undefined) return []
    const { message, near } = fault
    return [
      {
        rule: 'preset-target',
        field: `spec.restricted[${index}]`,
        value: path,
        reason: 'FieldValueInvalid',
        message,
        ...(near === undefined ? {} : { suggestion: `did you mean ${JSON.stringify(near)}?` }),
      },
    ]
  })

/** Lists of containers of one pod. A field of the one reaches as far as that of the other. */
const twins = ['containers', 'initContainers'] as const

/** Warns of each restricted field of containers that is not restricted for the other containers of the pod. */
export function restrictedWarnings(restricted: readonly string[], structure: Structure): readonly string[] {
  const keysOf = (path: string) => pathKeys(path).map(String)
  const known = new Set(restricted.map((path) => keysOf(path).join(' ')))
  const isKnown = (keys: readonly string[]) => keys.some((_, index) => known.has(keys.slice(0, index + 1).join(' ')))
  return restricted.flatMap((path) => {
    const keys = keysOf(path)
    return twins.flatMap((one, index) => {
      const at = keys.indexOf(one)
      const other = at < 0 ? [] : keys.with(at, twins[1 - index] ?? one)
      if (at < 0 || isKnown(other) || faultOf(other, structure) !== undefined) return []
      return [`spec.restricted: restricts ${path}, but not ${other.reduce(joinRestricted, '')}`]
    })
  })
}

const joinRestricted = (path: string, key: string): string => joinPath(path, key)

interface Fault {
  readonly message: string
  readonly near?: string | undefined
}

function faultOf([key, ...rest]: readonly (string | number)[], structure: Structure): Fault | undefined {
  // What is below a single value cannot be known.
  if (key === undefined || structure.kind === 'leaf') return undefined
  if (structure.kind === 'list') {
    return key === everyItem ? faultOf(rest, structure.item) : { message: `needs [*] in place of ${key}` }
  }
  const below = structure.field(String(key))
  if (below !== undefined) return faultOf(rest, below)
  return { message: `there is no field ${key}`, near: nearest(String(key), structure.keys()) }
}

export const restrictedCause = ({ field, path }: RestrictedUse, message: string): Cause => ({
  rule: 'restricted-field',
  field,
  value: path,
  reason: 'FieldValueForbidden',
  message,
})
