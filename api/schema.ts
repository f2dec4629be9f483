import type { Cause } from './cause.ts'
import { nearest } from './nearest.ts'

/**
 * The part of a Kubernetes structural schema that our kinds use. The CRDs carry it, and `checkSchema` holds what comes in
 * against it in words of our own, so that the two cannot disagree.
 */
export interface Schema {
  readonly description?: string
  /** Absent only beside `x-kubernetes-int-or-string` or where anything at all is allowed. */
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly format?: string
  readonly properties?: { readonly [key: string]: Schema }
  readonly required?: readonly string[]
  readonly additionalProperties?: Schema
  readonly items?: Schema
  readonly enum?: readonly (string | boolean)[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly 'x-kubernetes-preserve-unknown-fields'?: true
  readonly 'x-kubernetes-int-or-string'?: true
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-map-type'?: 'atomic' | 'granular'
}

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

export const boolean = (description: string): Schema => ({ description, type: 'boolean' })

/**
 * An object of known fields that lets unknown ones through to the webhook: the mutating webhook sees them only where
 * `x-kubernetes-preserve-unknown-fields` stands beside `properties`, and refuses them with the nearest known name.
 */
export const open = (description: string, properties: Properties, required: readonly string[] = []): Schema => ({
  description,
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
  properties,
  ...(required.length > 0 ? { required } : {}),
})

/** An object of known fields; the API server drops others. For `status`, which only virtset writes. */
export const closed = (description: string, properties: Properties, required: readonly string[] = []): Schema => ({
  description,
  type: 'object',
  properties,
  ...(required.length > 0 ? { required } : {}),
})

/** Keys that the user chooses, all with values of one kind. */
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

/** An object that is checked elsewhere. */
export const opaque = (description: string): Schema => ({
  description,
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
})

/**
 * Everything in which `value` is not what `schema` says. `field` is where it stands, as kubectl prints it.
 * An object without `properties` and `additionalProperties` is taken as it is.
 */
export function checkSchema(schema: Schema, value: unknown, field: string): Cause[] {
  if (schema['x-kubernetes-int-or-string'] === true) {
    return typeof value === 'string' || Number.isInteger(value)
      ? []
      : [wrongType(field, value, 'an integer or a string')]
  }
  switch (schema.type) {
    case 'object':
      return isRecord(value) ? checkObject(schema, value, field) : [wrongType(field, value, 'an object')]
    case 'array':
      return Array.isArray(value) ? checkList(schema, value, field) : [wrongType(field, value, 'a list')]
    case 'string':
      return typeof value === 'string' ? checkString(schema, value, field) : [wrongType(field, value, 'a string')]
    case 'integer':
      return Number.isInteger(value) ? checkNumber(schema, value, field) : [wrongType(field, value, 'an integer')]
    case 'number':
      return typeof value === 'number' ? checkNumber(schema, value, field) : [wrongType(field, value, 'a number')]
    case 'boolean':
      return typeof value === 'boolean' ? [] : [wrongType(field, value, 'true or false')]
    default:
      return []
  }
}

function checkObject(schema: Schema, value: { readonly [key: string]: unknown }, field: string): Cause[] {
  const { properties, additionalProperties, required = [] } = schema
  const causes: Cause[] = []
  // A list of hostile length has more causes than a call may have arguments.
  const add = (more: readonly Cause[]) => {
    for (const cause of more) causes.push(cause)
  }
  for (const key of required) {
    if (!Object.hasOwn(value, key)) {
      causes.push({ rule: 'required', field: join(field, key), reason: 'FieldValueRequired', message: 'must be given' })
    }
  }
  for (const [key, item] of Object.entries(value)) {
    if (properties !== undefined && Object.hasOwn(properties, key)) {
      add(checkSchema(properties[key] ?? {}, item, join(field, key)))
    } else if (additionalProperties !== undefined) {
      add(checkSchema(additionalProperties, item, `${field}[${key}]`))
    } else if (properties !== undefined) {
      causes.push(unknownField(join(field, key), key, item, Object.keys(properties)))
    }
  }
  return causes
}

export function unknownField(field: string, key: string, value: unknown, known: readonly string[]): Cause {
  const near = nearest(key, known)
  return {
    rule: 'unknown-field',
    field,
    value,
    reason: 'FieldValueInvalid',
    message: 'there is no such field',
    ...(near === undefined ? {} : { suggestion: `did you mean ${JSON.stringify(near)}?` }),
  }
}

function checkList(schema: Schema, value: readonly unknown[], field: string): Cause[] {
  const { items = {}, minItems = 0, maxItems = Infinity } = schema
  const keys = schema['x-kubernetes-list-map-keys'] ?? []
  const causes = value.flatMap((item, index) => checkSchema(items, item, `${field}[${index}]`))
  if (value.length < minItems) {
    const message = `must have at least ${minItems} items`
    causes.push({ rule: 'list-length', field, value: value.length, reason: 'FieldValueInvalid', message })
  }
  if (value.length > maxItems) {
    const message = `must have at most ${maxItems} items`
    causes.push({ rule: 'list-length', field, value: value.length, reason: 'FieldValueTooMany', message })
  }
  return keys.length === 0 ? causes : [...causes, ...checkUnique(value, keys, field)]
}

/** `x-kubernetes-list-type: map`: no two items with the same key. */
function checkUnique(value: readonly unknown[], keys: readonly string[], field: string): Cause[] {
  const seen = new Map<string, number>()
  return value.flatMap((item, index): Cause[] => {
    if (!isRecord(item)) return []
    const parts = keys.map((key) => (Object.hasOwn(item, key) ? item[key] : undefined))
    const key = JSON.stringify(parts)
    const first = seen.get(key)
    if (first === undefined) {
      seen.set(key, index)
      return []
    }
    const message = `already used by ${field}[${first}]`
    const at = `${field}[${index}].${keys.join(',')}`
    return [{ rule: 'list-key', field: at, value: parts[0], reason: 'FieldValueDuplicate', message }]
  })
}

function checkString(schema: Schema, value: string, field: string): Cause[] {
  const { enum: allowed, pattern, minLength = 0, maxLength = Infinity } = schema
  if (allowed !== undefined && !allowed.includes(value)) return [notSupported(field, value, allowed)]
  if (value.length > maxLength) {
    const message = `may not be longer than ${maxLength} bytes`
    return [{ rule: 'length', field, value, reason: 'FieldValueTooLong', message }]
  }
  if (value.length < minLength) {
    return [{ rule: 'length', field, value, reason: 'FieldValueInvalid', message: 'must not be empty' }]
  }
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value)) {
    return [{ rule: 'pattern', field, value, reason: 'FieldValueInvalid', message: `must match ${pattern}` }]
  }
  return []
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

function checkNumber(schema: Schema, value: unknown, field: string): Cause[] {
  const { minimum = -Infinity, maximum = Infinity } = schema
  if (Number(value) < minimum) {
    return [{ rule: 'range', field, value, reason: 'FieldValueInvalid', message: `must be at least ${minimum}` }]
  }
  if (Number(value) > maximum) {
    return [{ rule: 'range', field, value, reason: 'FieldValueInvalid', message: `must be at most ${maximum}` }]
  }
  return []
}

function wrongType(field: string, value: unknown, wanted: string): Cause {
  const found = value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`
  const article = found === 'a object' ? 'an object' : found
  return { rule: 'type', field, value, reason: 'FieldValueTypeInvalid', message: `must be ${wanted}, not ${article}` }
}

/** Whether objects and lists nest deeper than that; goes no deeper itself. */
export const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1)))

export const isRecord = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `spec.domain`; a key that is no plain word in brackets, as kubectl prints map keys. */
const join = (field: string, key: string): string => {
  if (!/^\w+$/.test(key)) return `${field}[${key}]`
  return field === '' ? key : `${field}.${key}`
}
