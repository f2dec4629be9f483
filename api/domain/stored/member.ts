import { isRecord } from '../../schema.ts'

/** An element in libvirt's spelling. */
export type JsonObject = { readonly [key: string]: unknown }

/** By the path of an element, what libvirt keeps of it. */
export interface Normalization {
  readonly [path: string]: (json: JsonObject) => JsonObject
}

/** Without these members; the same object where it has none of them. */
export const omit = (json: JsonObject, keys: readonly string[]): JsonObject =>
  keys.some((key) => Object.hasOwn(json, key))
    ? Object.fromEntries(Object.entries(json).filter(([key]) => !keys.includes(key)))
    : json

/** With these members at most. */
export const only = (json: JsonObject, keys: readonly string[]): JsonObject =>
  omit(
    json,
    Object.keys(json).filter((key) => !keys.includes(key)),
  )

/** With one child element changed, if it is there. */
export const within = (json: JsonObject, key: string, change: (child: JsonObject) => JsonObject): JsonObject => {
  const child = json[key]
  return isRecord(child) ? { ...json, [key]: change(child) } : json
}

/** For these, 0 is for what is there without. */
export const withoutZeros = (json: JsonObject): JsonObject =>
  omit(
    json,
    Object.keys(json).filter((key) => json[key] === 0),
  )

/** Parts that are off, or whose whole is, are not named. */
export const withoutOff = (json: JsonObject, keys: readonly string[]): JsonObject =>
  omit(
    json,
    keys.filter((key) => {
      const part = json[key]
      return json['state'] === false || (isRecord(part) && part['state'] === false)
    }),
  )

/** With one text in upper case, if it is there. */
export const upperCase = (json: JsonObject, key: string): JsonObject => {
  const value = json[key]
  return typeof value === 'string' ? { ...json, [key]: value.toUpperCase() } : json
}

/** With nothing in it, nor in its lists. */
export const isEmpty = (value: unknown): boolean =>
  isRecord(value) && Object.values(value).every((member) => Array.isArray(member) && member.length === 0)
