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
 * The domain in libvirt's own spelling: two domains mean the same where their canonical ones are equal. Numbers are
 * JSON numbers, or decimal strings beyond 2^53; words are booleans; sizes are in libvirt's units; hex, MAC addresses
 * and UUIDs have their full width; sets of CPUs are ascending; keys are in the order of the description, disks and
 * controllers where libvirt puts them. Nothing is added but the unit of a bare number; what libvirt does not store is
 * left out (rewrite.ts). The input stays as it is.
 */
export const canonical = (domain: Domain): Domain => {
  if (!isRecord(domain)) return domain
  // Of the same shape as what came in.
  return rewrite(canonicalElement(root, domain, '') as Domain)
}

/**
 * The values in libvirt's own spelling, each in the place where it was written: paths mean the same before and after.
 */
export const canonicalSpelling = (domain: Domain): Domain => {
  // Of the same shape as what came in.
  return elementSpelling(root, domain) as Domain
}

/** The same for the value of one element; a value that is not an object is returned unchanged. */
export const elementSpelling = (element: Element, value: unknown): unknown =>
  isRecord(value) ? canonicalElement(element, value, undefined) : value

type JsonObject = { [key: string]: unknown }
type JsonReadonly = { readonly [key: string]: unknown }

/** @param path of the element, by which the order of lists is known; undefined where everything stays in its place */
const canonicalElement = (element: Element, given: JsonReadonly, path: string | undefined): JsonObject => {
  const json = element.scale ? canonicalSize(element.scale, given) : given
  const shape = shapeOf(element)
  const result: JsonObject = {}
  for (const key of orderedKeys(shape, json)) {
    const known = shape.keys.get(key)
    if (known?.field.live && path !== undefined) continue
    // libvirt does not store an element that is only text and has none.
    if (known?.field.at === 'leaf' && json[key] === '' && path !== undefined) continue
    // Validation reports unknown keys and values that should be lists.
    if (!known) define(result, key, json[key])
    else if (known.field.at === 'children') putList(result, key, known.singleOf ?? key, known.field, json[key], path)
    else result[key] = canonicalField(known.field, json[key], json, pathOf(path, key))
  }
  return path === undefined ? result : stored(path, result)
}

const pathOf = (path: string | undefined, key: string): string | undefined =>
  path === undefined ? undefined : path === '' ? key : `${path}.${key}`

/** Also for a key such as `__proto__`. */
const define = (object: JsonObject, key: string, value: unknown): void => {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true })
}

/** @param key the key of the value: the list's own, or the short form for a list of one */
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
  if (single !== undefined && items.length === 1 && !Object.hasOwn(result, single)) result[single] = items[0]
  else result[key] = (path === undefined ? undefined : orders[path])?.(items) ?? items
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

/** Parts of an element that hold a size with its unit, in libvirt's unit; as they are where they are no size. */
const canonicalSize = (scale: Scale, json: JsonReadonly): JsonReadonly => {
  const size = scaled(scale, json[scale.value], json[scale.unit])
  return size ? { ...json, [scale.unit]: size.unit, [scale.value]: exactNumber(size.value) } : json
}
