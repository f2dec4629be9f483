import { isSecret } from '../api/object-preset.ts'
import { isDeeper, isRecord, mostLevels } from '../api/schema.ts'
import type { Subject } from './kind.ts'
import { jsonMeaning } from './meaning.ts'
import { keysOfItem } from './items.ts'
import type { ListStructure, ObjectStructure, Structure } from './structure.ts'
import { valueAt } from './structure.ts'

type Fields = { readonly [key: string]: unknown }

/** The evidence of a request for which fields its user wrote. */
interface Evidence {
  /** Undefined if the user did not write the field. */
  readonly field: (key: string) => Evidence | undefined
  /** Undefined if it does not mention the item. */
  readonly itemsOf: (structure: ListStructure) => (item: unknown) => Evidence | undefined
}

/** A request to create an object, as far as it has evidence. */
export interface CreateRequest {
  /** The version of the object's kind, e.g. `apps/v1`. */
  readonly apiVersion: string
  /** Who writes the object, as the client names itself. */
  readonly fieldManager: string | undefined
}

/** kubectl's name when it applies on the client's side. Only then is its annotation about this very request. */
const clientSideApply = 'kubectl-client-side-apply'
export const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * The part of a new object that its user wrote. Before it calls webhooks, the API server fills in the defaults of a
 * kind, and other webhooks may have added to the object.
 *
 * `kubectl apply` states what the user wrote: with `--server-side` in the managed fields, otherwise in an annotation.
 * Other clients do not. Without evidence, and for the items of lists that it does not mention, every value counts as
 * the user's. The metadata always does.
 * @returns undefined if there is no evidence
 */
export function writtenPart(
  object: Subject & Fields,
  structure: ObjectStructure,
  request: CreateRequest,
): Subject | undefined {
  const evidence = appliedFields(object, request) ?? lastApplied(object, request)
  if (evidence === undefined) return undefined
  const whole = isSecret(object) ? withStringData(evidence) : evidence
  return { ...fields(object, structure, whole), metadata: object.metadata }
}

/** The API server has put `stringData` into `data`. */
const withStringData = (evidence: Evidence): Evidence => ({
  ...evidence,
  field(key) {
    const [given, text] = [evidence.field(key), key === 'data' ? evidence.field('stringData') : undefined]
    if (given === undefined || text === undefined) return given ?? text
    return { ...given, field: (name) => given.field(name) ?? text.field(name) }
  },
})

function fields(value: Fields, structure: ObjectStructure, evidence: Evidence): Fields {
  const entries = Object.entries(value).flatMap(([key, member]) => {
    const below = structure.field(key)
    // No preset can set a field without a structure.
    if (below === undefined) return [[key, member] as const]
    const written = evidence.field(key)
    return written === undefined ? [] : [[key, part(below, member, written)] as const]
  })
  return Object.fromEntries(entries)
}

function part(structure: Structure, value: unknown, evidence: Evidence): unknown {
  // Evidence of an empty object means that the user left all of its fields open.
  if (structure.kind === 'object' && isRecord(value)) return fields(value, structure, evidence)
  if (structure.kind === 'list' && Array.isArray(value)) {
    const evidenceOf = evidence.itemsOf(structure)
    return value.map((item: unknown) => {
      const written = evidenceOf(item)
      return written === undefined ? item : part(structure.item, item, written)
    })
  }
  return value
}

/**
 * The fields that server-side apply sent. Managed fields can be sent with any request, but the API server adds an entry
 * of operation Update for every other way to create an object, and removes its fields from the others.
 */
function appliedFields({ metadata }: Subject, { apiVersion }: CreateRequest): Evidence | undefined {
  const [entry, ...others] = metadata.managedFields ?? []
  if (!isRecord(entry) || others.length > 0 || entry['subresource'] !== undefined) return undefined
  if (entry['operation'] !== 'Apply' || entry['apiVersion'] !== apiVersion) return undefined
  return isRecord(entry['fieldsV1']) ? fromFieldSet(entry['fieldsV1']) : undefined
}

/** A set of fields as `metadata.managedFields` encodes it: `f:NAME`, `k:{KEYS}` and `v:VALUE`. */
const fromFieldSet = (set: Fields): Evidence => ({
  field: (key) => fieldSetAt(set, `f:${key}`),
  itemsOf({ keys: [paths = []] }) {
    const items = itemsOnce(set, () => {
      const found = new Map<string, unknown>()
      for (const [key, below] of Object.entries(set)) {
        const parsed = key.startsWith('k:') ? parseJson(key.slice(2)) : undefined
        if (isRecord(parsed)) found.set(jsonMeaning(parsed), below)
      }
      return found
    })
    return (item) => {
      const found = items.get(
        jsonMeaning(Object.fromEntries(paths.map((path) => [path.join('.'), valueAt(item, path)]))),
      )
      return isRecord(found) ? fromFieldSet(found) : undefined
    }
  },
})

function fieldSetAt(set: Fields, key: string): Evidence | undefined {
  const below = set[key]
  return isRecord(below) ? fromFieldSet(below) : undefined
}

/** The manifest that `kubectl apply` sent. In a copy of an object the annotation is about the original. */
function lastApplied({ metadata }: Subject, { apiVersion, fieldManager }: CreateRequest): Evidence | undefined {
  const text = metadata.annotations?.[lastAppliedAnnotation]
  const manifest = fieldManager === clientSideApply && text !== undefined ? parseJson(text) : undefined
  return isRecord(manifest) && manifest['apiVersion'] === apiVersion ? fromManifest(manifest) : undefined
}

/** Of items with one key, none is known to be about an item of the object. */
const several = Symbol('several')

const fromManifest = (value: unknown): Evidence => ({
  field: (key) => (isRecord(value) && Object.hasOwn(value, key) ? fromManifest(value[key]) : undefined),
  itemsOf(structure) {
    const list: readonly unknown[] = Array.isArray(value) ? value : []
    const items = itemsOnce(list, () => {
      const found = new Map<string, unknown>()
      for (const item of list) {
        for (const key of keysOfItem(structure, item)) found.set(key, found.has(key) ? several : item)
      }
      return found
    })
    return (item) => {
      const key = keysOfItem(structure, item).find((one) => items.has(one))
      const found = key === undefined ? several : items.get(key)
      return found === several ? undefined : fromManifest(found)
    }
  },
})

/**
 * Many items of an object can have the key of one item of the evidence, whose own lists are read once for all of them. A
 * value of the evidence belongs to one place, and so to one structure.
 */
const itemsByValue = new WeakMap<object, ReadonlyMap<string, unknown>>()

function itemsOnce(value: object, read: () => ReadonlyMap<string, unknown>): ReadonlyMap<string, unknown> {
  const items = itemsByValue.get(value) ?? read()
  itemsByValue.set(value, items)
  return items
}

/** Users write it. A deeper value than any object has would overflow the stack when its items are compared. */
function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return isDeeper(value, mostLevels) ? undefined : value
  } catch {
    return undefined
  }
}
