import { elementOf, type Element, type Field } from './description.ts'
import type { Reach } from './reach.ts'
import { domain as root } from './domain.ts'
import { isRecord } from '../schema.ts'
import { shapeOf, type KnownKey } from './shape.ts'

/** A value of a domain with its path and description. */
export interface Place {
  /** In kubectl's form: `devices.disks[1].target.dev`, after the prefix passed to `walk`. */
  readonly path: string
  readonly key: string
  readonly value: unknown
  readonly field: Field
  /** The object that contains the key, and its description. */
  readonly holder: { readonly [key: string]: unknown }
  readonly element: Element
}

/** The keys of an element to visit, as in `Shape.keys`. */
type Keys = (element: Element) => ReadonlyMap<string, KnownKey>

const everyKey: Keys = (element) => shapeOf(element).keys

/**
 * Visits every value of a domain that the description knows, parents before children, in the order of the JSON:
 * scalars, objects, and each item of a list (but not the list itself). If the visitor returns `false`, `walk` does not
 * descend. Unknown keys and values of a wrong type are skipped; `validateDomain` reports them.
 * @param prefix prepended to each path, e.g. `spec.domain`
 * @param keysOf the keys to visit; other keys are skipped with everything below them
 */
export const walk = (
  domain: object,
  visit: (place: Place) => boolean | void,
  prefix = '',
  keysOf: Keys = everyKey,
): void => {
  if (isRecord(domain)) walkElement(root, domain, prefix, visit, keysOf)
}

/** Like `walk`, for a part of a domain. */
const walkElement = (
  element: Element,
  holder: { readonly [key: string]: unknown },
  prefix: string,
  visit: (place: Place) => boolean | void,
  keysOf: Keys,
): void => {
  const keys = keysOf(element)
  const walkItem = (field: Field, key: string, value: unknown, path: string): void => {
    const goesOn = visit({ path, key, value, field, holder, element })
    if (goesOn === false || (field.at !== 'child' && field.at !== 'children') || !isRecord(value)) return
    walkElement(elementOf(field), value, path, visit, keysOf)
  }
  for (const key of Object.keys(holder)) {
    const known = keys.get(key)
    if (!known) continue
    const value = holder[key]
    const { field, singleOf } = known
    const path = prefix === '' ? key : `${prefix}.${key}`
    const isList =
      Array.isArray(value) && (field.at === 'leaves' || (field.at === 'children' && singleOf === undefined))
    if (isList) for (const [index, item] of value.entries()) walkItem(field, key, item, `${path}[${index}]`)
    else walkItem(field, key, value, path)
  }
}

const hostKeysOf = new WeakMap<Element, ReadonlyMap<string, KnownKey>>()

/**
 * For `walk`: the keys of an element that reach the host with some value, or are a part of such a grant, or that contain
 * a field that does or is. Computed once for each element.
 */
export const hostKeys: Keys = (element) => {
  const known = hostKeysOf.get(element)
  if (known) return known
  const { keys } = shapeOf(element)
  // For an element that contains itself (a backing store): every key, until the result is known.
  hostKeysOf.set(element, keys)
  const found = new Map([...keys].filter(([, { field }]) => mayReachHost(field)))
  hostKeysOf.set(element, found)
  return found
}

const mayReachHost = (field: Field): boolean =>
  field.reach === 'host' ||
  field.ofGrant !== undefined ||
  Object.values(field.reachOf ?? {}).includes('host') ||
  ((field.at === 'child' || field.at === 'children') && hostKeys(elementOf(field)).size > 0)

/** What the value of a field can affect. */
export const reachOf = (field: Field, value: unknown): Reach => {
  const { reach = 'guest', reachOf: byValue } = field
  return byValue && typeof value === 'string' && Object.hasOwn(byValue, value) ? (byValue[value] ?? reach) : reach
}
