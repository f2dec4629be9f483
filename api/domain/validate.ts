import type { Cause } from '../cause.ts'
import { listCauses, noCauses, report, type Causes } from '../causes.ts'
import { invalidValue, scalarValue, wrongType } from '../field-error.ts'
import { joinPath } from '../path.ts'
import { fieldNames } from '../nearest.ts'
import { isRecord, unknownField } from '../schema.ts'
import {
  elementOf,
  maxItemsOf,
  type Children,
  type Element,
  type Field,
  type Leaves,
  type Scale,
} from './description.ts'
import { domain as root } from './domain.ts'
import { foreignFault } from './foreign.ts'
import { maxForeignLength } from './limits.ts'
import { placeFor } from './misplaced.ts'
import { valueFault } from './scalar-value.ts'
import type { Scalar } from './scalar.ts'
import { shapeOf } from './shape.ts'
import { isTooLarge } from './elements/size.ts'

/** No domain nests deeper, including a long chain of backing stores. */
const maxDepth = 128

/**
 * Every mismatch between a value and the description of a domain, each with the value, what is allowed and the likely
 * fix. The rules check what libvirt requires beyond single values. Safe for any JSON.
 * @param field the path of the value, in kubectl's form
 */
export const validateDomain = (value: unknown, field = 'spec.domain'): Cause[] => {
  const found: Found = { causes: noCauses(), path: [], prefix: field }
  checkElement(root, value, found)
  return listCauses(found.causes, field)
}

/** The causes found so far, and the current position. */
interface Found {
  readonly causes: Causes
  /** Keys and list indexes. */
  readonly path: (string | number)[]
  readonly prefix: string
}

const reportAt = (found: Found, cause: (field: string) => Cause): void =>
  report(found.causes, () => cause(fieldOf(found.prefix, found.path)))

const fieldOf = (prefix: string, path: readonly (string | number)[]): string => path.reduce<string>(joinPath, prefix)

const checkElement = (element: Element, value: unknown, found: Found): void => {
  if (!isRecord(value)) {
    reportAt(found, (field) => noObject(element, value, field))
    return
  }
  if (found.path.length > maxDepth) {
    const message = `must not nest deeper than ${maxDepth} levels`
    reportAt(found, (field) => ({ rule: 'nesting', field, reason: 'FieldValueInvalid', message }))
    return
  }
  const { keys, scale } = shapeOf(element)
  if (scale !== undefined) checkSize(scale, value, found)
  for (const key of Object.keys(value)) {
    const known = keys.get(key)
    found.path.push(key)
    if (!known) reportAt(found, (field) => unknownKey(key, value[key], field, element, found.path))
    else if (known.singleOf === undefined) checkField(known.field, value[key], found, element, value)
    else checkSingle(known.field, value, key, known.singleOf, found)
    found.path.pop()
  }
}

/** A value that is valid by itself may be too large with its unit. */
const checkSize = (scale: Scale, object: { readonly [key: string]: unknown }, found: Found): void => {
  if (!isTooLarge(scale, object[scale.value], object[scale.unit])) return
  const value = object[scale.value]
  found.path.push(scale.value)
  const message = 'must be less than 16 EiB together with its unit'
  reportAt(found, (field) => invalidValue('value', field, value, message))
  found.path.pop()
}

/** An object and its description. */
type Holder = readonly [Element, { readonly [key: string]: unknown }]

const checkField = (field: Field, value: unknown, found: Found, ...holder: Holder): void => {
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      checkScalar(field.scalar, value, found, holder)
      return
    case 'child':
      checkElement(elementOf(field), value, found)
      return
    case 'leaves':
      checkList(field, value, found, (item) => checkScalar(field.scalar, item, found))
      return
    case 'children': {
      const element = elementOf(field)
      checkList(field, value, found, (item) => checkElement(element, item, found))
      return
    }
    case 'foreign':
      checkForeign(value, found)
  }
}

const checkScalar = (scalar: Scalar, value: unknown, found: Found, holder?: Holder): void => {
  const fault = valueFault(scalar, value)
  if (!fault) return
  const isType = fault.reason === 'FieldValueTypeInvalid'
  const rule = scalar.kind === 'enumeration' ? 'enumeration' : isType ? 'type' : 'value'
  reportAt(found, (field) => ({ rule, field, value, ...fault, ...(holder && swapped(scalar, value, holder)) }))
}

/** Suggests a swap if two fields of an object would both be valid with each other's value. */
const swapped = (scalar: Scalar, value: unknown, [element, object]: Holder): { suggestion?: string } => {
  if (scalar.kind !== 'enumeration' || typeof value !== 'string') return {}
  for (const [key, field] of Object.entries(element.fields)) {
    const other = Object.hasOwn(object, key) ? object[key] : undefined
    if (field.at !== 'attribute' || typeof other !== 'string' || !scalar.values.includes(other)) continue
    // A word that is valid in its own field is not a mistake.
    const isAtHome = field.scalar.kind === 'enumeration' && field.scalar.values.includes(other)
    if (!isAtHome && !valueFault(field.scalar, value)) return { suggestion: `swapped with ${JSON.stringify(key)}?` }
  }
  return {}
}

