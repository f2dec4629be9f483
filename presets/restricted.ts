import type { Cause } from '../api/cause.ts'
import { nearest } from '../api/nearest.ts'
import type { ObjectPresetSpec } from '../api/object-preset.ts'
import { joinPath, pathKeys } from '../api/path.ts'
import { isRecord } from '../api/schema.ts'
import { parseRemovePath } from './remove-path.ts'
import type { Structure } from './structure.ts'

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
 * the field.
 */
export function restrictedUses(
  { object = {}, remove = [] }: Pick<ObjectPresetSpec, 'object' | 'remove'>,
  restricted: readonly string[],
): readonly RestrictedUse[] {
  const tree = treeOf(restricted)
  const removals = remove.flatMap((text, index): readonly RestrictedUse[] =>
    removes(text, tree) ? [{ field: `spec.remove[${index}]`, path: text }] : [],
  )
  return [...uses(object, tree, 'spec.object', ''), ...removals]
}

function uses(value: unknown, tree: Tree, field: string, path: string): readonly RestrictedUse[] {
  if (tree.isEnd) return [{ field, path }]
  const members: readonly (readonly [string, string | number, unknown])[] = Array.isArray(value)
    ? value.map((item, index) => [everyItem, index, item] as const)
    : Object.entries(isRecord(value) ? value : {}).map(([key, member]) => [key, key, member] as const)
  return members.flatMap(([key, at, member]) => {
    const below = tree.below.get(key)
    return below === undefined ? [] : uses(member, below, joinPath(field, at), joinPath(path, key))
  })
}

function removes(text: string, tree: Tree): boolean {
  const path = parseRemovePath(text)
  // Refused for its form.
  if (path === undefined) return false
  let at = tree
  for (const step of path.steps) {
    const next = at.below.get(step.kind === 'key' ? step.key : everyItem)
    if (next === undefined) return false
    if (next.isEnd) return true
    at = next
  }
  return true
}

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
