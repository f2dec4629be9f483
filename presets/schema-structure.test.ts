import { describe, expect, test } from 'vitest'
import { clusterGadgetPreset, gadget, gadgetPreset, injectGadget, specOf } from '../test/presets/objects.ts'
import type { PlainSchema } from './schema.ts'
import { structureOf } from './schema-structure.ts'
import { structureAt } from './structure.ts'

type Given = { readonly [key: string]: unknown }

describe('an object of a kind with a schema', () => {
  test.each<[string, Given, Given, Given]>([
    ['absent fields are filled in', { size: 1 }, { size: 2, mode: 'Fast' }, { size: 1, mode: 'Fast' }],
    [
      'a map is merged by its keys',
      { options: { a: '1' } },
      { options: { a: '2', b: '3' } },
      { options: { a: '1', b: '3' } },
    ],
    ['an atomic object is one value', { place: { zone: 'a' } }, { place: { rack: '1' } }, { place: { zone: 'a' } }],
    ['an object with unknown fields is one value', { free: { a: 1 } }, { free: { b: 2 } }, { free: { a: 1 } }],
    [
      'unknown fields beside known ones are values',
      { half: { other: { a: 1 } } },
      { half: { known: 'x', other: { b: 2 } } },
      { half: { other: { a: 1 }, known: 'x' } },
    ],
    ['an object without fields is a value', {}, { empty: {} }, { empty: {} }],
    ['a set is a union of values', { words: ['a', '*'] }, { words: ['b', 'a'] }, { words: ['a', '*', 'b'] }],
    ['a list without a type is one value', { steps: ['a'] }, { steps: ['b'] }, { steps: ['a'] }],
    [
      'a list is merged by its key',
      { parts: [{ name: 'a', tags: ['x'] }] },
      { parts: [{ name: 'b' }, { name: 'a', weight: 1, tags: ['y'] }] },
      { parts: [{ name: 'a', tags: ['x', 'y'], weight: 1 }, { name: 'b' }] },
    ],
    [
      'the key * stands for every item',
      { parts: [{ name: 'a' }, { name: 'b', weight: 2 }] },
      { parts: [{ name: '*', weight: 1 }] },
      {
        parts: [
          { name: 'a', weight: 1 },
          { name: 'b', weight: 2 },
        ],
      },
    ],
    [
      'a key with a default can be missing',
      { ports: [{ number: 80 }] },
      {
        ports: [
          { number: 80, protocol: 'TCP', title: 'web' },
          { number: 80, protocol: 'UDP' },
        ],
      },
      {
        ports: [
          { number: 80, protocol: 'TCP', title: 'web' },
          { number: 80, protocol: 'UDP' },
        ],
      },
    ],
    [
      'a union is taken from one source',
      { source: { web: { url: 'u' } } },
      { source: { git: { url: 'v' } } },
      { source: { web: { url: 'u' } } },
    ],
    [
      'an embedded object has labels',
      { template: { kind: 'X', metadata: { labels: { a: '1' } } } },
      { template: { metadata: { labels: { b: '2' } } } },
      { template: { kind: 'X', metadata: { labels: { a: '1', b: '2' } } } },
    ],
  ])('%s', (_, spec, preset, result) => {
    expect(specOf(injectGadget(gadget(spec), [gadgetPreset('p', preset)]))).toEqual(result)
  })

  test.each<[string, Given, Given]>([
    ['quantities', { memory: '1Gi' }, { memory: '1024Mi' }],
    ['quantities as numbers', { memory: 2 }, { memory: '2' }],
    ['values of a set in another order', { words: ['a', 'b'] }, { words: ['b', 'a'] }],
    ['keys in another order', { place: { zone: 'a', rack: 'b' } }, { place: { rack: 'b', zone: 'a' } }],
  ])('%s are equal, so presets agree', (_, one, other) => {
    const injected = injectGadget(gadget({}), [gadgetPreset('a', one), gadgetPreset('b', other)])
    expect(injected.causes).toEqual([])
  })

  test('a port as a number is not one as a text', () => {
    const injected = injectGadget(gadget({}), [gadgetPreset('a', { port: 80 }), gadgetPreset('b', { port: '80' })])
    expect(specOf(injected)).toEqual([
      'spec.port: presets of one layer (namespace Default) and priority (0) disagree: "team/a" sets 80, "team/b" sets "80"',
    ])
  })

  test('all conflicts are reported, and what to do names the kind', () => {
    const injected = injectGadget(gadget({}), [
      gadgetPreset('a', { size: 1, parts: [{ name: 'x', weight: 1 }] }),
      gadgetPreset('b', { size: 2, parts: [{ name: 'x', weight: 2 }] }),
    ])
    expect(injected.causes.map(({ field }) => field)).toEqual(['spec.parts[0].weight', 'spec.size'])
    expect(injected.causes[0]?.suggestion).toMatch(/^set the field in the Gadget, or /)
  })

  test('an enforced value overrides, with a warning, and remove paths begin at the object', () => {
    const enforced = clusterGadgetPreset(
      'site',
      { mode: 'Safe' },
      {
        strength: 'Enforce',
        remove: ['spec.parts[name=debug]', 'spec.options[a]', 'metadata.labels[tmp]'],
      },
    )
    const given = gadget(
      { mode: 'Fast', parts: [{ name: 'debug' }, { name: 'main' }], options: { a: '1' } },
      {
        labels: { tmp: '1', app: 'x' },
      },
    )
    const injected = injectGadget(given, [enforced])
    expect(injected.object).toEqual(gadget({ mode: 'Safe', parts: [{ name: 'main' }] }, { labels: { app: 'x' } }))
    expect(injected.warnings).toContain('preset "site" changed spec.mode, which was "Fast"')
    expect([...injected.removed.keys()].toSorted()).toEqual(['metadata.labels.tmp', 'spec.options.a', 'spec.parts[0]'])
  })

  test('a path to remove finds an item whose key the API server will fill in, also one of a preset', () => {
    const remove = { strength: 'Enforce', remove: ['spec.ports[protocol=TCP]'] } as const
    const presets = [
      clusterGadgetPreset('site', undefined, remove),
      gadgetPreset('p', { ports: [{ number: 81 }, { number: 82, protocol: 'UDP' }] }),
    ]
    expect(specOf(injectGadget(gadget({ ports: [{ number: 80 }, { number: 80, protocol: 'UDP' }] }), presets))).toEqual(
      {
        ports: [
          { number: 80, protocol: 'UDP' },
          { number: 82, protocol: 'UDP' },
        ],
      },
    )
  })

  test('labels that presets add never make another one match', () => {
    const labelling = gadgetPreset('a', undefined, { metadata: { labels: { size: 'small' } } })
    const small = gadgetPreset('b', { size: 1 }, { selector: { matchLabels: { size: 'small' } } })
    const { object } = injectGadget(gadget({}), [labelling, small])
    expect(object).toEqual(gadget({}, { labels: { size: 'small' } }))
  })

  test('no preset sets the status or the identity', () => {
    const status = { ready: true }
    const given = { ...gadget({}), status }
    expect(injectGadget(given, [gadgetPreset('p', { size: 1 })]).object).toEqual({ ...gadget({ size: 1 }), status })
  })
})