const checkList = (list: Children | Leaves, value: unknown, found: Found, check: (item: unknown) => void): void => {
  if (!Array.isArray(value)) {
    const suggestion = isRecord(value) ? { suggestion: 'put a dash before its first field: a list of one' } : {}
    reportAt(found, (field) => ({ ...wrongType(field, value, 'a list'), ...suggestion }))
    return
  }
  const maxItems = maxItemsOf(list)
  if (value.length > maxItems) {
    const message = `must have at most ${maxItems} items`
    reportAt(found, (field) => ({
      rule: 'list-length',
      field,
      value: value.length,
      reason: 'FieldValueTooMany',
      message,
    }))
    return
  }
  for (const [index, item] of value.entries()) {
    found.path.push(index)
    check(item)
    found.path.pop()
  }
}

const checkSingle = (
  field: Field,
  holder: { readonly [key: string]: unknown },
  key: string,
  list: string,
  found: Found,
): void => {
  if (Object.hasOwn(holder, list)) {
    const message = `conflicts with ${list}: it is the short form for a list of one`
    reportAt(found, (at) => ({ rule: 'value', field: at, reason: 'FieldValueForbidden', message }))
  }
  if (field.at === 'children') checkElement(elementOf(field), holder[key], found)
}

const checkForeign = (value: unknown, found: Found): void => {
  if (typeof value !== 'string') {
    reportAt(found, (field) => wrongType(field, value, 'a string of XML'))
    return
  }
  if (value.length > maxForeignLength) {
    const message = `must be at most ${maxForeignLength} characters long`
    reportAt(found, (field) => ({ rule: 'length', field, reason: 'FieldValueTooLong', message }))
    return
  }
  const fault = foreignFault(value)
  if (!fault) return
  const message = `must be well-formed XML: line ${fault.line}: ${fault.message}`
  reportAt(found, (field) => invalidValue('value', field, value, message))
}

const noObject = (element: Element, value: unknown, field: string): Cause => {
  const meant = objectFor(element, value)
  return {
    ...wrongType(field, value, 'an object'),
    ...(meant === undefined ? {} : { suggestion: `did you mean {${meant}}?` }),
  }
}

/** The fields of the object that is likely meant by a scalar: the only way to write it in this element. */
function objectFor(element: Element, value: unknown): string | undefined {
  const { content } = shapeOf(element)
  // `acpi: true`, or `pae:` without a value.
  if (value === null || value === true) return Object.keys(element.fields).length === 0 ? '' : undefined
  if (typeof value !== 'string' && (content === undefined || typeof value !== 'number')) return undefined
  const text = String(value)
  if (text.length > longestMeant) return undefined
  const unit = element.fields['unit']
  if (content !== undefined && unit?.at === 'attribute' && unit.scalar.kind === 'unit')
    return sizeFor(content.key, text)
  const fields = content === undefined ? Object.entries(element.fields) : [[content.key, content.field] as const]
  const [key, another] = fields
    .filter(([, one]) => (one.at === 'attribute' || one.at === 'content') && !valueFault(one.scalar, value))
    .map(([name]) => name)
  return key === undefined || another !== undefined ? undefined : `${key}: ${JSON.stringify(value)}`
}

/** A longer value would not be readable in a suggestion. */
const longestMeant = 64

/** Above these, a number without a unit is likelier libvirt's KiB than MiB, and the bytes of Kubernetes than KiB. */
const mostMebibytes = 16_384
const mostKibibytes = 128 * 1024 * 1024

/** `512Mi` as Kubernetes writes it, `512M` or `512` in the form of libvirt. */
function sizeFor(key: string, text: string): string | undefined {
  const [, number, prefix = '', suffix] = /^(\d{1,15})(?:([kmgtpe])(i?b?))?$/i.exec(text) ?? []
  if (number === undefined) return undefined
  const unit =
    prefix === '' ? unitOf(Number(number)) : `${prefix.toUpperCase()}${suffix?.toLowerCase() === 'b' ? 'B' : 'iB'}`
  return `unit: ${unit}, ${key}: ${number}`
}

const unitOf = (size: number): string => (size > mostKibibytes ? 'b' : size > mostMebibytes ? 'KiB' : 'MiB')

const unknownKey = (
  key: string,
  value: unknown,
  field: string,
  element: Element,
  path: readonly (string | number)[],
): Cause => {
  const { value: _, ...unknown } = unknownField(field, key, value, fieldNames(element.fields))
  const cause = { ...unknown, ...scalarValue(value) }
  const place = placeFor(key, element, fieldOf('', path.slice(0, -1)))
  return place === undefined ? cause : { ...cause, suggestion: place }
}
