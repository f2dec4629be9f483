import type { Origin } from '../api/cause.ts'
import type { Domain } from '../api/domain/domain.ts'
import type { Origins } from '../presets/origins.ts'
import { joinPath, parentPath, pathKeys } from '../api/path.ts'
import { addedPaths, isHolder, type Added } from './defaults/apply.ts'

/** Combines known origins with those of the values that default rules added to a domain. Keyed by path. */
export function allOrigins(origins: Origins, added: Added, domain: Domain): Origins {
  const all = new Map(origins)
  const byRule = new Map<string, Origin>()
  for (const [path, rule] of addedPaths(added, domain, 'spec.domain')) {
    const origin = byRule.get(rule) ?? { by: 'default', rule }
    byRule.set(rule, origin)
    all.set(path, origin)
  }
  return all
}

/** The default rule that added the leaf at a path, or the leaf at which the path ends prematurely. */
export function ruleAt(added: Added, root: object, path: string): string | undefined {
  let holder = root
  for (const key of pathKeys(path)) {
    const member: unknown = Object.hasOwn(holder, key) ? Reflect.get(holder, key) : undefined
    if (!isHolder(member)) return added.get(holder)?.get(String(key))
    holder = member
  }
  return undefined
}

const users: Origin = { by: 'user' }

/** The origin of the leaf at `path`: the nearest entry at or above it, or else the user. */
export function originOf(origins: Origins, path: string): Origin {
  if (origins.size === 0) return users
  for (let at = path; at !== ''; at = parentPath(at)) {
    const origin = origins.get(at)
    if (origin !== undefined) return origin
  }
  return origins.get('') ?? users
}

/**
 * The origin of a whole value: the user if any leaf is theirs, then a preset of a namespace, then the origin of
 * the first leaf.
 * @param leafOrigin the origin of a leaf
 */
export function originWithin(value: unknown, path: string, leafOrigin: (path: string) => Origin): Origin {
  const found = leavesBelow(value, path).map(leafOrigin)
  const isNamespaced = (origin: Origin) => origin.by === 'preset' && origin.namespace !== undefined
  return found.find(({ by }) => by === 'user') ?? found.find(isNamespaced) ?? found[0] ?? users
}

/** The paths of the leaves of a value; its own path if it is a leaf. */
export function leavesBelow(value: unknown, path: string): readonly string[] {
  if (!isHolder(value)) return [path]
  return Object.entries(value).flatMap(([key, member]) =>
    leavesBelow(member, joinPath(path, Array.isArray(value) ? Number(key) : key)),
  )
}

/** The value at a path as it is printed; undefined if it does not exist. */
export const valueAtPath = (value: unknown, path: string): unknown => valueAtKeys(value, pathKeys(path))

function valueAtKeys(value: unknown, keys: readonly (string | number)[]): unknown {
  let at = value
  for (const key of keys) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = Reflect.get(at, key)
  }
  return at
}
