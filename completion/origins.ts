import type { Origin } from '../api/cause.ts'
import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { isRecord } from '../api/schema.ts'
import type { Origins } from '../presets/origins.ts'
import { joinPath, pathKeys } from '../presets/path.ts'
import { addedPaths, isHolder, type Added } from './defaults/apply.ts'

/** By paths: origins that are known so already, and what rules added to a domain. */
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

/** The rule that added the leaf at a path, or the leaf at which the path ends too early. */
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

/** Who put the leaf at `path` there: the nearest entry above it, else the user. */
export function originOf(origins: Origins, path: string): Origin {
  if (origins.size === 0) return users
  for (let at = path; at !== ''; at = parentOf(at)) {
    const origin = origins.get(at)
    if (origin !== undefined) return origin
  }
  return origins.get('') ?? users
}

/**
 * Who is to answer for all that stands at a place: the user where any leaf is theirs, then a preset of a namespace, then whoever put
 * the first one there.
 * @param leafOrigin who put a leaf there
 */
export function originWithin(value: unknown, path: string, leafOrigin: (path: string) => Origin): Origin {
  if (typeof value !== 'object' || value === null) return leafOrigin(path)
  const found: Origin[] = []
  const visit = (at: unknown, atPath: string): void => {
    const members = typeof at === 'object' && at !== null ? Object.entries(at) : []
    if (members.length === 0) found.push(leafOrigin(atPath))
    for (const [key, member] of members) visit(member, joinPath(atPath, Array.isArray(at) ? Number(key) : key))
  }
  visit(value, path)
  const isNamespaced = (origin: Origin) => origin.by === 'preset' && origin.namespace !== undefined
  return found.find(({ by }) => by === 'user') ?? found.find(isNamespaced) ?? found[0] ?? users
}

/** The value at a path as it is printed; undefined where nothing is. */
export const valueAtPath = (value: unknown, path: string): unknown => valueAtKeys(value, pathKeys(path))

export function valueAtKeys(value: unknown, keys: readonly (string | number)[]): unknown {
  let at = value
  for (const key of keys) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = Reflect.get(at, key)
  }
  return at
}

/** `a.b[1]` → `a.b` → `a` → ''. */
function parentOf(path: string): string {
  if (path.endsWith(']')) return path.slice(0, path.lastIndexOf('['))
  return path.slice(0, Math.max(0, path.lastIndexOf('.'), path.lastIndexOf(']') + 1))
}

/**
 * The VM without what a provenance claims that presets and defaults put there: what its user may have sent. A claim is as good as
 * the proof: completed again, it must give the very same VM.
 */
export function withoutClaims(machine: VirtualMachine, origins: Origins): VirtualMachine {
  const visit = (value: unknown, path: string): unknown => {
    const isClaimed = (origins.get(path)?.by ?? 'user') !== 'user'
    if (isClaimed)
      return path === 'spec' ? { domain: {} } : path === 'spec.domain' ? {} : isRoot(path) ? value : undefined
    if (Array.isArray(value)) {
      const items = value.map((item, index) => visit(item, joinPath(path, index))).filter((item) => item !== undefined)
      return items.length === 0 && value.length > 0 ? undefined : items
    }
    if (!isRecord(value)) return value
    const members = Object.entries(value).flatMap(([key, member]) => {
      const left = visit(member, joinPath(path, key))
      return left === undefined ? [] : [[key, left] as const]
    })
    return members.length === 0 && Object.keys(value).length > 0 && !isRoot(path)
      ? undefined
      : Object.fromEntries(members)
  }
  // The parts of a VM that were taken out are those that a user may leave out.
  return visit(machine, '') as VirtualMachine
}

const isRoot = (path: string): boolean => ['', 'metadata', 'spec', 'spec.domain'].includes(path)
