import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { deepFreeze } from '../api/deep-freeze.ts'
import { isRecord } from '../api/schema.ts'
import { specShape, type Shape } from '../test/arbitraries/schema.ts'
import { team } from '../test/presets/make.ts'
import { gadget, gadgetCrd, gadgetTarget } from '../test/presets/objects.ts'
import { createCandidates } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import { injectInto, type Injected } from './inject.ts'
import type { Subject } from './kind.ts'
import { kindsIn, type ObjectKind } from './object-kind.ts'
import { compileObjectPreset } from './object-preset.ts'

/** An object of a generated kind, with presets for it. */
interface World {
  readonly kind: ObjectKind
  readonly object: Subject
  readonly presets: readonly CompiledPreset[]
}

const crdOf = ({ schema }: Pick<Shape, 'schema'>) => ({
  ...gadgetCrd,
  spec: {
    ...gadgetCrd.spec,
    versions: [{ name: 'v1', schema: { openAPIV3Schema: { type: 'object', properties: { spec: schema } } } }],
  },
})

interface Settings {
  readonly isCluster: boolean
  readonly priority: number
  readonly strength: string
}

const settings: fc.Arbitrary<Settings> = fc.record({
  isCluster: fc.boolean(),
  priority: fc.constantFrom(0, 1),
  strength: fc.constantFrom('Default', 'Enforce'),
})

/** What users can send and no generated value is: two lists in one, and values of another form anywhere. */
const odd = (values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc
    .tuple(
      values,
      values,
      fc.array(fc.tuple(fc.nat(), fc.constantFrom<unknown>(null, 'text', 1, [], {}, [null])), { maxLength: 3 }),
    )
    .map(([one, other, changes]) =>
      changes.reduce((value, [place, by]) => replaced(value, place, by), joined(one, other)),
    )

function joined(one: unknown, other: unknown): unknown {
  if (Array.isArray(one) && Array.isArray(other)) return [...one, ...other]
  if (!isRecord(one) || !isRecord(other)) return one
  const entries = Object.entries(one).map(([key, value]) => [
    key,
    Object.hasOwn(other, key) ? joined(value, other[key]) : value,
  ])
  return { ...other, ...Object.fromEntries(entries) }
}

/** The value with another one at one of its places, but not as a whole. */
function replaced(value: unknown, place: number, by: unknown): unknown {
  const places: (readonly (string | number)[])[] = []
  const visit = (at: unknown, path: readonly (string | number)[]): void => {
    if (path.length > 0) places.push(path)
    if (Array.isArray(at)) for (const [index, item] of at.entries()) visit(item, [...path, index])
    else if (isRecord(at)) for (const [key, member] of Object.entries(at)) visit(member, [...path, key])
  }
  visit(value, [])
  const path = places[place % places.length]
  const put = (at: unknown, [key, ...rest]: readonly (string | number)[]): unknown => {
    if (key === undefined) return by
    if (Array.isArray(at)) return at.map((item, index) => (index === key ? put(item, rest) : item))
    return isRecord(at)
      ? Object.fromEntries(
          Object.entries(at).map(([name, member]) => [name, name === key ? put(member, rest) : member]),
        )
      : at
  }
  return path === undefined ? value : put(value, path)
}

/** In some lists of a preset, the first item is for every key. */
const starred = (values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.tuple(values, fc.boolean()).map(([value, isStarred]) => (isStarred ? withStars(value) : value))

function withStars(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) => {
      const below = withStars(item)
      return index === 0 && isRecord(below) && Object.hasOwn(below, 'key') ? { ...below, key: '*' } : below
    })
  }
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withStars(member)]))
}

const worlds: fc.Arbitrary<World> = specShape.chain((shape) =>
  fc
    .record({
      spec: shape.values,
      given: fc.array(fc.tuple(shape.values, settings), { minLength: 1, maxLength: 4 }),
    })
    .map(({ spec, given }) => worldOf(shape, spec, given)),
)

function worldOf(shape: Shape, spec: unknown, given: readonly (readonly [unknown, Settings])[]): World {
  const kinds = kindsIn(crdOf(shape)) ?? new Map()
  const read = kinds.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error(JSON.stringify(read))
  const presets = given.map(([content, how], index) => {
    const { isCluster, ...rest } = how
    const made = compileObjectPreset(
      {
        apiVersion: 'virtset.io/v1alpha1',
        kind: isCluster ? 'ClusterObjectPreset' : 'ObjectPreset',
        metadata: { name: `p${index}`, ...(isCluster ? {} : { namespace: 'team' }) },
        spec: { target: gadgetTarget, selector: {}, ...rest, object: { spec: content } },
      },
      kinds,
    )
    if ('quarantined' in made) throw new Error(JSON.stringify(made.quarantined.causes))
    return made.preset
  })
  return { kind: read.kind, object: deepFreeze(gadget(spec as { readonly [key: string]: unknown })), presets }
}

/** An object that a schema refuses in parts, or allows with duplicates and `nullable`, and one preset above the others. */
const enforced: fc.Arbitrary<World & { readonly schema: unknown; readonly content: unknown }> = specShape.chain(
  (shape) =>
    fc
      .record({
        spec: odd(shape.values),
        content: starred(shape.values),
        given: fc.array(fc.tuple(starred(shape.values), settings), { maxLength: 3 }),
      })
      .map(({ spec, content, given }) => {
        const top = { isCluster: true, priority: 2, strength: 'Enforce' }
        return { ...worldOf(shape, spec, [[content, top], ...given]), schema: shape.schema, content }
      }),
)

const run = ({ kind, object, presets }: World): Injected =>
  injectInto(object, kind, { presets: createCandidates(presets), namespace: team })

