import type { Cause } from '../api/cause.ts'
import { elementSpelling } from '../api/domain/canonical.ts'
import type { Element, Field, Union } from '../api/domain/description.ts'
import { elementOf, maxItemsOf } from '../api/domain/description.ts'
import { domain } from '../api/domain/domain.ts'
import { defaultMaxItems } from '../api/domain/limits.ts'
import { canonicalValue } from '../api/domain/scalar-value.ts'
import type { Scalar } from '../api/domain/scalar.ts'
import { annotationsSchema, labelsSchema } from '../api/metadata.ts'
import { quantityNano } from '../api/quantity.ts'
import { bounded, isQuantity, isRecord, type Schema } from '../api/schema.ts'
import { specFields } from '../api/virtual-machine.ts'
import { jsonMeaning, scalarMeaning, wholeMeaning } from './meaning.ts'

/**
 * Describes how a VM is merged: which parts are single values, objects or lists, and how the items of lists are
 * identified. The domain's part is derived from its description, the rest from the schemas.
 */
export type Structure = LeafStructure | ObjectStructure | ListStructure

/** A value that is set as a whole or not at all. */
export interface LeafStructure {
  readonly kind: 'leaf'
  /** Values are equal if their meanings are equal. */
  readonly meaning: (value: unknown) => string
  /** The canonical spelling of all values with one meaning. */
  readonly spelling: (value: unknown) => unknown
  /** The causes for a value of the wrong form. Absent if values are checked elsewhere. */
  readonly check?: (value: unknown, field: string) => readonly Cause[]
  /** The value that identifies an item of a list if this key of it is missing. */
  readonly absent?: unknown
}

export interface ObjectStructure {
  readonly kind: 'object'
  /** undefined if there is no such field. */
  readonly field: (key: string) => Structure | undefined
  /** All fields, for suggestions; empty if the user chooses the keys. */
  readonly keys: () => readonly string[]
  /** Orders the keys that presets add: their position in the description. Ties are ordered as text. */
  readonly place: (key: string) => number
  readonly union?: UnionStructure
  /** `host` → `hosts`: from the short key of an only item to the key of its list. */
  readonly singles: ReadonlyMap<string, string>
}

export interface UnionStructure {
  /** The deciding attribute. Absent if the key that is present decides (volumes). */
  readonly by?: string
  /** The branch that a value selects; undefined if it selects none. */
  readonly branchOf: (value: { readonly [key: string]: unknown }) => string | undefined
  /** Whether a field belongs to the union, including the deciding attribute. */
  readonly owns: (key: string) => boolean
  /** The dotted paths that are valid in a branch; undefined if unknown. */
  readonly validIn: (branch: string) => readonly string[] | undefined
}

export interface ListStructure {
  readonly kind: 'list'
  readonly item: Structure
  readonly maxItems: number
  /**
   * Alternative keys, each a set of paths. The first that two items both have decides whether they are the same. The
   * empty path stands for the item itself, in a set of values.
   */
  readonly keys: readonly (readonly (readonly string[])[])[]
  /** The field of an item that is a part of the other item with its key, such as a companion of a USB controller. */
  readonly partOf?: string | undefined
}

/** Any JSON, set as a whole. */
export const asJson: LeafStructure = {
  kind: 'leaf',
  meaning: jsonMeaning,
  spelling: (value) => value,
}

const noSingles: ReadonlyMap<string, string> = new Map()

const elements = new WeakMap<Element, Structure>()

/** Creates the structure of each element once, on first use, because elements may be recursive. */
function ofElement(element: Element): Structure {
  const known = elements.get(element)
  if (known !== undefined) return known
  const structure = element.whole === true ? wholeElement(element) : fieldsElement(element)
  elements.set(element, structure)
  return structure
}

const wholeElement = (element: Element): LeafStructure => ({
  kind: 'leaf',
  meaning: (value) => wholeMeaning(element, value),
  spelling: (value) => elementSpelling(element, value),
})

