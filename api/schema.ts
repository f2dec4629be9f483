import type { Cause } from './cause.ts'
import { listCauses, noCauses, report, type Causes } from './causes.ts'
import { invalidValue, quoted, requiredField, wrongType } from './field-error.ts'
import { formatFault } from './format.ts'
import { fieldNames, nearest } from './nearest.ts'
import { quantityForm } from './quantity.ts'
import { joinPath } from './path.ts'

/**
 * The part of a Kubernetes structural schema that our kinds use. The CRDs contain it and `checkSchema` evaluates it
 * with messages of our own, so that the two cannot disagree.
 */
export interface Schema {
  readonly description?: string
  /** Absent only beside `x-kubernetes-int-or-string`, or if any value is allowed. */
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly format?: string
  readonly properties?: { readonly [key: string]: Schema }
  readonly required?: readonly string[]
  /** A union: exactly one of these fields is set. Presets set the field of one member as a whole. */
  readonly oneOf?: readonly { readonly required: readonly [string] }[]
  readonly additionalProperties?: Schema
  readonly items?: Schema
  readonly enum?: readonly (string | boolean)[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: number | { readonly [key: string]: string }
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly 'x-kubernetes-preserve-unknown-fields'?: true
  readonly 'x-kubernetes-int-or-string'?: true
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-map-type'?: 'atomic' | 'granular'
  /** Rules in CEL that only the API server evaluates. */
  readonly 'x-kubernetes-validations'?: readonly { readonly rule: string; readonly message: string }[]
}

/**
 * A schema for each field of a type and for nothing else. With `satisfies`, neither can have a field that is
 * not in the other.
 */
export type SchemasOf<T> = { readonly [K in keyof T]-?: Schema }

type Properties = { readonly [key: string]: Schema }
type StringLimits = Pick<Schema, 'enum' | 'pattern' | 'minLength' | 'maxLength' | 'format'>
type NumberLimits = Pick<Schema, 'minimum' | 'maximum' | 'format' | 'default'>
type ListOptions = Pick<Schema, 'x-kubernetes-list-type' | 'x-kubernetes-list-map-keys' | 'minItems' | 'maxItems'>

export const string = (description: string, limits: StringLimits = {}): Schema => ({
  description,
  type: 'string',
  ...limits,
})

export const integer = (description: string, limits: NumberLimits = {}): Schema => ({
  description,
  type: 'integer',
  ...limits,
})

export const quantity = (description: string): Schema => ({
  description,
  type: 'string',
  pattern: quantityForm.source,
})

export const isQuantity = ({ pattern }: Schema): boolean => pattern === quantityForm.source

export const boolean = (description: string): Schema => ({ description, type: 'boolean' })

/**
 * An object of known fields whose unknown fields reach the webhook. `x-kubernetes-preserve-unknown-fields` beside
 * `properties` keeps the API server from pruning them, so that the webhook can refuse them with the nearest known name.
 */
export const open = (description: string, properties: Properties, required: readonly string[] = []): Schema => ({
  description,
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
  properties,
  ...(required.length > 0 ? { required } : {}),
})

/** An open object with the fields in `shared` and exactly one of those in `kinds`. */
export const union = (
  description: string,
  shared: Properties,
  kinds: Properties,
  required: readonly string[] = [],
): Schema => ({
  ...open(description, { ...shared, ...kinds }, required),
  oneOf: Object.keys(kinds).map((kind) => ({ required: [kind] as const })),
})

/** An object of known fields; the API server prunes others. For `status`, which only virtset writes. */
export const closed = (description: string, properties: Properties, required: readonly string[] = []): Schema => ({
  description,
  type: 'object',
  properties,
  ...(required.length > 0 ? { required } : {}),
})

/** A map with user-chosen keys and values of one schema. */
export const map = (description: string, values: Schema): Schema => ({
  description,
  type: 'object',
  additionalProperties: values,
})

export const list = (description: string, items: Schema, options: ListOptions = {}): Schema => ({
  description,
  type: 'array',
  items,
  ...options,
})

/** An object that is validated elsewhere. */
export const opaque = (description: string): Schema => ({
  description,
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
})

/** Bounds for what a schema leaves unbounded, far beyond any real use. They limit the cost of a value. */
const usual = { maxLength: 1024, maxItems: 256, maxProperties: 256 }

/**
 * The schema with a bound on each list, map and string that has none. Subtrees that are validated elsewhere are
 * unchanged.
 */
export function bounded(schema: Schema): Schema {
  const { properties, additionalProperties, items } = schema
  return {
    ...schema,
    ...(schema.type === 'string' && schema.enum === undefined && schema.maxLength === undefined
      ? { maxLength: usual.maxLength }
      : {}),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([key, below]) => [key, bounded(below)])),
    }),
    ...(additionalProperties && {
      additionalProperties: bounded(additionalProperties),
      maxProperties: schema.maxProperties ?? usual.maxProperties,
    }),
    ...(items && { items: bounded(items), maxItems: schema.maxItems ?? usual.maxItems }),
  }
}