const plain = ({ object, causes, origins }: Injected) => JSON.stringify({ object, causes, origins: [...origins] })

/** Every leaf of `part` is in `whole` at the same place. */
function isPart(part: unknown, whole: unknown): boolean {
  if (Array.isArray(part) && Array.isArray(whole)) return part.every((item, index) => isPart(item, whole[index]))
  if (!isRecord(part) || !isRecord(whole)) return Object.is(part, whole)
  return Object.keys(part).every((key) => Object.hasOwn(whole, key) && isPart(part[key], whole[key]))
}

test('of any kind: the order of presets does not matter, injecting is idempotent, defaults change no value', () => {
  fc.assert(
    fc.property(worlds, (world) => {
      const injected = run(world)
      expect(plain(run({ ...world, presets: world.presets.toReversed() }))).toBe(plain(injected))
      const again = injected.causes.length === 0 ? run({ ...world, object: injected.object }) : injected
      expect(again.object).toEqual(injected.object)
      const defaults = world.presets.filter(({ strength }) => strength === 'Default')
      expect(isPart(world.object, run({ ...world, presets: defaults }).object)).toBe(true)
    }),
    { numRuns: 100 },
  )
})

const quantities: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  ['1Gi', '1024Mi'],
  [2, '2'],
])
const plainOf = (value: unknown): unknown => JSON.parse(JSON.stringify(quantities.get(value) ?? value ?? null))
const isSame = (one: unknown, other: unknown): boolean => isDeepStrictEqual(plainOf(one), plainOf(other))

/** Whether what a preset states is true of a value, in every place: written without any code of merging. */
function isTrue(schema: unknown, stated: unknown, value: unknown): boolean {
  const of = isRecord(schema) ? schema : {}
  const { properties, additionalProperties } = of
  if (of['x-kubernetes-list-type'] === 'set' && Array.isArray(stated)) {
    return stated.every((one) => Array.isArray(value) && value.includes(one))
  }
  if (of['x-kubernetes-list-type'] === 'map' && Array.isArray(stated)) {
    const items: readonly unknown[] = Array.isArray(value) ? value : []
    return stated.every((one: unknown) => {
      if (!isRecord(one)) return false
      const { key, ...rest } = one
      if (key === '*') return items.every((item) => isTrue(of['items'], rest, item))
      const same = items.filter((item) => isRecord(item) && item['key'] === key)
      return same.length > 0 && same.every((item) => isTrue(of['items'], one, item))
    })
  }
  const isWhole = of['x-kubernetes-map-type'] === 'atomic' || (!isRecord(properties) && !isRecord(additionalProperties))
  if (isWhole || !isRecord(stated)) return isSame(stated, value)
  const keys = Object.keys(stated)
  if (keys.length === 0) return isRecord(value)
  const fields = isRecord(value) ? value : {}
  return keys.every((key) =>
    isTrue(
      isRecord(properties) ? properties[key] : additionalProperties,
      stated[key],
      Object.hasOwn(fields, key) ? fields[key] : undefined,
    ),
  )
}

const specIn = (object: object): unknown => ('spec' in object ? object.spec : undefined)

test('of any object: what a preset enforces is true of the result in every place, or the object is refused', () => {
  let accepted = 0
  fc.assert(
    fc.property(enforced, (world) => {
      const injected = run(world)
      expect(plain(run({ ...world, presets: world.presets.toReversed() }))).toBe(plain(injected))
      if (injected.causes.length > 0) return
      accepted += 1
      const result = specIn(injected.object)
      expect({ result, isTrue: isTrue(world.schema, world.content, result) }).toEqual({ result, isTrue: true })
      expect(run({ ...world, object: injected.object }).object).toEqual(injected.object)
    }),
    { numRuns: 500 },
  )
  expect(accepted).toBeGreaterThan(250)
})

test('of any object: presets of strength Default change no value, of whatever form', () => {
  fc.assert(
    fc.property(enforced, (world) => {
      const defaults = world.presets.filter(({ strength }) => strength === 'Default')
      expect(isPart(world.object, run({ ...world, presets: defaults }).object)).toBe(true)
    }),
    { numRuns: 200 },
  )
})

test('a path to remove finds no item without its value, unless the API server fills that in as a key', () => {
  const mode = { type: 'string', default: 'Fast', nullable: true }
  const properties = { name: { type: 'string' }, mode, of: { type: 'object', properties: { mode } } }
  const listType = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] }
  const list = { type: 'array', ...listType, items: { type: 'object', properties } }
  const schema = { type: 'object', properties: { list } }
  const kinds = kindsIn(crdOf({ schema })) ?? new Map()
  const read = kinds.get('Gadget of example.com/v1')?.()
  const remove = ['spec.list[of.mode=Fast]', 'spec.list[mode=Fast]']
  const spec = { target: gadgetTarget, selector: {}, strength: 'Enforce', remove }
  const preset = { apiVersion: 'virtset.io/v1alpha1', kind: 'ClusterObjectPreset', metadata: { name: 'p' }, spec }
  const made = compileObjectPreset(preset, kinds)
  if (read === undefined || !('kind' in read) || !('preset' in made)) throw new Error(JSON.stringify([read, made]))
  const items = [{ name: 'a' }, { name: 'b', mode: null, of: {} }, { name: 'c', mode: 'Slow', of: { mode: null } }]
  const given = gadget({ list: [...items, { name: 'd', mode: 'Fast' }, { name: 'e', of: { mode: 'Fast' } }] })
  const presets = createCandidates([made.preset])
  expect(injectInto(given, read.kind, { presets, namespace: team }).object).toEqual(gadget({ list: items }))
})