function fieldsElement(element: Element): ObjectStructure {
  const fields = new Map<string, Structure>()
  const places = new Map(Object.keys(element.fields).map((key, index) => [key, index]))
  const singles = new Map<string, string>()
  for (const [key, field] of Object.entries(element.fields)) {
    if (field.at === 'children' && field.single !== undefined) singles.set(field.single, key)
  }
  return {
    kind: 'object',
    field: (key) => {
      const known = fields.get(key)
      if (known !== undefined) return known
      const field = Object.hasOwn(element.fields, key) ? element.fields[key] : undefined
      const made = field === undefined ? onlyItem(element, singles.get(key)) : ofField(field)
      if (made === undefined) return undefined
      fields.set(key, made)
      return made
    },
    keys: () => [...places.keys(), ...singles.keys()],
    place: (key) => places.get(key) ?? places.size,
    singles,
    ...(element.union === undefined ? {} : { union: ofUnion(element.union, element) }),
  }
}

/** The structure of the value under the short key of an only item. */
function onlyItem(element: Element, list: string | undefined): Structure | undefined {
  const field = list === undefined ? undefined : element.fields[list]
  return field?.at === 'children' ? ofElement(elementOf(field)) : undefined
}

function ofField(field: Field): Structure {
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      return ofScalar(field.scalar)
    case 'leaves': {
      const item = ofScalar(field.scalar)
      return field.whole === true ? wholeList(item) : { kind: 'list', item, maxItems: maxItemsOf(field), keys: [] }
    }
    case 'child':
      return ofElement(elementOf(field))
    case 'children': {
      if (field.whole === true) return wholeList(wholeElement(elementOf(field)))
      const keys = (field.key ?? []).map((paths) => paths.map((path) => path.split('.')))
      const { partOf } = field
      return { kind: 'list', item: ofElement(elementOf(field)), maxItems: maxItemsOf(field), keys, partOf }
    }
    case 'foreign':
      return asJson
  }
}

const ofScalar = (scalar: Scalar): LeafStructure => ({
  kind: 'leaf',
  meaning: (value) => scalarMeaning(scalar, value),
  spelling: (value) => canonicalValue(scalar, value),
})

/** A list whose order matters: adding, removing or moving an item makes it a different value. */
const wholeList = ({ meaning, spelling }: LeafStructure): LeafStructure => ({
  kind: 'leaf',
  meaning: (value) => (Array.isArray(value) ? `[${value.map(meaning).join()}]` : jsonMeaning(value)),
  spelling: (value) => (Array.isArray(value) ? value.map(spelling) : value),
})

function ofUnion(union: Union, element: Element): UnionStructure {
  const field = element.fields[union.by]
  const owned = new Set([union.by, ...union.owns])
  const { branches = {} } = union
  return {
    by: union.by,
    branchOf: (value) => {
      if (!Object.hasOwn(value, union.by)) return undefined
      const decided = value[union.by]
      return field?.at === 'attribute' && typeof decided === 'string' ? decided : jsonMeaning(decided)
    },
    owns: (key) => owned.has(key),
    validIn: (branch) => (Object.hasOwn(branches, branch) ? branches[branch] : undefined),
  }
}

/** An object of known fields. */
export const objectOf = (
  fields: { readonly [key: string]: Structure },
  options: Pick<ObjectStructure, 'union'> = {},
): ObjectStructure => {
  const keys = Object.keys(fields)
  const places = new Map(keys.map((key, index) => [key, index]))
  return {
    kind: 'object',
    field: (key) => (Object.hasOwn(fields, key) ? fields[key] : undefined),
    keys: () => keys,
    place: (key) => places.get(key) ?? keys.length,
    singles: noSingles,
    ...options,
  }
}

export const quantity: LeafStructure = {
  ...asJson,
  meaning: (value) => (typeof value === 'string' ? quantityNano(value)?.toString() : undefined) ?? jsonMeaning(value),
  spelling: quantitySpelling,
}

