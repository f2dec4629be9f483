import { canonicalCpuset } from '../api/domain/cpuset.ts'
import type { Element, Field } from '../api/domain/description.ts'
import { canonicalValue, exactNumber } from '../api/domain/scalar-value.ts'
import type { Scalar } from '../api/domain/scalar.ts'
import { bytesPer, scaled } from '../api/domain/size.ts'
import { isRecord } from '../api/schema.ts'

/** libvirt's own spelling of a scalar; what is not of its kind stays. */
export const scalarSpelling = (scalar: Scalar, value: unknown): unknown =>
  scalar.kind === 'cpuset' && typeof value === 'string' ? canonicalCpuset(value) : canonicalValue(scalar, value)

/**
 * What a value means, as text: two values are equal where their meanings are. `16` and `"0x10"`, `yes` and `true`, a MAC in upper and in
 * lower case mean the same; a value that is not of its kind means itself.
 */
export function scalarMeaning(scalar: Scalar, value: unknown): string {
  if (scalar.kind === 'unit' && typeof value === 'string') return (bytesPer(value) ?? value).toString()
  return JSON.stringify(scalarSpelling(scalar, value)) ?? 'null'
}

/** What an element means that is taken whole: `{unit: MiB, value: 1}` is `{unit: KiB, value: 1024}`. */
export const wholeMeaning = (element: Element, value: unknown): string => jsonMeaning(wholeSpelling(element, value))

export function wholeSpelling(element: Element, value: unknown): unknown {
  if (!isRecord(value)) return value
  const members = Object.entries(value).map(([key, member]) => [key, fieldSpelling(element, key, member)] as const)
  const spelled = Object.fromEntries(members)
  const { scale } = element
  if (scale === undefined || !Object.hasOwn(value, scale.value)) return spelled
  const size = scaled(scale, value[scale.value], value[scale.unit])
  return size === undefined ? spelled : { ...spelled, [scale.unit]: size.unit, [scale.value]: exactNumber(size.value) }
}

function fieldSpelling(element: Element, key: string, value: unknown): unknown {
  const field: Field | undefined = Object.hasOwn(element.fields, key) ? element.fields[key] : undefined
  const isScalar = field?.at === 'attribute' || field?.at === 'content' || field?.at === 'leaf'
  return isScalar ? scalarSpelling(field.scalar, value) : value
}

/** JSON with sorted keys. */
export function jsonMeaning(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonMeaning).join()}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  const members = Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${jsonMeaning(value[key])}`)
  return `{${members.join()}}`
}
