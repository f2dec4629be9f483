import { elementSpelling } from '../api/domain/canonical.ts'
import type { Element, Field, Union } from '../api/domain/description.ts'
import { elementOf, maxItemsOf } from '../api/domain/description.ts'
import { domain } from '../api/domain/domain.ts'
import { defaultMaxItems } from '../api/domain/limits.ts'
import { canonicalValue } from '../api/domain/scalar-value.ts'
import { quantityNano } from '../api/quantity.ts'
import { isRecord } from '../api/schema.ts'
import { jsonMeaning, scalarMeaning, wholeMeaning } from './meaning.ts'

/**
 * How a VM is put together for merging: what is one value, what has fields, what is a list and by what its items are the
 * same. The domain's part follows from its description, the rest is written here.
 */
export type Structure = LeafStructure | ObjectStructure | ListStructure

/** One value, set whole or not at all. */
export interface LeafStructure {
  readonly kind: 'leaf'
  /** Two values are equal where their meanings are. */
  readonly meaning: (value: unknown) => string
  /** The one spelling that stands for all of one meaning. */
  readonly spelling: (value: unknown) => unknown
}

export interface ObjectStructure {
  readonly kind: 'object'
  /** undefined: no such field. */
  readonly field: (key: string) => Structure | undefined
  /** All fields, for hints; none where the user chooses the keys. */
  readonly keys: () => readonly string[]
  /** By which keys that presets add are ordered: their place in the description, then as text. */
  readonly place: (key: string) => number
  readonly union?: UnionStructure
  /** `host` → `hosts`: a key that holds the only item of the list under another. */
  readonly singles: ReadonlyMap<string, string>
}

export interface UnionStructure {
  /** The deciding attribute; absent where the key that is there decides (volumes). */
  readonly by?: string
  /** Which branch a value has decided for, as text. */
  readonly branchOf: (value: { readonly [key: string]: unknown }) => string | undefined
  /** Whether a field is taken with the branch, the deciding attribute included. */
  readonly owns: (key: string) => boolean
  /** Which paths, in dots, are valid in a branch; undefined: nobody says. */
  readonly validIn: (branch: string) => readonly string[] | undefined
}

export interface ListStructure {
  readonly kind: 'list'
  readonly item: Structure
  readonly maxItems: number
  /** Alternatives, the first of which both items have decides whether they are the same item; each some paths in the item. */
  readonly keys: readonly (readonly (readonly string[])[])[]
}

const asJson: LeafStructure = {
  kind: 'leaf',
  meaning: jsonMeaning,
  spelling: (value) => value,
}

const noSingles: ReadonlyMap<string, string> = new Map()

const elements = new WeakMap<Element, Structure>()

/** Made once for each element, when it is first met: elements may be recursive. */
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

/** What stands under the short key of a list of one. */
function onlyItem(element: Element, list: string | undefined): Structure | undefined {
  const field = list === undefined ? undefined : element.fields[list]
  return field?.at === 'children' ? ofElement(elementOf(field)) : undefined
}

function ofField(field: Field): Structure {
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      return {
        kind: 'leaf',
        meaning: (value) => scalarMeaning(field.scalar, value),
        spelling: (value) => canonicalValue(field.scalar, value),
      }
    case 'leaves': {
      const item: LeafStructure = {
        kind: 'leaf',
        meaning: (value) => scalarMeaning(field.scalar, value),
        spelling: (value) => canonicalValue(field.scalar, value),
      }
      return { kind: 'list', item, maxItems: maxItemsOf(field), keys: [] }
    }
    case 'child':
      return ofElement(elementOf(field))
    case 'children': {
      const keys = (field.key ?? []).map((paths) => paths.map((path) => path.split('.')))
      return { kind: 'list', item: ofElement(elementOf(field)), maxItems: maxItemsOf(field), keys }
    }
    case 'foreign':
      return asJson
  }
}