/**
 * Every mismatch between `value` and `schema`, up to `maxCauses`. `field` is the path of the value in kubectl's form.
 * An object schema without `properties` and `additionalProperties` accepts any object. The entries of an oversized list
 * or map are not checked.
 */
export function checkSchema(schema: Schema, value: unknown, field: string): Cause[] {
  const causes = noCauses()
  check(schema, value, field, causes)
  return listCauses(causes, field)
}

function check(schema: Schema, value: unknown, field: string, causes: Causes): void {
  if (schema['x-kubernetes-int-or-string'] === true) {
    if (typeof value === 'string' || Number.isInteger(value)) return
    return report(causes, () => wrongType(field, value, 'an integer or a string'))
  }
  switch (schema.type) {
    case 'object':
      if (isRecord(value)) return checkObject(schema, value, field, causes)
      return report(causes, () => withHint(wrongType(field, value, 'an object'), objectHint(schema, value)))
    case 'array':
      if (Array.isArray(value)) return checkList(schema, value, field, causes)
      return report(causes, () => wrongType(field, value, 'a list'))
    case 'string':
      if (typeof value === 'string') return checkString(schema, value, field, causes)
      return report(causes, () => withHint(wrongType(field, value, 'a string'), stringHint(value)))
    case 'integer':
      if (Number.isInteger(value)) return checkNumber(schema, value, field, causes)
      return report(causes, () => withHint(wrongType(field, value, 'an integer'), integerHint(value)))
    case 'number':
      if (typeof value === 'number') return checkNumber(schema, value, field, causes)
      return report(causes, () => wrongType(field, value, 'a number'))
    case 'boolean':
      if (typeof value === 'boolean') return undefined
      return report(causes, () => wrongType(field, value, 'true or false'))
    default:
      return undefined
  }
}

function checkObject(schema: Schema, value: { readonly [key: string]: unknown }, field: string, causes: Causes): void {
  const { properties, additionalProperties, required = [], maxProperties = Infinity } = schema
  for (const key of required) {
    if (Object.hasOwn(value, key)) continue
    report(causes, () => requiredField(joinPath(field, key)))
  }
  if (properties === undefined && additionalProperties === undefined) return
  const entries = Object.entries(value)
  if (entries.length > maxProperties) {
    const message = `must have at most ${maxProperties} keys`
    report(causes, () => ({ rule: 'map-size', field, value: entries.length, reason: 'FieldValueTooMany', message }))
    return
  }
  for (const [key, item] of entries) {
    if (properties !== undefined && Object.hasOwn(properties, key)) {
      check(properties[key] ?? {}, item, joinPath(field, key), causes)
    } else if (additionalProperties !== undefined) {
      check(additionalProperties, item, `${field}[${key}]`, causes)
    } else if (properties !== undefined) {
      report(causes, () =>
        unknownField(joinPath(field, key), key, item, fieldNames(properties), placeOf(key, properties)),
      )
    }
  }
}

/** @param otherwise the suggestion if no known field has a similar name */
export function unknownField(
  field: string,
  key: string,
  value: unknown,
  known: readonly string[],
  otherwise?: string,
): Cause {
  const near = nearest(key, known)
  const cause: Cause = {
    rule: 'unknown-field',
    field,
    value,
    reason: 'FieldValueInvalid',
    message: 'there is no such field',
  }
  return withHint(cause, near === undefined ? otherwise : `did you mean ${JSON.stringify(near)}?`)
}

const withHint = (cause: Cause, suggestion: string | undefined): Cause =>
  suggestion === undefined ? cause : { ...cause, suggestion }

/** A list of more names is not read. */
const mostListed = 12

/** The place of an unknown key one or two levels below, if there is one (`domain` in `template.spec`); or what there is. */
function placeOf(key: string, properties: Properties): string | undefined {
  const places = Object.entries(properties).flatMap(([name, { properties: below = {} }]) => [
    ...(Object.hasOwn(below, key) ? [name] : []),
    ...Object.keys(below).flatMap((inner) =>
      Object.hasOwn(below[inner]?.properties ?? {}, key) ? [`${name}.${inner}`] : [],
    ),
  ])
  if (places.length === 1) return `${JSON.stringify(key)} belongs under ${places[0]}`
  const known = fieldNames(properties)
  if (known.length === 0 || known.length > mostListed) return undefined
  return known.length === 1 ? `the only field here is ${known[0]}` : `the fields here are ${known.join(', ')}`
}

