import { defaultMaxItems } from './limits.ts'
import type { Reach } from './reach.ts'
import type { Scalar, ScalarInput } from './scalar.ts'

interface Described {
  /** The name in libvirt's XML if it differs from the JSON key; see `xmlName`. */
  readonly xml?: string
  readonly description: string
  /** `guest` if absent. Not inherited: an element that reaches the host sets it on each such field. */
  readonly reach?: Reach
  /** The reach of each value whose reach differs from `reach`, e.g. of the interface types `user` and `bridge`. */
  readonly reachOf?: { readonly [value: string]: Reach }
  /**
   * Set if the field decides what is done to a file or device of the node beside it, such as whether the guest can write
   * to it. Then it is a part of its grant. The values, as text, are those that do no more than the default, which anyone
   * can set unless a granting preset states another one; `'*'` is any value.
   */
  readonly ofGrant?: readonly string[]
  /** Reported by libvirt while the VM runs. libvirt does not store a value that a user sets. */
  readonly live?: true
}

/** An attribute of the XML element. */
export interface Attribute<S extends Scalar = Scalar> extends Described {
  readonly at: 'attribute'
  readonly scalar: S
}

/** The element's own text, beside attributes or child elements. */
export interface Content<S extends Scalar = Scalar> extends Described {
  readonly at: 'content'
  readonly scalar: S
}

/** A child element that contains only text. Its JSON is the text. */
export interface Leaf<S extends Scalar = Scalar> extends Described {
  readonly at: 'leaf'
  readonly scalar: S
}

/** A repeatable child element that contains only text. Its JSON is a list of scalars. */
export interface Leaves<S extends Scalar = Scalar> extends Described {
  readonly at: 'leaves'
  readonly scalar: S
  readonly maxItems?: number
  readonly whole?: true
}

/** A child element that occurs at most once. */
export interface Child<E extends Element = Element> extends Described {
  readonly at: 'child'
  /** A function if elements are recursive (a backing store contains a backing store). */
  readonly element: E | (() => E)
}

/** A repeatable child element. Its JSON is a list. */
export interface Children<
  E extends Element = Element,
  S extends string | undefined = string | undefined,
> extends Described {
  readonly at: 'children'
  readonly element: E | (() => E)
  /**
   * Identifies an item when presets are merged. Each alternative is a list of paths inside the item, e.g.
   * `[['alias.name'], ['mac.address']]`; the first alternative that both items have decides. If absent, items are
   * compared as a whole.
   */
  readonly key?: readonly (readonly string[])[]
  /** The child of an item that has the key of another one because it is a part of that: presets mean the other one. */
  readonly partOf?: string
  /** The order of the items is significant: presets set the list as a whole or not at all. */
  readonly whole?: true
  /** The maximum number of items; `defaultMaxItems` if absent. */
  readonly maxItems?: number
  /**
   * The short key for a list of one, e.g. `host` for `hosts`. Both are accepted; a single item is written under this
   * key.
   */
  readonly single?: S
}

/** Any XML, stored as a string (`<metadata>` of applications). */
export interface Foreign extends Described {
  readonly at: 'foreign'
}

export type Field = Attribute | Content | Leaf | Leaves | Child | Children | Foreign
export type Fields = { readonly [key: string]: Field }

/** The attribute that decides the meaning of other fields. Presets set the fields that it owns as a whole. */
export interface Union {
  readonly by: string
  readonly owns: readonly string[]
  /** For each value of the deciding attribute, the paths in `owns` that are valid with it. */
  readonly branches?: { readonly [value: string]: readonly string[] }
}

export interface Element<F extends Fields = Fields> {
  readonly description: string
  /** JSON key → field, in the order in which libvirt writes them. */
  readonly fields: F
  readonly union?: Union
  /** One value in several fields (`{unit, value}`): presets set it as a whole or not at all. */
  readonly whole?: true
  /** Set if the element contains a size with a unit. */
  readonly scale?: Scale
}

