import fc from 'fast-check'

type Given = { readonly [key: string]: unknown }

/** A part of a structural schema, and values that conform to it. */
export interface Shape {
  readonly schema: Given
  readonly values: fc.Arbitrary<unknown>
}

const pick = <T>(...values: T[]) => fc.constantFrom(...values)
const words = pick('a', 'b', 'c')
const text: Shape = { schema: { type: 'string' }, values: words }

const scalars: readonly Shape[] = [
  text,
  { schema: { type: 'integer' }, values: pick(1, 2) },
  { schema: { type: 'boolean' }, values: fc.boolean() },
  { schema: { 'x-kubernetes-int-or-string': true }, values: pick<unknown>(80, '80') },
  { schema: { type: 'string', format: 'quantity' }, values: pick<unknown>('1Gi', '1024Mi', '2', 2) },
]

const wholes: readonly Shape[] = [
  { schema: { type: 'array', items: text.schema }, values: fc.array(words, { maxLength: 2 }) },
  {
    schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    values: fc.dictionary(words, words, { maxKeys: 2 }),
  },
  {
    schema: { type: 'object', properties: { a: text.schema, b: text.schema }, 'x-kubernetes-map-type': 'atomic' },
    values: fc.record({ a: words, b: words }, { requiredKeys: [] }),
  },
]

const mapOf = ({ schema, values }: Shape): Shape => ({
  schema: { type: 'object', additionalProperties: schema },
  values: fc.dictionary(pick('x', 'y/z', '__proto__'), values, { maxKeys: 2 }),
})

const setOf = (): Shape => ({
  schema: { type: 'array', items: text.schema, 'x-kubernetes-list-type': 'set' },
  values: fc.uniqueArray(words, { maxLength: 3 }),
})

const objectOf = (fields: { readonly [key: string]: Shape }): Shape => ({
  schema: {
    type: 'object',
    properties: Object.fromEntries(Object.entries(fields).map(([key, { schema }]) => [key, schema])),
  },
  values: fc.record(Object.fromEntries(Object.entries(fields).map(([key, { values }]) => [key, values])), {
    requiredKeys: [],
  }),
})

const keyedListOf = (fields: { readonly [key: string]: Shape }): Shape => {
  const item = objectOf({ ...fields, key: text })
  const values = fc.record(
    { ...Object.fromEntries(Object.entries(fields).map(([key, one]) => [key, one.values])), key: words },
    { requiredKeys: ['key'] },
  )
  return {
    schema: {
      type: 'array',
      items: { ...item.schema, required: ['key'] },
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['key'],
    },
    values: fc.uniqueArray(values, { maxLength: 3, selector: ({ key }) => key }),
  }
}

const unionOf = (fields: { readonly [key: string]: Shape }): Shape => {
  const plain = objectOf(fields)
  const kinds = Object.entries(fields)
  return {
    schema: { ...plain.schema, oneOf: kinds.map(([key]) => ({ required: [key] })) },
    values: fc.oneof(...kinds.map(([key, { values }]) => values.map((value) => ({ [key]: value })))),
  }
}

const { shape } = fc.letrec<{ shape: Shape; fields: { [key: string]: Shape } }>((tie) => ({
  fields: fc.dictionary(pick('a', 'b', 'c', 'd'), tie('shape'), { minKeys: 2, maxKeys: 3 }),
  shape: fc.oneof(
    { depthSize: 'xsmall', withCrossShrink: true },
    pick(...scalars, ...wholes, setOf()),
    tie('shape').map(mapOf),
    tie('fields').map(objectOf),
    tie('fields').map(keyedListOf),
    tie('fields').map(unionOf),
  ),
}))

/** The spec of a kind with any fields. */
export const specShape: fc.Arbitrary<Shape> = fc
  .dictionary(pick('one', 'two', 'three'), shape, { minKeys: 1, maxKeys: 3 })
  .map(objectOf)
