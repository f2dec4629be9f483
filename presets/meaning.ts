import { elementSpelling } from '../api/domain/canonical.ts'
import type { Element } from '../api/domain/description.ts'
import { canonicalValue } from '../api/domain/scalar-value.ts'
import type { Scalar } from '../api/domain/scalar.ts'
import { bytesPer } from '../api/domain/elements/size.ts'
import { isRecord } from '../api/schema.ts'

/**
 * Returns the meaning of a value as text. Values are equal if their meanings are equal: `16` and `"0x10"`, `yes` and
 * `true`, a MAC address in upper and lower case. A value of the wrong type is its own meaning.
 */
export function scalarMeaning(scalar: Scalar, value: unknown): string {
  if (scalar.kind === 'unit' && typeof value === 'string') return (bytesPer(value) ?? value).toString()
  return JSON.stringify(canonicalValue(scalar, value)) ?? 'null'
}

/** The meaning of an element that is merged as one value: `{unit: MiB, value: 1}` equals `{unit: KiB, value: 1024}`. */
export const wholeMeaning = (element: Element, value: unknown): string => jsonMeaning(elementSpelling(element, value))

/** JSON with sorted keys. */
export function jsonMeaning(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonMeaning).join()}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  const members = Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${jsonMeaning(value[key])}`)
  return `{${members.join()}}`
}