function ofUnion(union: Union, element: Element): UnionStructure {
  const field = Object.hasOwn(element.fields, union.by) ? element.fields[union.by] : undefined
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

const object = (
  fields: { readonly [key: string]: Structure },
  options: Pick<ObjectStructure, 'union'> = {},
): ObjectStructure => {
  const keys = Object.keys(fields)
  return {
    kind: 'object',
    field: (key) => (Object.hasOwn(fields, key) ? fields[key] : undefined),
    keys: () => keys,
    place: (key) => (keys.includes(key) ? keys.indexOf(key) : keys.length),
    singles: noSingles,
    ...options,
  }
}

/** Keys that the user chooses. */
const map: ObjectStructure = {
  kind: 'object',
  field: () => asJson,
  keys: () => [],
  place: () => 0,
  singles: noSingles,
}

const quantity: LeafStructure = {
  ...asJson,
  meaning: (value) => (typeof value === 'string' ? quantityNano(value)?.toString() : undefined) ?? jsonMeaning(value),
  spelling: quantitySpelling,
}

/** As Kubernetes writes it: the largest binary suffix that leaves a whole number, else the plain number. */
function quantitySpelling(value: unknown): unknown {
  const nano = typeof value === 'string' ? quantityNano(value) : undefined
  if (nano === undefined || nano % 1_000_000_000n !== 0n) return value
  const whole = nano / 1_000_000_000n
  const suffixes = ['Ei', 'Pi', 'Ti', 'Gi', 'Mi', 'Ki']
  const index = suffixes.findIndex((_, at) => whole !== 0n && whole % 1024n ** BigInt(6 - at) === 0n)
  return index === -1 ? whole.toString() : `${whole / 1024n ** BigInt(6 - index)}${suffixes[index]}`
}

const volumeKinds: readonly string[] = ['emptyDisk', 'persistentVolumeClaim', 'cloudInit']

const volume = object(
  {
    name: asJson,
    emptyDisk: object({ capacity: quantity }),
    persistentVolumeClaim: object({ claimName: asJson, readOnly: asJson }),
    cloudInit: object({ userData: asJson, metaData: asJson, networkData: asJson }),
  },
  {
    union: {
      branchOf: (value) => volumeKinds.find((kind) => Object.hasOwn(value, kind)),
      owns: (key) => volumeKinds.includes(key),
      validIn: () => undefined,
    },
  },
)

/** A list whose items are compared whole. */
const wholeItems: ListStructure = { kind: 'list', item: asJson, maxItems: defaultMaxItems, keys: [] }

/** The structure that belongs to a domain's description; tests hand in a small one. */
export const machineStructure = (domainElement: Element): ObjectStructure =>
  object({
    metadata: object({ labels: map, annotations: map }),
    spec: object({
      domain: ofElement(domainElement),
      volumes: { kind: 'list', item: volume, maxItems: defaultMaxItems, keys: [[['name']]] },
      nodeSelector: map,
      tolerations: wholeItems,
      affinity: object({ nodeAffinity: asJson, podAffinity: asJson, podAntiAffinity: asJson }),
      priorityClassName: asJson,
      terminationGracePeriodSeconds: asJson,
    }),
  })

let ofDomain: ObjectStructure | undefined

/** The structure of a VirtualMachine. */
export function virtualMachineStructure(): ObjectStructure {
  ofDomain ??= machineStructure(domain)
  return ofDomain
}

/** The value at a path of keys; undefined where it does not lead anywhere. */
export function valueAt(value: unknown, path: readonly string[]): unknown {
  let at = value
  for (const key of path) {
    if (!isRecord(at) || !Object.hasOwn(at, key)) return undefined
    at = at[key]
  }
  return at
}

/** The structure at a path of keys. */
export function structureAt(structure: Structure, path: readonly string[]): Structure | undefined {
  let at: Structure | undefined = structure
  for (const key of path) at = at?.kind === 'object' ? at.field(key) : undefined
  return at
}