/** `imagePullSecrets: [NAME]` for `[{name: NAME}]`. */
function objectHint({ properties, required = [] }: Schema, value: unknown): string | undefined {
  const [key, another] = required
  if (typeof value !== 'string' || value.length > 64 || key === undefined || another !== undefined) return undefined
  return properties?.[key]?.type === 'string' ? `did you mean {${key}: ${JSON.stringify(value)}}?` : undefined
}

const stringHint = (value: unknown): string | undefined =>
  typeof value === 'number' || typeof value === 'boolean' ? quoted(value) : undefined

const integerHint = (value: unknown): string | undefined =>
  typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? 'remove the quotes' : undefined

function checkList(schema: Schema, value: readonly unknown[], field: string, causes: Causes): void {
  const { items = {}, minItems = 0, maxItems = Infinity } = schema
  if (value.length > maxItems) {
    const message = `must have at most ${maxItems} items`
    report(causes, () => ({ rule: 'list-length', field, value: value.length, reason: 'FieldValueTooMany', message }))
    return
  }
  for (const [index, item] of value.entries()) check(items, item, `${field}[${index}]`, causes)
  if (value.length < minItems) {
    const message = `must have at least ${minItems} items`
    report(causes, () => invalidValue('list-length', field, value.length, message))
  }
  const keys = schema['x-kubernetes-list-map-keys'] ?? []
  if (keys.length > 0) checkUnique(value, keys, field, causes)
}

/** `x-kubernetes-list-type: map`: no two items have the same key. */
function checkUnique(value: readonly unknown[], keys: readonly string[], field: string, causes: Causes): void {
  const seen = new Map<string, number>()
  for (const [index, item] of value.entries()) {
    if (!isRecord(item)) continue
    const parts = keys.map((key) => (Object.hasOwn(item, key) ? item[key] : undefined))
    const key = JSON.stringify(parts)
    const first = seen.get(key)
    if (first === undefined) {
      seen.set(key, index)
      continue
    }
    const message = `already used by ${field}[${first}]`
    const at = `${field}[${index}].${keys.join(',')}`
    report(causes, () => ({ rule: 'list-key', field: at, value: parts[0], reason: 'FieldValueDuplicate', message }))
  }
}

function checkString(schema: Schema, value: string, field: string, causes: Causes): void {
  const { enum: allowed, pattern, minLength = 0, maxLength = Infinity } = schema
  if (allowed !== undefined && !allowed.includes(value)) {
    report(causes, () => notSupported(field, value, allowed))
  } else if (value.length > maxLength) {
    const message = `must be at most ${maxLength} characters long`
    report(causes, () => ({ rule: 'length', field, value, reason: 'FieldValueTooLong', message }))
  } else if (value.length < minLength) {
    const message = 'must not be empty'
    report(causes, () => invalidValue('length', field, value, message))
  } else if (pattern !== undefined && !new RegExp(pattern, 'u').test(value)) {
    const message = isQuantity(schema) ? 'must be a quantity, e.g. 1Gi' : `must match ${pattern}`
    report(causes, () => invalidValue('pattern', field, value, message))
  } else {
    const fault = formatFault(schema.format, value)
    if (fault !== undefined) report(causes, () => invalidValue('format', field, value, fault))
  }
}

function notSupported(field: string, value: string, allowed: readonly (string | boolean)[]): Cause {
  const near = nearest(
    value,
    allowed.filter((word) => typeof word === 'string'),
  )
  return {
    rule: 'enumeration',
    field,
    value,
    reason: 'FieldValueNotSupported',
    message: `supported values: ${allowed.map((word) => JSON.stringify(word)).join(', ')}`,
    ...(near === undefined ? {} : { suggestion: `did you mean ${JSON.stringify(near)}?` }),
  }
}

function checkNumber(schema: Schema, value: unknown, field: string, causes: Causes): void {
  const { minimum = -Infinity, maximum = Infinity } = schema
  const number = Number(value)
  if (number >= minimum && number <= maximum) return
  const message = number < minimum ? `must be at least ${minimum}` : `must be at most ${maximum}`
  report(causes, () => invalidValue('range', field, value, message))
}

/** More levels than any valid object has. Code that walks a deeper value could overflow the stack. */
export const mostLevels = 160

/** The cause for a value that nests deeper than any valid object. */
export function nestingCauses(value: unknown, field: string): Cause[] {
  if (!isDeeper(value, mostLevels)) return []
  const message = `must not nest deeper than ${mostLevels} levels`
  return [{ rule: 'nesting', field, reason: 'FieldValueInvalid', message }]
}

/** Whether objects and lists nest deeper than `levels`; descends no deeper itself. */
export const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1)))

export const isRecord = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
