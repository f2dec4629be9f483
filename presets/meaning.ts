import { elementSpelling } from '../api/domain/canonical.ts'
import type { Element } from '../api/domain/description.ts'
import { canonicalValue } from '../api/domain/scalar-value.ts'
import type { Scalar } from '../api/domain/scalar.ts'
import { bytesPer } from '../api/domain/elements/size.ts'
import { isRecord } from '../api/schema.ts'

/**
 * What a value means, as text: two values are equal where their meanings are. `16` and `"0x10"`, `yes` and `true`, a
 * MAC in upper and in lower case mean the same; a value that is not of its kind means itself.
 */
export function scalarMeaning(scalar: Scalar, value: unknown): string {
  if (scalar.kind === 'unit' && typeof value === 'string') return (bytesPer(value) ?? value).toString()
  return JSON.stringify(canonicalValue(scalar, value)) ?? 'null'
}

/** What an element means that is taken whole: `{unit: MiB, value: 1}` is `{unit: KiB, value: 1024}`. */
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
