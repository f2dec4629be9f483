import type { Cause } from '../api/cause.ts'
import { isCheckedFormat } from '../api/format.ts'
import { joinPath } from '../api/path.ts'
import { isRecord, type Schema } from '../api/schema.ts'

/**
 * A schema without references, reduced to what merging and checking need. It is a directed acyclic graph: a component
 * that is used twice is the same object. Patterns are omitted, because the authors of schemas are not those of values
 * and a pattern can be slow.
 */
export interface PlainSchema extends Schema {
  readonly properties?: { readonly [key: string]: PlainSchema }
  readonly additionalProperties?: PlainSchema
  readonly items?: PlainSchema
  readonly isQuantity?: true
  /** `x-kubernetes-embedded-resource`: a whole object, with metadata. */
  readonly isEmbedded?: true
  /** Whether an object without `properties` has no fields at all. Otherwise it can have any. */
  readonly isClosed?: true
  /** The patch strategy `retainKeys`: what is set replaces other fields. */
  readonly retainsKeys?: true
  /** The key of the items of a list in the patch of a built-in kind. */
  readonly mergeKey?: string
  /** The value that the API server fills in. */
  readonly filledIn?: unknown
}

export interface SchemaOptions {
  /** The schemas to which `$ref` refers: `components.schemas` of an OpenAPI v3 document. */
  readonly components?: { readonly [name: string]: unknown }
  /** Whether it is the structural schema of a CRD, in which an object without fields has none. */
  readonly isStructural?: boolean
}

/** More levels than any schema of Kubernetes has; the CRDs of Prometheus' operator have 20. */
const mostLevels = 64

const referenceForm = /^#\/components\/schemas\/([^/]+)$/

/**
 * Resolves the references of an OpenAPI v3 or structural schema. The work is linear in its size, because each component
 * is read once.
 * @param raw untrusted JSON
 */
export function readSchema(
  raw: unknown,
  { components = {}, isStructural = false }: SchemaOptions = {},
): { readonly schema: PlainSchema } | { readonly causes: readonly Cause[] } {
  const causes: Cause[] = []
  const known = new Map<string, PlainSchema>()
  const open: string[] = []

  const fault = (field: string, message: string): PlainSchema => {
    causes.push({ rule: 'kind-schema', field, reason: 'FieldValueInvalid', message })
    return {}
  }

  const referred = (name: string, field: string, level: number): PlainSchema => {
    const before = known.get(name)
    if (before !== undefined) return before
    if (open.includes(name)) return fault(field, `is recursive: ${name} contains itself`)
    if (!Object.hasOwn(components, name)) return fault(field, `refers to ${name}, which is not in the document`)
    // A component that is only a reference adds no level.
    if (open.length >= mostLevels) return fault(field, `must not refer through more than ${mostLevels} components`)
    open.push(name)
    const found = read(components[name], field, level)
    open.pop()
    const made = name.endsWith('.resource.Quantity') ? quantitySchema : found
    known.set(name, made)
    return made
  }

  const read = (given: unknown, field: string, level: number): PlainSchema => {
    if (given === true) return {}
    if (!isRecord(given)) return fault(field, 'must be a schema')
    if (level > mostLevels) return fault(field, `must not nest deeper than ${mostLevels} levels`)
    const reference = referenceIn(given)
    if (reference === undefined) return readPlain(given, field, level)
    const name = referenceForm.exec(reference)?.[1]
    if (name === undefined) return fault(field, `must refer to a component, not to ${reference}`)
    const { properties: _, ...beside } = readPlain({ ...given, type: undefined }, field, level)
    const target = referred(name, field, level)
    return Object.keys(beside).length === 0 ? target : { ...target, ...beside }
  }

  const readPlain = (given: { readonly [key: string]: unknown }, field: string, level: number): PlainSchema => {
    const below = (value: unknown, key: string) => read(value, joinPath(field, key), level + 1)
    const { properties, additionalProperties, items } = given
    const fields = isRecord(properties)
      ? Object.fromEntries(Object.entries(properties).map(([key, value]) => [key, below(value, key)]))
      : undefined
    const isMap = isRecord(additionalProperties) || additionalProperties === true
    return {
      ...traitsOf(given, fields ?? {}, isStructural),
      ...(isStructural ? { isClosed: true } : {}),
      ...(fields === undefined ? {} : { properties: fields }),
      ...(isMap ? { additionalProperties: below(additionalProperties, '*') } : {}),
      ...(items === undefined ? {} : { items: below(items, '*') }),
    }
  }

  const schema = read(raw, '', 0)
  return causes.length > 0 ? { causes } : { schema }
}

