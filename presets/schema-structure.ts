import type { Cause } from '../api/cause.ts'
import { invalidValue } from '../api/field-error.ts'
import { quantityNano } from '../api/quantity.ts'
import { checkSchema } from '../api/schema.ts'
import type { PlainSchema } from './schema.ts'
import {
  asJson,
  mapOf,
  objectOf,
  quantity,
  unionOf,
  type LeafStructure,
  type ObjectStructure,
  type Structure,
} from './structure.ts'

/** The maximum length of a list with items of presets, unless the schema has a lower one. */
const mostItems = 1024

/** The fields of a whole object that presets cannot set. */
const fixed: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata', 'status'])

/**
 * The structure of a kind's objects, derived from its schema. Lists and maps are merged as in Kubernetes' server-side
 * apply. Of the metadata, presets can set labels and annotations. An object whose fields the schema does not list
 * (`x-kubernetes-preserve-unknown-fields` alone) is set as a whole.
 */
export function structureOf(schema: PlainSchema): ObjectStructure {
  const known = new Map<PlainSchema, Structure>()

  const of = (one: PlainSchema): Structure => {
    const before = known.get(one)
    if (before !== undefined) return before
    const made = make(one)
    known.set(one, made)
    return made
  }

  const make = (one: PlainSchema): Structure => {
    if (one.isQuantity === true) return quantityLeaf
    if (one.isEmbedded === true) return embedded(one)
    if (one.type === 'array') return list(one)
    if (one.type === 'object') return object(one)
    return leaf(one)
  }

  const object = (one: PlainSchema): Structure => {
    const { properties, additionalProperties, oneOf } = one
    const isOpen = one['x-kubernetes-preserve-unknown-fields'] === true
    if (one['x-kubernetes-map-type'] === 'atomic' || one.retainsKeys === true) return leaf(one)
    if (properties === undefined && additionalProperties !== undefined) return mapOf(of(additionalProperties))
    if (properties === undefined && (isOpen || one.isClosed !== true)) return leaf(one)
    const made = fields(properties ?? {}, oneOf === undefined ? [] : oneOf.map(({ required: [kind] }) => kind))
    return isOpen ? { ...made, field: (key) => made.field(key) ?? asJson } : made
  }

  const fields = (properties: { readonly [key: string]: PlainSchema }, kinds: readonly string[]): ObjectStructure =>
    objectOf(
      Object.fromEntries(Object.entries(properties).map(([key, below]) => [key, of(below)])),
      kinds.length === 0 ? {} : { union: unionOf(kinds) },
    )

  const list = (one: PlainSchema): Structure => {
    const { items = {}, mergeKey, maxItems = mostItems } = one
    const keys = one['x-kubernetes-list-map-keys'] ?? (mergeKey === undefined ? [] : [mergeKey])
    const limit = Math.min(maxItems, mostItems)
    switch (one['x-kubernetes-list-type']) {
      case 'set':
        return { kind: 'list', item: leaf(items), maxItems: limit, keys: [[[]]] }
      case 'map': {
        const item = one.retainsKeys === true ? exclusiveItem(items, keys) : of(items)
        if (keys.length === 0 || item.kind !== 'object') return leaf(one)
        return { kind: 'list', item, maxItems: limit, keys: [keys.map((key) => [key])] }
      }
      default:
        return leaf(one)
    }
  }

  /** `retainKeys` in a list: beside its key, an item has one field, which decides what it is (a pod's volumes). */
  const exclusiveItem = ({ properties = {} }: PlainSchema, keys: readonly string[]): ObjectStructure =>
    fields(
      properties,
      Object.keys(properties).filter((key) => !keys.includes(key)),
    )

  const embedded = ({ properties = {} }: PlainSchema): ObjectStructure => {
    const made = fields(properties, [])
    return { ...made, field: (key) => (key === 'metadata' ? metadata : (made.field(key) ?? asJson)) }
  }

  const leaf = (one: PlainSchema): LeafStructure => ({
    ...asJson,
    check: (value, field) => checkSchema(checkable(one), value, field),
    absent: one.filledIn,
  })

  const whole = Object.entries(schema.properties ?? {}).filter(([key]) => !fixed.has(key))
  const fieldsOfKind = whole.map(([key, below]) => [key, of(below)] as const)
  return objectOf({ metadata, ...Object.fromEntries(fieldsOfKind) })
}

const text = (maxLength: number): LeafStructure => ({
  ...asJson,
  check: (value, field) => checkSchema({ type: 'string', maxLength }, value, field),
})

const metadata = objectOf({
  labels: mapOf(text(63)),
  // The limit for all annotations of an object.
  annotations: mapOf(text(262_144)),
})

/** As `checkSchema` needs it: beside known fields, an open object has any others. */
function checkable(schema: PlainSchema): PlainSchema {
  return schema['x-kubernetes-preserve-unknown-fields'] === true ? { ...schema, additionalProperties: {} } : schema
}

/** A quantity is a text or a number: `500m`, `"2"`, 2. */
const quantityText = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value)

const quantityLeaf: LeafStructure = {
  kind: 'leaf',
  meaning: (value) => quantity.meaning(quantityText(value)),
  spelling: (value) => quantity.spelling(quantityText(value)),
  check(value, field): readonly Cause[] {
    const written = quantityText(value)
    const isQuantity = typeof written === 'string' && quantityNano(written) !== undefined
    return isQuantity ? [] : [invalidValue('pattern', field, value, 'must be a quantity, e.g. 1Gi')]
  },
}
