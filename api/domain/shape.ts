import type { Attribute, Child, Children, Content, Element, Field, Foreign, Leaf, Leaves } from './description.ts'
import { xmlName } from './description.ts'

type Nested = Leaf | Leaves | Child | Children | Foreign

/** The fields of an element by their names in XML. */
export interface Shape {
  readonly attributes: ReadonlyMap<string, { readonly key: string; readonly field: Attribute }>
  readonly elements: ReadonlyMap<string, { readonly key: string; readonly field: Nested }>
  readonly content: { readonly key: string; readonly field: Content } | undefined
  /** Every key of the JSON, the second one of a list of one included. */
  readonly keys: ReadonlyMap<string, Field>
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
  const keys = new Map<string, Field>()
  let content: Shape['content']
  for (const [key, field] of Object.entries(element.fields)) {
    keys.set(key, field)
    if (field.at === 'content') content = { key, field }
    else if (field.at === 'attribute') attributes.set(xmlName(key, field), { key, field })
    else elements.set(xmlName(key, field), { key, field })
    if (field.at === 'children' && field.single !== undefined) keys.set(field.single, field)
  }
  return { attributes, elements, content, keys }
}
