import { isRecord } from '../api/schema.ts'
import { comparison, type Comparison } from './comparison.ts'
import { jsonMeaning } from './meaning.ts'
import { asJson, type Structure } from './structure.ts'

type Fields = { readonly [key: string]: unknown }

/** Whether `whole` contains every leaf of `part` with the same meaning. `whole` may contain more. */
export function covers(structure: Structure, part: unknown, whole: unknown, by: Comparison): boolean {
  const { steps, meanings } = by
  steps.spend(1)
  if (structure.kind === 'leaf') return meanings(structure, part, steps) === meanings(structure, whole, steps)
  if (structure.kind === 'list') {
    if (!Array.isArray(part) || !Array.isArray(whole)) return false
    const items: readonly unknown[] = whole
    return part.every((one) => items.some((other) => covers(structure.item, one, other, by)))
  }
  if (!isRecord(part) || !isRecord(whole)) return false
  return Object.keys(part).every(
    (key) => Object.hasOwn(whole, key) && covers(structure.field(key) ?? asJson, part[key], whole[key], by),
  )
}

/** Returns a text that is equal for two values if all their leaves have equal meanings. */
export function meaningOf(structure: Structure, value: unknown, by = comparison()): string {
  if (structure.kind === 'leaf') return by.meanings(structure, value, by.steps)
  if (structure.kind === 'list' && Array.isArray(value)) {
    return `[${value.map((item) => meaningOf(structure.item, item, by)).join()}]`
  }
  if (structure.kind !== 'object' || !isRecord(value)) return jsonMeaning(value)
  const members = Object.keys(value)
    .toSorted()
    .map((key) => {
      const field = structure.field(key)
      const meaning = field === undefined ? jsonMeaning(value[key]) : meaningOf(field, value[key], by)
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