/** As Kubernetes does: the largest binary suffix that leaves a whole number, else a plain number. */
function quantitySpelling(value: unknown): unknown {
  const nano = typeof value === 'string' ? quantityNano(value) : undefined
  if (nano === undefined || nano % 1_000_000_000n !== 0n) return value
  const whole = nano / 1_000_000_000n
  const suffixes = ['Ei', 'Pi', 'Ti', 'Gi', 'Mi', 'Ki']
  const index = suffixes.findIndex((_, at) => whole !== 0n && whole % 1024n ** BigInt(6 - at) === 0n)
  return index === -1 ? whole.toString() : `${whole / 1024n ** BigInt(6 - index)}${suffixes[index]}`
}

/** Derives a structure from a schema. Lists are keyed and objects atomic as in Kubernetes' server-side apply. */
function ofSchema(schema: Schema): Structure {
  const { properties, additionalProperties, items, oneOf } = schema
  if (isQuantity(schema)) return quantity
  if (items !== undefined && schema['x-kubernetes-list-type'] !== 'atomic') {
    const paths = schema['x-kubernetes-list-map-keys']?.map((key) => [key])
    const { maxItems = defaultMaxItems } = schema
    return paths === undefined
      ? { kind: 'list', item: asJson, maxItems, keys: [] }
      : { kind: 'list', item: ofSchema(items), maxItems, keys: [paths] }
  }
  if (schema['x-kubernetes-map-type'] === 'atomic') return asJson
  if (additionalProperties !== undefined) return mapOf(ofSchema(additionalProperties))
  if (properties === undefined) return asJson
  const fields = Object.entries(properties).map(([key, below]) => [key, ofSchema(below)] as const)
  return objectOf(
    Object.fromEntries(fields),
    oneOf === undefined ? {} : { union: unionOf(oneOf.map((one) => one.required[0])) },
  )
}

/** A map whose keys the user chooses. */
export const mapOf = (values: Structure): ObjectStructure => ({
  kind: 'object',
  field: () => values,
  keys: () => [],
  place: () => 0,
  singles: noSingles,
})

/** A union in which the key that is present decides. */
export const unionOf = (kinds: readonly string[]): UnionStructure => ({
  branchOf: (value) => kinds.find((kind) => Object.hasOwn(value, kind)),
  owns: (key) => kinds.includes(key),
  validIn: () => undefined,
})

const fieldsOf = (schemas: { readonly [key: string]: Schema }): { readonly [key: string]: Structure } =>
  Object.fromEntries(Object.entries(schemas).map(([key, schema]) => [key, ofSchema(bounded(schema))]))

/**
 * The structure of a VM, derived from the description of its domain and the schemas of the other fields of its spec.
 * Tests pass smaller ones.
 */
export const templateStructure = (
  domainElement: Element,
  fields: { readonly [key: string]: Schema } = specFields,
): ObjectStructure =>
  objectOf({
    metadata: objectOf(fieldsOf({ labels: labelsSchema, annotations: annotationsSchema })),
    spec: objectOf({ domain: ofElement(domainElement), ...fieldsOf(fields) }),
  })

let ofDomain: ObjectStructure | undefined

/** The structure of a VirtualMachine. */
export function virtualMachineStructure(): ObjectStructure {
  ofDomain ??= templateStructure(domain)
  return ofDomain
}

/** Returns the value at a path of keys, or undefined if it does not exist. */
export function valueAt(value: unknown, path: readonly string[]): unknown {
  let at = value
  for (const key of path) {
    if (!isRecord(at) || !Object.hasOwn(at, key)) return undefined
    at = at[key]
  }
  return at
}

/** Returns the structure at a path of keys, or undefined if it does not exist. */
export function structureAt(structure: Structure, path: readonly string[]): Structure | undefined {
  let at: Structure | undefined = structure
  for (const key of path) at = at?.kind === 'object' ? at.field(key) : undefined
  return at
}