/** OpenAPI v3 has no keywords beside `$ref`, so a reference with a default is written as `allOf` with one member. */
function referenceIn({ $ref, allOf }: { readonly [key: string]: unknown }): string | undefined {
  const [only, ...others]: readonly unknown[] = Array.isArray(allOf) ? allOf : []
  const found = $ref ?? (isRecord(only) && others.length === 0 ? only['$ref'] : undefined)
  return typeof found === 'string' ? found : undefined
}

const quantitySchema: PlainSchema = { isQuantity: true }

/** The pattern of quantities in the CRDs of controller-gen. */
const quantityPattern =
  '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$'

const types: ReadonlySet<unknown> = new Set(['object', 'array', 'string', 'integer', 'number', 'boolean'])
const limits = ['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'maxProperties'] as const

/** Everything about a schema but the schemas in it. */
function traitsOf(
  given: { readonly [key: string]: unknown },
  fields: { readonly [key: string]: PlainSchema },
  isStructural: boolean,
): PlainSchema {
  const { type, format, pattern, required } = given
  if (pattern === quantityPattern || format === 'quantity') return quantitySchema
  if (given['x-kubernetes-int-or-string'] === true || format === 'int-or-string') {
    return { 'x-kubernetes-int-or-string': true, ...filledInBy(given, isStructural) }
  }
  const needed = textsOf(required).filter((key) => fields[key] === undefined || !('filledIn' in fields[key]))
  const words = Array.isArray(given['enum']) ? given['enum'].filter((one) => typeof one === 'string') : []
  const keys = textsOf(given['x-kubernetes-list-map-keys'])
  const mergeKey = given['x-kubernetes-patch-merge-key']
  const patch = given['x-kubernetes-patch-strategy']
  const strategy = typeof patch === 'string' ? patch.split(',') : []
  const listType = listTypeOf(given['x-kubernetes-list-type'], strategy, mergeKey)
  const kinds = kindsOf(given['oneOf'])
  return {
    ...(types.has(type) ? { type: type as NonNullable<Schema['type']> } : {}),
    ...(isCheckedFormat(format) ? { format } : {}),
    ...(words.length > 0 ? { enum: words } : {}),
    ...Object.fromEntries(limits.flatMap((key) => (typeof given[key] === 'number' ? [[key, given[key]]] : []))),
    ...(needed.length > 0 ? { required: needed } : {}),
    ...(kinds === undefined ? {} : { oneOf: kinds }),
    ...(given['x-kubernetes-preserve-unknown-fields'] === true ? { 'x-kubernetes-preserve-unknown-fields': true } : {}),
    ...(given['x-kubernetes-embedded-resource'] === true ? { isEmbedded: true } : {}),
    ...(given['x-kubernetes-map-type'] === 'atomic' ? { 'x-kubernetes-map-type': 'atomic' } : {}),
    ...(listType === undefined ? {} : { 'x-kubernetes-list-type': listType }),
    ...(keys.length > 0 ? { 'x-kubernetes-list-map-keys': keys } : {}),
    ...(typeof mergeKey === 'string' ? { mergeKey } : {}),
    ...(strategy.includes('retainKeys') ? { retainsKeys: true } : {}),
    ...filledInBy(given, isStructural),
  }
}

/** In the documents of built-in kinds, required fields have their type's empty value as a default. It is none. */
function filledInBy(
  { default: value }: { readonly [key: string]: unknown },
  isStructural: boolean,
): Pick<PlainSchema, 'filledIn'> {
  const isEmpty = !value || (isRecord(value) && Object.keys(value).length === 0)
  return value === undefined || (isEmpty && !isStructural) ? {} : { filledIn: value }
}

/** Built-in kinds had patch strategies before they had list types, and some lists have only these. */
function listTypeOf(
  given: unknown,
  strategy: readonly string[],
  mergeKey: unknown,
): NonNullable<Schema['x-kubernetes-list-type']> | undefined {
  if (given === 'atomic' || given === 'set' || given === 'map') return given
  if (!strategy.includes('merge')) return undefined
  return typeof mergeKey === 'string' ? 'map' : 'set'
}

const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []

/** A union of fields of which exactly one is set: every member requires one field and nothing else. */
function kindsOf(oneOf: unknown): Schema['oneOf'] {
  if (!Array.isArray(oneOf) || oneOf.length < 2) return undefined
  const kinds = oneOf.flatMap((one: unknown) => {
    const [only, ...others] = isRecord(one) ? textsOf(one['required']) : []
    const isPlain = isRecord(one) && Object.keys(one).every((key) => key === 'required' || key === 'properties')
    return only !== undefined && others.length === 0 && isPlain ? [{ required: [only] as const }] : []
  })
  return kinds.length === oneOf.length ? kinds : undefined
}
