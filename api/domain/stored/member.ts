import { isRecord } from '../../schema.ts'

/** An element in libvirt's spelling. */
export type JsonObject = { readonly [key: string]: unknown }

/** What libvirt stores for an element, by its path. */
export interface Normalization {
  readonly [path: string]: (json: JsonObject) => JsonObject
}

/** The object without these keys; the same object if it has none of them. */
export const omit = (json: JsonObject, keys: readonly string[]): JsonObject =>
  keys.some((key) => Object.hasOwn(json, key))
    ? Object.fromEntries(Object.entries(json).filter(([key]) => !keys.includes(key)))
    : json

/** The object with only these keys. */
export const only = (json: JsonObject, keys: readonly string[]): JsonObject =>
  omit(
    json,
    Object.keys(json).filter((key) => !keys.includes(key)),
  )

/** The object with one child element changed, if it exists. */
export const within = (json: JsonObject, key: string, change: (child: JsonObject) => JsonObject): JsonObject => {
  const child = json[key]
  return isRecord(child) ? { ...json, [key]: change(child) } : json
}

/** The object without zeros, for elements in which 0 means "not set". */
export const withoutZeros = (json: JsonObject): JsonObject =>
  omit(
    json,
    Object.keys(json).filter((key) => json[key] === 0),
  )

/** The object without parts that are off; without all of them if the element itself is off. */
export const withoutOff = (json: JsonObject, keys: readonly string[]): JsonObject =>
  omit(
    json,
    keys.filter((key) => {
      const part = json[key]
      return json['state'] === false || (isRecord(part) && part['state'] === false)
    }),
  )

/** The object with one string in upper case, if it exists. */
export const upperCase = (json: JsonObject, key: string): JsonObject => {
  const value = json[key]
  return typeof value === 'string' ? { ...json, [key]: value.toUpperCase() } : json
}

/** Whether an object has no values other than empty lists. */
export const isEmpty = (value: unknown): boolean =>
  isRecord(value) && Object.values(value).every((member) => Array.isArray(member) && member.length === 0)
