import { isRecord } from '../api/schema.ts'
import type { Steps } from '../api/steps.ts'
import { jsonMeaning } from './meaning.ts'
import type { Structure } from './structure.ts'

type Fields = { readonly [key: string]: unknown }

/** Whether `whole` contains every leaf of `part` with the same meaning. `whole` may contain more. */
export function covers(structure: Structure, part: unknown, whole: unknown, steps: Steps): boolean {
  steps.spend(1)
  if (structure.kind === 'leaf') return structure.meaning(part) === structure.meaning(whole)
  if (structure.kind === 'list') {
    if (!Array.isArray(part) || !Array.isArray(whole)) return false
    const items: readonly unknown[] = whole
    return part.every((one) => items.some((other) => covers(structure.item, one, other, steps)))
  }
  if (!isRecord(part) || !isRecord(whole)) return false
  return Object.keys(part).every((key) => {
    if (!Object.hasOwn(whole, key)) return false
    const field = structure.field(key)
    return field === undefined
      ? jsonMeaning(part[key]) === jsonMeaning(whole[key])
      : covers(field, part[key], whole[key], steps)
  })
}

/** Returns a text that is equal for two values if all their leaves have equal meanings. */
export function meaningOf(structure: Structure, value: unknown): string {
  if (structure.kind === 'leaf') return structure.meaning(value)
  if (structure.kind === 'list' && Array.isArray(value)) {
    return `[${value.map((item) => meaningOf(structure.item, item)).join()}]`
  }
  if (structure.kind !== 'object' || !isRecord(value)) return jsonMeaning(value)
  const members = Object.keys(value)
    .toSorted()
    .map((key) => {
      const field = structure.field(key)
      const meaning = field === undefined ? jsonMeaning(value[key]) : meaningOf(field, value[key])
      return `${JSON.stringify(key)}:${meaning}`
    })
  return `{${members.join()}}`
}

/** The dotted paths of the leaves. The items of a list share its path. */
export function leafPaths(value: unknown, at = ''): readonly string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((item) => leafPaths(item, at)))]
  if (!isRecord(value) || Object.keys(value).length === 0) return at === '' ? [] : [at]
  return Object.entries(value).flatMap(([key, member]) => leafPaths(member, at === '' ? key : `${at}.${key}`))
}

/** Whether each path equals one of `allowed` or is below it. */
export const coversAll = (allowed: readonly string[], paths: readonly string[]): boolean =>
  paths.every((path) => allowed.some((one) => path === one || path.startsWith(`${one}.`)))

export const prune = (value: Fields, isWanted: (key: string) => boolean): Fields =>
  Object.fromEntries(Object.entries(value).filter(([key]) => isWanted(key)))