describe('the structure of a field', () => {
  const string: PlainSchema = { type: 'string' }
  const properties = { a: string }
  const fieldOf = (field: PlainSchema) =>
    structureOf({ properties: { spec: { properties: { field }, type: 'object' } } })
  const at = (field: PlainSchema, ...path: string[]) => structureAt(fieldOf(field), ['spec', 'field', ...path])
  const open = { 'x-kubernetes-preserve-unknown-fields': true } as const
  const atomic = { 'x-kubernetes-map-type': 'atomic' } as const
  const isMap = { type: 'array', 'x-kubernetes-list-type': 'map' } as const

  test.each<[string, PlainSchema, readonly (string | undefined)[]]>([
    ['known fields', { type: 'object', properties }, ['object', 'leaf', undefined]],
    [
      'known fields beside a map',
      { type: 'object', properties, additionalProperties: string },
      ['object', 'leaf', undefined],
    ],
    ['a map', { type: 'object', additionalProperties: string }, ['object', 'leaf', 'leaf']],
    ['known and unknown fields', { type: 'object', properties, ...open }, ['object', 'leaf', 'leaf']],
    ['unknown fields', { type: 'object', isClosed: true, ...open }, ['leaf', undefined, undefined]],
    ['any fields', { type: 'object' }, ['leaf', undefined, undefined]],
    ['no fields', { type: 'object', isClosed: true }, ['object', undefined, undefined]],
    ['fields that a patch replaces', { type: 'object', properties, retainsKeys: true }, ['leaf', undefined, undefined]],
    ['fields that are one value', { type: 'object', properties, ...atomic }, ['leaf', undefined, undefined]],
    ['an embedded object', { isEmbedded: true, properties }, ['object', 'leaf', 'leaf']],
    ['a list of one value', { type: 'array', items: string }, ['leaf', undefined, undefined]],
    [
      'a list whose keys are unknown',
      { ...isMap, items: { type: 'object', properties } },
      ['leaf', undefined, undefined],
    ],
    ['a list of texts with keys', { ...isMap, items: string, mergeKey: 'a' }, ['leaf', undefined, undefined]],
    [
      'a list of objects',
      { ...isMap, items: { type: 'object', properties }, mergeKey: 'a' },
      ['list', undefined, undefined],
    ],
  ])('with %s', (_, field, kinds) => {
    expect([at(field)?.kind, at(field, 'a')?.kind, at(field, 'b')?.kind]).toEqual(kinds)
  })

  test('an embedded object has labels', () => {
    const embedded: PlainSchema = { isEmbedded: true, properties }
    expect([at(embedded, 'metadata')?.kind, at(embedded, 'metadata', 'labels', 'x')?.kind]).toEqual(['object', 'leaf'])
  })

  test('an item of which a patch replaces the fields is a union of all fields but its key', () => {
    const item: PlainSchema = { type: 'object', properties: { name: string, disk: string, claim: string } }
    const owned = (more: PlainSchema) => {
      const list = at({ ...isMap, items: item, mergeKey: 'name', ...more })
      const union = list?.kind === 'list' && list.item.kind === 'object' ? list.item.union : undefined
      return ['name', 'disk', 'claim'].map((key) => union?.owns(key))
    }
    expect(owned({ retainsKeys: true })).toEqual([false, true, true])
    expect(owned({})).toEqual([undefined, undefined, undefined])
  })

  test.each<[string, PlainSchema, unknown, readonly string[]]>([
    ['a quantity', { isQuantity: true }, '1Gi', []],
    ['a number as a quantity', { isQuantity: true }, 5, []],
    ['a text that is not a quantity', { isQuantity: true }, '1 GB', ['must be a quantity, e.g. 1Gi']],
    ['a list of quantities', { isQuantity: true }, ['1'], ['must be a quantity, e.g. 1Gi']],
    ['a known field', { type: 'object', properties, ...atomic }, { a: 'x' }, []],
    ['an unknown field', { type: 'object', properties, ...atomic }, { b: 1 }, ['there is no such field']],
    ['an unknown field of an open object', { type: 'object', properties, ...atomic, ...open }, { b: 1 }, []],
    [
      'a known field of an open object',
      { type: 'object', properties, ...atomic, ...open },
      { a: 1 },
      ['must be a string, not a number'],
    ],
    ['a field of an object with unknown fields', { type: 'object', ...open }, { b: 1 }, []],
  ])('%s is checked', (_, field, value, messages) => {
    const found = at(field)
    const causes = found?.kind === 'leaf' ? found.check?.(value, 'f') : undefined
    expect(causes?.map(({ message }) => message)).toEqual(messages)
  })

  test('presets set neither the status nor what identifies the object', () => {
    const { keys } = structureOf({ properties: { apiVersion: string, kind: string, status: string, spec: string } })
    expect(keys()).toEqual(['metadata', 'spec'])
  })

  test('60 levels of two each take as long as 60 fields', () => {
    let deep: PlainSchema = string
    for (let level = 0; level < 60; level++) deep = { type: 'object', properties: { a: deep, b: deep } }
    expect(at(deep, 'a', 'b')?.kind).toBe('object')
  })
})
