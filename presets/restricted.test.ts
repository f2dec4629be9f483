import { expect, test } from 'vitest'
import { team } from '../test/presets/make.ts'
import { gadgetCrd, gadgetPreset } from '../test/presets/objects.ts'
import { createCandidates } from './candidates.ts'
import { injectInto } from './inject.ts'
import { kindsIn } from './object-kind.ts'
import { restrictedPathCauses, restrictedUses, restrictedWarnings } from './restricted.ts'
import type { PlainSchema } from './schema.ts'
import { structureOf } from './schema-structure.ts'

const any: PlainSchema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
const some = (properties: { readonly [key: string]: PlainSchema }): PlainSchema => ({ type: 'object', properties })
const item = some({ name: {}, level: {}, security: some({ level: {} }) })
const spec: PlainSchema = some({
  host: {},
  hosts: {},
  x: {},
  a: some({ b: {}, c: {} }),
  list: { type: 'array', items: item, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
  atomic: { type: 'array', items: item },
  map: { type: 'object', additionalProperties: some({ level: {} }) },
  free: any,
  source: { ...some({ git: any, web: any, size: {} }), oneOf: [{ required: ['git'] }, { required: ['web'] }] },
})
const structure = structureOf(some({ spec }))

const restricted = ['spec.host', 'spec.list[*].security.level', 'metadata.annotations[a/b]', 'spec.a', 'spec.a.b']
const wide = [
  'spec.atomic[*].security',
  'spec.map[*].level',
  'spec.free.secure',
  'spec.source.git.url',
  'metadata.labels[*]',
]

test.each<[string, object, readonly string[], readonly string[]]>([
  ['the field itself', { spec: { host: true } }, [], ['spec.object.spec.host']],
  ['a field below it', { spec: { a: { c: 1 } } }, [], ['spec.object.spec.a']],
  [
    'a field of any item',
    { spec: { list: [{}, { security: { level: 1 } }] } },
    [],
    ['spec.object.spec.list[1].security.level'],
  ],
  ['a key of a map', { metadata: { annotations: { 'a/b': 'x' } } }, [], ['spec.object.metadata.annotations[a/b]']],
  ['its neighbours', { spec: { hosts: 1, list: [{ security: {} }, { level: 1 }] } }, [], []],
  ['a removal', {}, ['spec.host'], ['spec.remove[0]']],
  ['a removal below it', {}, ['spec.host.x'], ['spec.remove[0]']],
  ['a removal above it', {}, ['spec.x', 'spec.list[name=y].security'], ['spec.remove[1]']],
  ['a removal of its item', {}, ['spec.list[0]'], ['spec.remove[0]']],
  ['a removal of the key of its item, and so of the item', {}, ['spec.list[0].name'], ['spec.remove[0]']],
  ['a removal of a neighbour', {}, ['spec.list[0].level', 'spec.list[0].other', 'status'], []],
  ['a removal of the key of another item', {}, ['spec.parts[0].name'], []],
  ['a removal that cannot be parsed', {}, ['spec..host'], []],
])('uses of restricted fields: %s', (_, object, remove, fields) => {
  expect(restrictedUses({ object: object as never, remove }, restricted, structure).map(({ field }) => field)).toEqual(
    fields,
  )
})

test.each<[string, object, readonly string[]]>([
  ['a list without keys, which replaces its items', { spec: { atomic: [{ name: 'x' }] } }, ['spec.object.spec.atomic']],
  ['any key of a map', { spec: { map: { k: { level: 1 }, l: {} } } }, ['spec.object.spec.map.k.level']],
  ['any label', { metadata: { labels: { a: 'b' } } }, ['spec.object.metadata.labels.a']],
  ['a value without known fields', { spec: { free: { other: 1 } } }, ['spec.object.spec.free']],
  ['another branch of a union', { spec: { source: { web: {} } } }, ['spec.object.spec.source']],
  ['the same branch of a union', { spec: { source: { git: {} } } }, ['spec.object.spec.source.git']],
  ['a neighbour of a union', { spec: { source: { size: 1 } } }, []],
])('an enforced value can replace a restricted field: %s', (_, object, fields) => {
  const uses = restrictedUses({ object: object as never }, wide, structure)
  expect(uses.map(({ field }) => field)).toEqual(fields)
})

test('another branch of a union does not replace a restricted field beside the union', () => {
  const object = { spec: { source: { web: {} } } }
  expect(restrictedUses({ object }, ['spec.source.size'], structure)).toEqual([])
})

test.each<[string, string, readonly string[]]>([
  ['the branch of its union', 'spec.sources[0].git', ['spec.remove[0]']],
  ['all of that branch', 'spec.sources[name=a].git.url', ['spec.remove[0]']],
  ['one of its keys', 'spec.sources[0].zone', ['spec.remove[0]']],
  ['another field', 'spec.sources[0].weight', []],
])('to remove %s removes an item, with the restricted field in it', (_, remove, fields) => {
  const branches = { git: some({ url: {} }), web: some({ url: {} }) }
  const source = {
    ...some({ name: {}, zone: {}, size: {}, weight: {}, ...branches }),
    oneOf: spec.properties?.['source']?.oneOf,
  }
  const keys = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name', 'zone'] } as const
  const sources = structureOf(
    some({ spec: some({ sources: { type: 'array', items: source as PlainSchema, ...keys } }) }),
  )
  expect(restrictedUses({ remove: [remove] }, ['spec.sources[*].size'], sources).map(({ field }) => field)).toEqual(
    fields,
  )
})

test('any key of a map can be removed by name', () => {
  const remove = ['spec.map[k].level', 'spec.map.k', 'metadata.labels[a/b]', 'spec.free.other']
  expect(restrictedUses({ remove }, wide, structure).map(({ path }) => path)).toEqual(remove.slice(0, 3))
})

// What another webhook or the defaults of the kind have set is below a preset of strength Default.
test('a preset of strength Default replaces another branch of a union that the user has not written', () => {
  const object = { spec: { source: { web: {} } } }
  const sent = { metadata: { name: 'x' }, spec: { source: { git: {} } } }
  const preset = gadgetPreset('p', object.spec)
  const written = { metadata: sent.metadata }
  const kind = { structure, noun: 'Thing', removesBelow: [], pairsVolumes: false }
  const injected = injectInto(sent, kind, { presets: createCandidates([preset]), namespace: team, written })
  expect(injected.object).toMatchObject(object)
  expect(restrictedUses({ object }, wide, structure).map(({ field }) => field)).toEqual(['spec.object.spec.source'])
})

const read = kindsIn(gadgetCrd)?.get('Gadget of example.com/v1')?.()
if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
const gadget = read.kind.structure

test.each<[string, string, string | undefined, string?]>([
  ['a field', 'spec.size', undefined],
  ['an object', 'spec.place', undefined],
  ['a field of any item', 'spec.parts[*].weight', undefined],
  ['every item', 'spec.words[*]', undefined],
  ['a whole list', 'spec.parts', undefined],
  ['a field in a value of any form', 'spec.free.anything[0]', undefined],
  ['a key of a map', 'metadata.labels[example.com/a]', undefined],
  ['a misspelled field', 'spec.sise', 'there is no field sise', 'did you mean "size"?'],
  ['a field like no other', 'spec.warehouse', 'there is no field warehouse'],
  ['a misspelled field of any item', 'spec.parts[*].weigt', 'there is no field weigt', 'did you mean "weight"?'],
  ['one item', 'spec.parts[0].weight', 'needs [*] in place of 0'],
  ['an item by its name', 'spec.parts.first', 'needs [*] in place of first'],
])('a restricted path that names %s: %s', (_, path, message, suggestion) => {
  const cause = {
    rule: 'preset-target',
    field: 'spec.restricted[1]',
    value: path,
    reason: 'FieldValueInvalid',
    message,
    ...(suggestion === undefined ? {} : { suggestion }),
  }
  expect(restrictedPathCauses(['spec', path], gadget)).toEqual(message === undefined ? [] : [cause])
})

test('a field restricted for some containers of a pod only is pointed out', () => {
  const containers: PlainSchema = {
    type: 'array',
    items: some({ name: {}, level: {} }),
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
  }
  const pod = structureOf(some({ spec: some({ containers, initContainers: containers }) }))
  const warnings = (...paths: readonly string[]) => restrictedWarnings(paths, pod)
  expect(warnings('spec.containers[*].level')).toEqual([
    'spec.restricted: restricts spec.containers[*].level, but not spec.initContainers[*].level',
  ])
  expect(warnings('spec.initContainers')).toEqual([
    'spec.restricted: restricts spec.initContainers, but not spec.containers',
  ])
  expect(warnings('spec.containers[*].level', 'spec.initContainers')).toEqual([
    'spec.restricted: restricts spec.initContainers, but not spec.containers',
  ])
  expect(warnings('spec.containers[*].level', 'spec.initContainers[*].level')).toEqual([])
  expect(restrictedWarnings(['spec.containers[*].level'], structure)).toEqual([])
})

test('a key of digits is restricted as it is written', () => {
  const uses = restrictedUses({ object: { metadata: { labels: { '007': 'x' } } } }, ['metadata.labels[007]'], structure)
  expect(uses).toHaveLength(1)
})
