import { isRecord } from '../../api/schema.ts'
import type { About } from './rule.ts'

/** Returns the rules that apply to a domain with these keys, in their order. */
type Index<R> = (keys: ReadonlySet<string>) => readonly R[]

/** Indexes rules by key once, so that rules about missing keys are not even visited. */
export const indexRules = <R extends { readonly about?: About }>(rules: readonly R[]): Index<R> => {
  const places = new Map<string, number[]>()
  for (const [place, { about = [] }] of rules.entries()) {
    for (const key of about) places.set(key, [...(places.get(key) ?? []), place])
  }
  const always = rules.map(({ about }) => about === undefined)
  return (keys) => {
    const isAsked = [...always]
    for (const key of keys) for (const place of places.get(key) ?? []) isAsked[place] = true
    return rules.filter((_, place) => isAsked[place])
  }
}

/** Every key of an object, at any depth. */
export const keysWithin = (object: object): ReadonlySet<string> => {
  const keys = new Set<string>()
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    else if (isRecord(value)) {
      for (const key of Object.keys(value)) {
        keys.add(key)
        visit(value[key])
      }
    }
  }
  visit(object)
  return keys
}