/** A number in one field whose unit is in another field. */
export interface Scale {
  readonly value: string
  readonly unit: string
  /** The unit of a number without a unit. */
  readonly absent: SizeUnit
  /** The unit in which libvirt writes it, rounded up; `largest`: the largest unit without a fraction. */
  readonly to: SizeUnit | 'largest'
}

export type SizeUnit = 'bytes' | 'B' | 'KiB' | 'M' | 'MiB' | 'GiB'

/** The JSON that a user may write for an element or field. Everything is optional; rules check what is required. */
export type Json<T> =
  T extends Element<infer F>
    ? { -readonly [K in keyof F]?: Json<F[K]> } & {
        -readonly [K in keyof F as F[K] extends { single?: infer S extends string } ? S : never]?: Json<
          F[K]
        > extends (infer I)[]
          ? I
          : never
      }
    : T extends { at: 'attribute' | 'content' | 'leaf'; scalar: infer S extends Scalar }
      ? ScalarInput<S>
      : T extends { at: 'leaves'; scalar: infer S extends Scalar }
        ? ScalarInput<S>[]
        : T extends { at: 'child'; element: infer E }
          ? E extends () => infer R
            ? Json<R>
            : Json<E>
          : T extends { at: 'children'; element: infer E }
            ? (E extends () => infer R ? Json<R> : Json<E>)[]
            : T extends { at: 'foreign' }
              ? string
              : never

type Options = {
  xml?: string
  reach?: Reach
  reachOf?: { readonly [value: string]: Reach }
  ofGrant?: readonly string[]
  live?: true
}

export const element = <const F extends Fields>(
  description: string,
  fields: F,
  options: { union?: Union; whole?: true; scale?: Scale } = {},
): Element<F> => ({ description, fields, ...options })

export const attribute = <S extends Scalar>(scalar: S, description: string, options: Options = {}): Attribute<S> => ({
  at: 'attribute',
  scalar,
  description,
  ...options,
})

export const content = <S extends Scalar>(scalar: S, description: string, options: Options = {}): Content<S> => ({
  at: 'content',
  scalar,
  description,
  ...options,
})

export const leaf = <S extends Scalar>(scalar: S, description: string, options: Options = {}): Leaf<S> => ({
  at: 'leaf',
  scalar,
  description,
  ...options,
})

export const leaves = <S extends Scalar>(
  xml: string,
  scalar: S,
  description: string,
  options: { reach?: Reach; maxItems?: number; whole?: true } = {},
): Leaves<S> => ({ at: 'leaves', xml, scalar, description, ...options })

export const child = <E extends Element>(of: E | (() => E), description: string, options: Options = {}): Child<E> => ({
  at: 'child',
  element: of,
  description,
  ...options,
})

/** `xml` is the name of one such element, e.g. `disk` for the list `disks`. */
export const children = <E extends Element, const S extends string | undefined = undefined>(
  xml: string,
  of: E | (() => E),
  description: string,
  options: Pick<Children<E, S>, 'reach' | 'key' | 'partOf' | 'whole' | 'maxItems' | 'single'> = {},
): Children<E, S> => ({ at: 'children', xml, element: of, description, ...options })

export const foreign = (description: string, options: Options = {}): Foreign => ({
  at: 'foreign',
  description,
  ...options,
})

/** An empty element whose presence is its meaning: `{}` in JSON. */
export const present = (description: string, options: Options = {}): Child<Element<Record<never, Field>>> =>
  child(element(description, {}), description, options)

/** The maximum number of items of a list. */
export const maxItemsOf = ({ maxItems = defaultMaxItems }: Children | Leaves): number => maxItems

/** The element's name in XML: `xml` of the description, otherwise the key. */
export const xmlName = (key: string, field: Field): string => field.xml ?? key

export const elementOf = (field: Child | Children): Element =>
  typeof field.element === 'function' ? field.element() : field.element
