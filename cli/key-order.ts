import { isRecord } from '../api/schema.ts'

/** Sorts the keys of all objects, as the API server does for webhooks: causes are reported in the order of the keys. */
export function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (!isRecord(value)) return value
  const keys = Object.keys(value).toSorted()
  return Object.fromEntries(keys.map((key) => [key, sortKeys(value[key])]))
}

/** `value` with its keys in the order of `written`; new keys come last. */
export function orderedAs<T>(written: unknown, value: T): T
export function orderedAs(written: unknown, value: unknown): unknown {
  if (Array.isArray(value)) {
    return Array.isArray(written) ? value.map((item, index) => orderedAs(written[index], item)) : value
  }
  if (!isRecord(value) || !isRecord(written)) return value
  const keys = new Set([...Object.keys(written).filter((key) => Object.hasOwn(value, key)), ...Object.keys(value)])
  return Object.fromEntries([...keys].map((key) => [key, orderedAs(written[key], value[key])]))
}
