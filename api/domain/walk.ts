import { elementOf, type Element, type Field, type Reach } from './description.ts'
import { domain as root } from './domain.ts'
import { isRecord } from '../schema.ts'
import { shapeOf } from './shape.ts'

/** A value of a domain, where it stands and what the description says about it. */
export interface Place {
  /** As kubectl prints it: `devices.disks[1].target.dev`, after the prefix that `walk` was given. */
  readonly path: string
  readonly key: string
  readonly value: unknown
  readonly field: Field
  /** The object that has the key, and its description. */
  readonly holder: { readonly [key: string]: unknown }
  readonly element: Element
}

/**
 * Visits every value of a domain that the description knows, parents before their children, in the order of the JSON: scalars, objects,
 * and each item of a list (the list itself is not visited). A visitor that gives back `false` keeps `walk` from going below.
 * What the description does not know, or what is of the wrong type, is passed over: `validateDomain` tells.
 * @param prefix put before each path, e.g. `spec.domain`
 */
export const walk = (domain: object, visit: (place: Place) => boolean | void, prefix = ''): void => {
  if (isRecord(domain)) walkElement(root, domain, prefix, visit)
}

/** The same for a part of a domain. */
const walkElement = (
  element: Element,
  holder: { readonly [key: string]: unknown },
  prefix: string,
  visit: (place: Place) => boolean | void,
): void => {
  const { keys } = shapeOf(element)
  for (const [key, value] of Object.entries(holder)) {
    const known = keys.get(key)
    if (!known) continue
    const { field, singleOf } = known
    const path = prefix === '' ? key : `${prefix}.${key}`
    const isList =
      Array.isArray(value) && (field.at === 'leaves' || (field.at === 'children' && singleOf === undefined))
    const items: [string, unknown][] = isList
      ? value.map((item, index) => [`${path}[${index}]`, item])
      : [[path, value]]
    for (const [itemPath, item] of items) {
      const goesOn = visit({ path: itemPath, key, value: item, field, holder, element })
      if (goesOn === false || (field.at !== 'child' && field.at !== 'children') || !isRecord(item)) continue
      walkElement(elementOf(field), item, itemPath, visit)
    }
  }
}

/** What the value of a field can touch. */
export const reachOf = (field: Field, value: unknown): Reach => {
  const { reach = 'guest', reachOf: byValue } = field
  return byValue && typeof value === 'string' && Object.hasOwn(byValue, value) ? (byValue[value] ?? reach) : reach
}
