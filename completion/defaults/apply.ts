import type { Domain } from '../../api/domain/domain.ts'
import { isRecord } from '../../api/schema.ts'
import { joinPath } from '../../api/path.ts'
import type { Addition, Context, Rule } from './rule.ts'

/**
 * Maps each object or list of a domain to the keys of its added leaves, and each of these to the rule that added it.
 */
export type Added = ReadonlyMap<object, ReadonlyMap<string, string>>

/**
 * Applies rules in order to a copy of the domain.
 * @returns the copy, and what was added to it
 */
export const applyRules = (
  rules: readonly Rule[],
  original: Domain,
  context: Context,
): { domain: Domain; added: Added } => {
  const domain = unshared(original) as Domain
  const added = new Map<object, Map<string, string>>()
  let rule = ''
  const note: Note = (holder, key) => {
    const leaves = added.get(holder)
    if (leaves) leaves.set(key, rule)
    else added.set(holder, new Map([[key, rule]]))
  }
  for (const { name, about, apply } of rules) {
    if (about?.every((key) => domain.devices?.[key] === undefined)) continue
    rule = name
    for (const addition of apply(domain, context, original)) add(addition, note)
  }
  return { domain, added }
}

/** Copies a value so that no object is shared: a YAML anchor that is used twice yields one object in two places. */
const unshared = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(unshared)
  if (!isRecord(value)) return value
  const copied: { [key: string]: unknown } = { ...value }
  for (const key of Object.keys(copied)) copied[key] = unshared(copied[key])
  return copied
}

type JsonObject = { [key: string]: unknown }

/** Called for each leaf that is added. */
type Note = (holder: object, key: string) => void

const add = (addition: Addition, note: Note): void => {
  // Rules refer to objects of the copy, which may be modified.
  const target = addition.to as JsonObject
  if (addition.kind === 'fill') {
    merge(target, addition.values, note)
    return
  }
  const list = target[addition.key] ?? (target[addition.key] = [])
  if (Array.isArray(list)) list.push(copy(addition.item, list, String(list.length), note))
}

const merge = (target: JsonObject, values: object, note: Note): void => {
  for (const key of Object.keys(values)) {
    const value: unknown = Reflect.get(values, key)
    if (value === undefined) continue
    const present = target[key]
    if (Array.isArray(value) && value.length === 0) target[key] = present ?? []
    // An empty text requests a default (`genid: ''`); an empty list has no items to preserve.
    else if (present === undefined || present === '' || (Array.isArray(present) && present.length === 0)) {
      target[key] = copy(value, target, key, note)
    } else if (isRecord(present) && isRecord(value)) merge(present, value, note)
  }
}

/** Copies what a rule adds to a holder and notes each leaf. An empty object or list is a leaf too. */
const copy = (value: unknown, holder: object, key: string, note: Note): unknown => {
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (const item of value) items.push(copy(item, items, String(items.length), note))
    if (items.length === 0) note(holder, key)
    return items
  }
  if (!isRecord(value)) {
    note(holder, key)
    return value
  }
  const copied: JsonObject = {}
  let isEmpty = true
  for (const name of Object.keys(value)) {
    const member = value[name]
    if (member === undefined) continue
    isEmpty = false
    copied[name] = copy(member, copied, name, note)
  }
  if (isEmpty) note(holder, key)
  return copied
}

/**
 * Returns the paths of the added leaves, with the rules that added them. An object that was added empty and then filled
 * is no longer a leaf.
 * @param at the path of the domain, which prefixes the paths
 */
export const addedPaths = (added: Added, domain: Domain, at = ''): ReadonlyMap<string, string> => {
  const paths = new Map<string, string>()
  const visit = (holder: object, above: string): void => {
    const leaves = added.get(holder)
    const isList = Array.isArray(holder)
    for (const [key, member] of Object.entries(holder)) {
      const path = joinPath(above, isList ? Number(key) : key)
      const rule = leaves?.get(key)
      if (isHolder(member)) visit(member, path)
      else if (rule !== undefined) paths.set(path, rule)
    }
  }
  visit(domain, at)
  return paths
}

/** Whether a value has members. Scalars, empty objects and empty lists are leaves. */
export const isHolder = (value: unknown): value is object => {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.length > 0
  // Unlike `Object.keys`, this creates no list.
  for (const _ in value) return true
  return false
}
