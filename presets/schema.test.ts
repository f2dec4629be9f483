import { describe, expect, test } from 'vitest'
import { readSchema } from './schema.ts'

type Given = { readonly [key: string]: unknown }

const structural = (schema: unknown) => readSchema(schema, { isStructural: true })
const referring = (schema: unknown, components: Given) => readSchema(schema, { components })
const to = (name: string): Given => ({ $ref: `#/components/schemas/${name}` })

describe('a schema without references', () => {
  test.each<[string, Given, Given]>([
    ['a text', { type: 'string', enum: ['a'], pattern: '(a+)+$' }, { type: 'string', enum: ['a'] }],
    ['a number', { type: 'integer', format: 'int32', minimum: 1 }, { type: 'integer', minimum: 1 }],
    ['an int-or-string', { format: 'int-or-string', type: 'string' }, { 'x-kubernetes-int-or-string': true }],
    [
      'a quantity of controller-gen',
      {
        anyOf: [{ type: 'integer' }, { type: 'string' }],
        pattern:
          '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$',
        'x-kubernetes-int-or-string': true,
      },
      { isQuantity: true },
    ],
    [
      'a map',
      { type: 'object', additionalProperties: { type: 'string' } },
      { type: 'object', additionalProperties: { type: 'string' } },
    ],
    [
      'a list with patch keys',
      {
        type: 'array',
        items: {},
        'x-kubernetes-patch-strategy': 'merge,retainKeys',
        'x-kubernetes-patch-merge-key': 'name',
      },
      { type: 'array', items: {}, 'x-kubernetes-list-type': 'map', mergeKey: 'name', retainsKeys: true },
    ],
    [
      'a list that is patched without a key',
      { type: 'array', items: { type: 'string' }, 'x-kubernetes-patch-strategy': 'merge' },
      { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
    ],
    [
      'a union',
      { type: 'object', oneOf: [{ required: ['a'] }, { required: ['b'] }] },
      { type: 'object', oneOf: [{ required: ['a'] }, { required: ['b'] }] },
    ],
    ['a choice that is not a union', { type: 'object', oneOf: [{ required: ['a', 'b'] }, {}] }, { type: 'object' }],
    ['the empty value of a built-in kind', { type: 'integer', default: 0 }, { type: 'integer' }],
    ['a default', { type: 'string', default: 'TCP' }, { type: 'string', filledIn: 'TCP' }],
    ['any value', { type: 'array', items: true }, { type: 'array', items: {} }],
    ['an unknown type', { type: 'any' }, {}],
    ['words beside other values', { type: 'string', enum: ['a', 1] }, { type: 'string', enum: ['a'] }],
    ['values that are not words', { type: 'boolean', enum: [true] }, { type: 'boolean' }],
    ['a limit that is not a number', { minimum: '1', maximum: 5, maxItems: 2 }, { maximum: 5, maxItems: 2 }],
    ['a quantity of an API server', { type: 'string', format: 'quantity' }, { isQuantity: true }],
    [
      'an int-or-string of a CRD with a default',
      { 'x-kubernetes-int-or-string': true, default: 80 },
      { 'x-kubernetes-int-or-string': true, filledIn: 80 },
    ],
    [
      'required fields',
      { type: 'object', properties: { a: { type: 'string' } }, required: ['a', 1, 'b'] },
      { type: 'object', properties: { a: { type: 'string' } }, required: ['a', 'b'] },
    ],
    ['a map of anything', { type: 'object', additionalProperties: true }, { type: 'object', additionalProperties: {} }],
    ['an object without other fields', { type: 'object', additionalProperties: false }, { type: 'object' }],
    [
      'an object with unknown fields',
      { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    ],
    [
      'an object that is one value',
      { type: 'object', 'x-kubernetes-map-type': 'atomic' },
      { type: 'object', 'x-kubernetes-map-type': 'atomic' },
    ],
    [
      'an object that is merged by its fields',
      { type: 'object', 'x-kubernetes-map-type': 'granular', 'x-kubernetes-preserve-unknown-fields': false },
      { type: 'object' },
    ],
    [
      'an embedded object',
      { type: 'object', 'x-kubernetes-embedded-resource': true },
      { type: 'object', isEmbedded: true },
    ],
    [
      'an object of which a patch replaces the fields',
      { type: 'object', 'x-kubernetes-patch-strategy': 'retainKeys' },
      { type: 'object', retainsKeys: true },
    ],
    [
      'a list with keys',
      { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['a', 1] },
      { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['a'] },
    ],
    [
      'a list whose type contradicts its patch strategy',
      { 'x-kubernetes-list-type': 'atomic', 'x-kubernetes-patch-strategy': 'merge' },
      { 'x-kubernetes-list-type': 'atomic' },
    ],
    ['a set', { 'x-kubernetes-list-type': 'set' }, { 'x-kubernetes-list-type': 'set' }],
    ['a list of an unknown type', { type: 'array', 'x-kubernetes-list-type': 'bag' }, { type: 'array' }],
    ['a list that a patch replaces', { type: 'array', 'x-kubernetes-patch-strategy': 'replace' }, { type: 'array' }],
    [
      'a union whose members repeat their fields',
      { oneOf: [{ required: ['a'], properties: { a: {} } }, { required: ['b'] }] },
      { oneOf: [{ required: ['a'] }, { required: ['b'] }] },
    ],
    ['a union of one member', { oneOf: [{ required: ['a'] }] }, {}],
    ['a choice with a condition', { oneOf: [{ required: ['a'], minProperties: 1 }, { required: ['b'] }] }, {}],
    ['a choice of any value', { oneOf: [{ required: ['a'] }, { required: ['b'] }, true] }, {}],
    ['the empty object of a built-in kind', { type: 'object', default: {} }, { type: 'object' }],
    ['an object as a default', { type: 'object', default: { a: 1 } }, { type: 'object', filledIn: { a: 1 } }],
  ])('%s', (_, given, schema) => expect(readSchema(given)).toEqual({ schema }))

  test('of a CRD can have an empty default, and does not require what it fills in', () => {
    const given = {
      type: 'object',
      properties: { a: { type: 'integer', default: 0 }, b: { type: 'integer' } },
      required: ['a', 'b'],
    }
    expect(structural(given)).toEqual({
      schema: {
        type: 'object',
        isClosed: true,
        required: ['b'],
        properties: { a: { type: 'integer', isClosed: true, filledIn: 0 }, b: { type: 'integer', isClosed: true } },
      },
    })
  })
})

describe('references', () => {
  test('are replaced, each component once', () => {
    const read = referring(
      { type: 'object', properties: { one: to('Port'), other: { allOf: [to('Port')], default: {} } } },
      { Port: { type: 'object', properties: { name: { type: 'string' } } } },
    )
    const { properties } = ('schema' in read ? read.schema : {}) as { properties: Given }
    expect(properties['one']).toEqual({ type: 'object', properties: { name: { type: 'string' } } })
    expect(properties['other']).toBe(properties['one'])
  })

  const port = { type: 'object', properties: { name: { type: 'string' } } }

  test.each<[string, Given, Given]>([
    ['beside a default', { allOf: [to('Port')], default: { name: 'web' } }, { ...port, filledIn: { name: 'web' } }],
    ['beside fields, which do not count', { ...to('Port'), type: 'string', properties: { a: {} } }, port],
    ['to a quantity', to('io.k8s.apimachinery.pkg.api.resource.Quantity'), { isQuantity: true }],
    ['to several components are none', { allOf: [to('Port'), to('Port')] }, {}],
    ['that are not texts are none', { $ref: 1, type: 'string' }, { type: 'string' }],
  ])('%s', (_, given, schema) => {
    const components = { Port: port, 'io.k8s.apimachinery.pkg.api.resource.Quantity': { type: 'string' } }
    expect(referring(given, components)).toEqual({ schema })
  })

  test('of 60 levels of two each take as long as 60 components', () => {
    const level = (at: number) => ({ type: 'object', properties: { a: to(`L${at + 1}`), b: to(`L${at + 1}`) } })
    const components = Object.fromEntries([
      ...Array.from({ length: 60 }, (_, at) => [`L${at}`, level(at)] as const),
      ['L60', { type: 'string' }],
    ])
    expect(referring(to('L0'), components)).toHaveProperty('schema.properties.a.properties.b.type', 'object')
  })

  test.each<[string, unknown, Given, string]>([
    [
      'to itself',
      to('Tree'),
      { Tree: { type: 'object', properties: { below: { type: 'array', items: to('Tree') } } } },
      'below[*] is recursive: Tree contains itself',
    ],
    [
      'to each other',
      to('A'),
      { A: { type: 'object', properties: { b: to('B') } }, B: { type: 'object', properties: { a: to('A') } } },
      'b.a is recursive: A contains itself',
    ],
    ['to nothing', to('A'), {}, ' refers to A, which is not in the document'],
    ['to a file', { $ref: 'a.json' }, {}, ' must refer to a component, not to a.json'],
    ['to a key of the prototype', to('constructor'), {}, ' refers to constructor, which is not in the document'],
    ['to no schema', { properties: { a: 1 } }, {}, 'a must be a schema'],
  ])('%s are refused', (_, given, components, text) => {
    const read = referring(given, components)
    expect('causes' in read && read.causes.map(({ field, message }) => `${field} ${message}`)).toEqual([text])
  })

  test('64 levels are read', () => {
    let deep: Given = { type: 'string' }
    for (let level = 0; level < 64; level++) deep = { type: 'array', items: deep }
    expect(readSchema(deep)).toHaveProperty('schema')
    expect(readSchema({ type: 'array', items: deep })).not.toHaveProperty('schema')
  })

  test('and nesting without end are refused, not followed', () => {
    let deep: Given = { type: 'string' }
    for (let level = 0; level < 1000; level++) deep = { type: 'object', properties: { a: deep } }
    expect(readSchema(deep)).toMatchObject({ causes: [{ message: 'must not nest deeper than 64 levels' }] })
  })

  test('and components that are only references to others without end are refused, not followed', () => {
    const chain = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`L${at}`, to(`L${at + 1}`)]))
    expect(referring(to('L0'), chain)).toMatchObject({
      causes: [{ message: 'must not refer through more than 64 components' }],
    })
  })
})

test('a key __proto__ is a field like any other', () => {
  const given: unknown = JSON.parse('{"type": "object", "properties": {"__proto__": {"type": "string"}}}')
  const read = readSchema(given)
  expect('schema' in read && Object.keys(read.schema.properties ?? {})).toEqual(['__proto__'])
})
