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
