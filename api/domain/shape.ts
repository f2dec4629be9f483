import type { Attribute, Child, Children, Content, Element, Field, Foreign, Leaf, Leaves } from './description.ts'
import { xmlName } from './description.ts'

type Nested = Leaf | Leaves | Child | Children | Foreign

/** The fields of an element by their names. */
export interface Shape {
  /** By the names in XML. */
  readonly attributes: ReadonlyMap<string, { readonly key: string; readonly field: Attribute }>
  readonly elements: ReadonlyMap<string, { readonly key: string; readonly field: Nested }>
  readonly content: { readonly key: string; readonly field: Content } | undefined
  /** The lists that have a short form for one item: their keys, and that of the short form. */
  readonly singles: readonly (readonly [list: string, single: string])[]
  /** By the keys of the JSON. */
  readonly keys: ReadonlyMap<string, KnownKey>
  readonly scale: Element['scale']
}

export interface KnownKey {
  readonly field: Field
  /** Its place in the order of the description. */
  readonly place: number
  /** The key is the short form for a list of one, whose full key is this one. */
  readonly singleOf?: string
}

const shapes = new WeakMap<Element, Shape>()

/** Made once for each element, when it is first met. */
export const shapeOf = (element: Element): Shape => {
  const known = shapes.get(element)
  if (known) return known
  const shape = derive(element)
  shapes.set(element, shape)
  return shape
}

const derive = (element: Element): Shape => {
  const attributes = new Map<string, { key: string; field: Attribute }>()
  const elements = new Map<string, { key: string; field: Nested }>()
  const keys = new Map<string, KnownKey>()
  const singles: (readonly [string, string])[] = []
  let content: Shape['content']
  for (const [key, field] of Object.entries(element.fields)) {
    const place = keys.size
    keys.set(key, { field, place })
    if (field.at === 'content') content = { key, field }
    else if (field.at === 'attribute') attributes.set(xmlName(key, field), { key, field })
    else elements.set(xmlName(key, field), { key, field })
    if (field.at !== 'children' || field.single === undefined) continue
    keys.set(field.single, { field, place, singleOf: key })
    singles.push([key, field.single])
  }
  return { attributes, elements, content, singles, keys, scale: element.scale }
}

/** The keys of an object in the order of the description; those that it does not know come last. */
export const orderedKeys = (shape: Shape, json: object): string[] => {
  const keys = Object.keys(json)
  const places: number[] = []
  for (const key of keys) {
    const place = shape.keys.get(key)?.place ?? Infinity
    // An insertion sort in place: the items are few, and most are in order.
    let at = places.length
    for (; at > 0 && (places[at - 1] ?? 0) > place; at -= 1) {
      keys[at] = keys[at - 1] ?? ''
      places[at] = places[at - 1] ?? 0
    }
    keys[at] = key
    places[at] = place
  }
  return keys
}
