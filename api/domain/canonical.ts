import { isRecord } from '../schema.ts'
import { elementOf, type Children, type Element, type Field, type Scale } from './description.ts'
import { domain as root, type Domain } from './domain.ts'
import { normalForeign } from './foreign.ts'
import { stored } from './stored.ts'
import { orders } from './order.ts'
import { rewrite } from './rewrite.ts'
import { canonicalValue, exactNumber } from './scalar-value.ts'
import { orderedKeys, shapeOf } from './shape.ts'
import { scaled } from './elements/size.ts'

/**
 * The domain in libvirt's own spelling. Two domains have the same meaning if their canonical forms are equal. Numbers
 * are JSON numbers, or decimal strings beyond 2^53; words are booleans; sizes are in libvirt's units; hex, MAC
 * addresses and UUIDs have their full width; sets of CPUs are ascending; keys are in the order of the description;
 * disks and controllers are in libvirt's order. Adds nothing but the unit of a bare number, and omits what libvirt does
 * not store (rewrite.ts). The input is not modified.
 */
export const canonical = (domain: Domain): Domain => {
  if (!isRecord(domain)) return domain
  // Has the shape of the input.
  return rewrite(canonicalElement(root, domain, '') as Domain)
}

/** Like `canonical` for the values only: everything remains at its path, so that paths stay valid. */
export const canonicalSpelling = (domain: Domain): Domain => {
  // Has the shape of the input.
  return elementSpelling(root, domain) as Domain
}

/** Like `canonicalSpelling`, for the value of one element. A value that is not an object is returned unchanged. */
export const elementSpelling = (element: Element, value: unknown): unknown =>
  isRecord(value) ? canonicalElement(element, value, undefined) : value

type JsonObject = { [key: string]: unknown }
type JsonReadonly = { readonly [key: string]: unknown }

/**
 * @param path the path of the element, which determines the order of lists; undefined to keep everything in its place
 */
const canonicalElement = (element: Element, given: JsonReadonly, path: string | undefined): JsonObject => {
  const json = element.scale ? canonicalSize(element.scale, given) : given
  const shape = shapeOf(element)
  const result: JsonObject = {}
  for (const key of orderedKeys(shape, json)) {
    const known = shape.keys.get(key)
    if (known?.field.live && path !== undefined) continue
    // libvirt does not store an element that contains only text if the text is empty.
    if (known?.field.at === 'leaf' && json[key] === '' && path !== undefined) continue
    // Validation reports unknown keys, and values that should be lists.
    if (!known) define(result, key, json[key])
    else if (known.field.at === 'children') putList(result, key, known.singleOf ?? key, known.field, json[key], path)
    else result[key] = canonicalField(known.field, json[key], json, pathOf(path, key))
  }
  return path === undefined ? result : stored(path, result)
}

const pathOf = (path: string | undefined, key: string): string | undefined =>
  path === undefined ? undefined : path === '' ? key : `${path}.${key}`

/** Defines the key even if it is `__proto__`. */
const define = (object: JsonObject, key: string, value: unknown): void => {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true })
}

/** @param key the key of the value: either `listKey` or its short form for a single item */
const putList = (
  result: JsonObject,
  key: string,
  listKey: string,
  field: Children,
  value: unknown,
  above: string | undefined,
): void => {
  const { single } = field
  const path = pathOf(above, listKey)
  const element = elementOf(field)
  const item = (of: unknown): unknown => (isRecord(of) ? canonicalElement(element, of, path) : of)
  if (key !== listKey) {
    result[key] = item(value)
    return
  }
  if (!Array.isArray(value)) {
    result[key] = value
    return
  }
  const items = value.map(item)
  if (path === undefined) result[key] = items
  else if (single !== undefined && items.length === 1 && !Object.hasOwn(result, single)) result[single] = items[0]
  else result[key] = orders[path]?.(items) ?? items
}

const canonicalField = (
  field: Exclude<Field, Children>,
  value: unknown,
  siblings: JsonReadonly,
  path: string | undefined,
): unknown => {
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      return canonicalValue(field.scalar, value, siblings)
    case 'leaves':
      return Array.isArray(value) ? value.map((item) => canonicalValue(field.scalar, item)) : value
    case 'foreign':
      return typeof value === 'string' ? normalForeign(value) : value
    case 'child':
      return isRecord(value) ? canonicalElement(elementOf(field), value, path) : value
  }
}

/** Converts the size in an element to libvirt's unit. Returns the element unchanged if the size is invalid. */
const canonicalSize = (scale: Scale, json: JsonReadonly): JsonReadonly => {
  const size = scaled(scale, json[scale.value], json[scale.unit])
  return size ? { ...json, [scale.unit]: size.unit, [scale.value]: exactNumber(size.value) } : json
}
