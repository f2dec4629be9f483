import type { Domain } from '../../api/domain/domain.ts'
import { isRecord } from '../../api/schema.ts'
import type { Addition, Context, Rule } from './rule.ts'

/**
 * Applies rules one after the other to a copy of the domain.
 * @param at the path of the domain, which is put before those of leaves
 * @returns the copy with what was added, and for each leaf that was, its path (`devices.disks[1].driver.name`) and the rule's name
 */
export const applyRules = (
  rules: readonly Rule[],
  original: Domain,
  context: Context,
  at = '',
): { domain: Domain; added: ReadonlyMap<string, string> } => {
  const domain = unshared(original) as Domain
  const added = new Map<string, string>()
  for (const { name, about, apply } of rules) {
    if (about?.every((key) => domain.devices?.[key] === undefined)) continue
    for (const addition of apply(domain, context, original)) add(addition, name, added, at)
  }
  return { domain, added }
}

/** A copy in which every object stands in one place only: an anchor of YAML that is used twice gives one object in two places. */
const unshared = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(unshared)
  if (!isRecord(value)) return value
  const copied: { [key: string]: unknown } = { ...value }
  for (const key of Object.keys(copied)) copied[key] = unshared(copied[key])
  return copied
}

const add = (addition: Addition, rule: string, added: Map<string, string>, above: string): void => {
  // Rules name objects of the copy, which is ours to change.
  const target = addition.to as { [key: string]: unknown }
  const at = pathBelow(above, addition.at)
  if (addition.kind === 'fill') {
    merge(target, addition.values, at, rule, added)
    return
  }
  const { key, item } = addition
  added.delete(at)
  const list = target[key] ?? (target[key] = [])
  if (Array.isArray(list)) list.push(copy(item, `${at}[${list.length}]`, rule, added))
}

const pathBelow = (above: string, path: string): string =>
  above === '' ? path : path === '' ? above : `${above}.${path}`

const merge = (
  target: { [key: string]: unknown },
  values: object,
  at: string,
  rule: string,
  added: Map<string, string>,
): void => {
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined) continue
    const path = pathBelow(at, key)
    const present = target[key]
    if (Array.isArray(value) && value.length === 0) target[key] = present ?? []
    // An empty text asks for what it does not say: `genid: ''`; an empty list has nothing that could be changed.
    else if (present === undefined || present === '' || (Array.isArray(present) && present.length === 0)) {
      // What was added empty is no leaf any more.
      added.delete(at)
      target[key] = copy(value, path, rule, added)
    } else if (isRecord(present) && isRecord(value)) merge(present, value, path, rule, added)
  }
}

/** A copy of what a rule adds, each leaf recorded; an empty object or list is a leaf too. */
const copy = (value: unknown, path: string, rule: string, added: Map<string, string>): unknown => {
  if (Array.isArray(value) && value.length > 0) {
    return value.map((item, index) => copy(item, `${path}[${index}]`, rule, added))
  }
  const copied: { [key: string]: unknown } = {}
  if (isRecord(value)) {
    for (const key of Object.keys(value)) {
      if (value[key] !== undefined) copied[key] = copy(value[key], `${path}.${key}`, rule, added)
    }
    if (Object.keys(copied).length > 0) return copied
  }
  added.set(path, rule)
  return value
}
