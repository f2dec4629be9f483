import type { Attribute, Child, Children, Content, Element, Field, Foreign, Leaf, Leaves } from './description.ts'
import { xmlName } from './description.ts'

type Nested = Leaf | Leaves | Child | Children | Foreign

/** Lookup tables for the fields of an element. */
export interface Shape {
  /** By XML name. */
  readonly attributes: ReadonlyMap<string, { readonly key: string; readonly field: Attribute }>
  readonly elements: ReadonlyMap<string, { readonly key: string; readonly field: Nested }>
  readonly content: { readonly key: string; readonly field: Content } | undefined
  /** The lists with a short form for one item: the keys of the list and of the short form. */
  readonly singles: readonly (readonly [list: string, single: string])[]
  /** By JSON key. */
  readonly keys: ReadonlyMap<string, KnownKey>
  readonly scale: Element['scale']
}

export interface KnownKey {
  readonly field: Field
  /** The position in the order of the description. */
  readonly place: number
  /** If the key is the short form for a list of one: the key of the list. */
  readonly singleOf?: string
}

const shapes = new WeakMap<Element, Shape>()

/** Derives the shape of an element, once. */
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

/** The keys of an object in the order of the description, unknown keys last. */
export const orderedKeys = (shape: Shape, json: object): string[] => {
  const keys = Object.keys(json)
  const places: number[] = []
  for (const key of keys) {
    const place = shape.keys.get(key)?.place ?? Infinity
    // An insertion sort in place: there are few keys, and most are in order.
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
