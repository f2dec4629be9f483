import { describe, expect, test } from 'vitest'
import { rootPath } from '../api/path.ts'
import { maxSteps, unmetered, within } from '../api/steps.ts'
import { gadgetPreset } from '../test/presets/objects.ts'
import { preset } from '../test/presets/make.ts'
import { comparison } from './comparison.ts'
import { groupItems } from './items.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import { findOverlaps } from './overlap.ts'
import { parseRemovePath } from './remove-path.ts'
import { removePaths } from './remove.ts'
import { byUser, userRank } from './source.ts'
import { asJson, objectOf, unionOf, type LeafStructure, type ListStructure } from './structure.ts'
import { unchanged } from './tree.ts'
import { pairVolumes } from './volumes.ts'

/** Counts how often the meaning of a value is read that `isCounted`. */
function counting(isCounted: (value: unknown) => boolean) {
  const counted = { reads: 0 }
  const leaf: LeafStructure = {
    ...asJson,
    meaning(value) {
      if (isCounted(value)) counted.reads += 1
      return asJson.meaning(value)
    },
  }
  return { counted, leaf }
}

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))

test('a large value of an item is read once, however many paths to remove name it', () => {
  const large = 'x'.repeat(10_000)
  const { counted, leaf } = counting((value) => value === large)
  const item = objectOf({ name: asJson, text: leaf })
  const list: ListStructure = { kind: 'list', item, maxItems: 9, keys: [[['name']]] }
  const by = preset('r', { strength: 'Enforce' })
  const targets = times(1000, (index) => ({ preset: by, steps: parseRemovePath(`list[text=${index}]`)?.steps ?? [] }))
  const node = unchanged({ list: [{ name: 'a', text: large }] })
  const removed = within<readonly unknown[]>(
    maxSteps,
    (steps) => removePaths(node, objectOf({ list }), rootPath, targets, steps).removed,
    () => ['refused'],
  )
  expect(removed).toEqual([])
  expect(counted.reads).toBe(1)
})

test('the value in a path to remove is read once, however many items it is compared with', () => {
  const { counted, leaf } = counting((value) => value === 'wanted')
  const item = objectOf({ name: asJson, text: leaf })
  const list: ListStructure = { kind: 'list', item, maxItems: 1000, keys: [[['name']]] }
  const steps = parseRemovePath('list[text=wanted]')?.steps ?? []
  const node = unchanged({ list: times(1000, (index) => ({ name: `n${index}`, text: 'other' })) })
  removePaths(node, objectOf({ list }), rootPath, [{ preset: preset('r', {}), steps }], unmetered)
  expect(counted.reads).toBe(1)
})

test('reading a large value of an item counts as work', () => {
  const item = objectOf({ name: asJson, text: asJson })
  const list: ListStructure = { kind: 'list', item, maxItems: 9, keys: [[['name']]] }
  const steps = parseRemovePath('list[text=y]')?.steps ?? []
  const node = unchanged({ list: [{ name: 'a', text: 'x'.repeat(64_000) }] })
  const removed = within<readonly unknown[]>(
    500,
    (meter) => removePaths(node, objectOf({ list }), rootPath, [{ preset: preset('r', {}), steps }], meter).removed,
    () => ['refused'],
  )
  expect(removed).toEqual(['refused'])
})

test('an item with * is compared with each group once, however many items with * it has', () => {
  const { counted, leaf } = counting((value) => value === 'TCP')
  const item = objectOf({ number: asJson, protocol: leaf })
  const list: ListStructure = { kind: 'list', item, maxItems: 99, keys: [[['number'], ['protocol']]] }
  const users = { rank: userRank, origin: byUser, value: times(20, (number) => ({ number, protocol: 'TCP' })) }
  const stars = times(400, (index) => {
    const { rank, origin } = gadgetPreset(`p${index}`, {})
    return { rank, origin, value: [{ number: '*', protocol: index % 2 === 0 ? 'TCP' : 'UDP' }] }
  })
  const { groups } = groupItems(list, [users, ...stars])
  expect(groups.map((members) => members.length)).toEqual(times(20, () => 201))
  // Twice for each item, to group it and to compare it, and for each item with *.
  expect(counted.reads).toBeLessThan(1000)
})

const sourceOf = (name: string, value: unknown) => {
  const { rank, origin } = gadgetPreset(name, {})
  return { rank, origin, value }
}

describe('a large value of an item without a key', () => {
  const large = times(8, (index) => `${index}`.padEnd(6400, 'x'))
  const { counted, leaf } = counting((value) => large.includes(String(value)))
  const list: ListStructure = {
    kind: 'list',
    item: objectOf({ name: asJson, text: leaf }),
    maxItems: 999,
    keys: [[['name']]],
  }
  const users = { rank: userRank, origin: byUser, value: times(500, (name) => ({ name, text: 'other' })) }
  const presets = large.map((text) => sourceOf(text.slice(0, 1), [{ text }]))

  test('is read once, however many items it is compared with', () => {
    counted.reads = 0
    let spent = 0
    const by = comparison({ spend: (steps) => (spent += steps) })
    expect(groupItems(list, [users, ...presets], by).groups).toHaveLength(508)
    expect(counted.reads).toBe(8)
    // For each comparison an item and its text; the size of each text once; one for each item that is added.
    expect(spent).toBe(8 * 500 * 2 + 8 * 100 + 8)
  })

  test('is read no more once the limit of steps is reached', () => {
    counted.reads = 0
    const refused = within(
      250,
      (steps): unknown => groupItems(list, [users, ...presets], comparison(steps)).groups.length,
      () => 'refused',
    )
    expect([refused, counted.reads]).toEqual(['refused', 2])
  })
})

test('a large value of an item that is skipped is read once', () => {
  const large = 'x'.repeat(6400)
  const { counted, leaf } = counting((value) => value === large)
  const item = objectOf({ name: asJson, text: leaf, file: asJson }, { union: unionOf(['file']) })
  const list: ListStructure = { kind: 'list', item, maxItems: 9, keys: [[['name']]] }
  expect(groupItems(list, [sourceOf('p', [{ text: large }])]).homeless).toMatchObject([
    { label: JSON.stringify({ text: large }).slice(0, 64) },
  ])
  expect(counted.reads).toBe(1)
})

test('a large value of an item with * is read once, however many items it is merged into', () => {
  const large = 'x'.repeat(6400)
  const { counted, leaf } = counting((value) => value === large)
  const list: ListStructure = {
    kind: 'list',
    item: objectOf({ name: asJson, text: leaf }),
    maxItems: 999,
    keys: [[['name']]],
  }
  const users = { rank: userRank, origin: byUser, value: times(500, (name) => ({ name, text: 'other' })) }
  mergeSources(list, [users, sourceOf('p', [{ name: '*', text: large }])], rootPath, emptyMerge())
  expect(counted.reads).toBe(1)
})

test('a large value of a volume is read once, however many volumes it is compared with', () => {
  const large = times(50, (index) => `${index}`.padEnd(6400, 'x'))
  const { counted, leaf } = counting((value) => large.includes(String(value)))
  const item = objectOf({ text: leaf, name: asJson })
  const list: ListStructure = { kind: 'list', item, maxItems: 99, keys: [[['name']]] }
  const structure = objectOf({ spec: objectOf({ volumes: list }) })
  const sources = large.map((text, name) => sourceOf(`p${name}`, { spec: { volumes: [{ text, name: `v${name}` }] } }))
  expect(pairVolumes(structure, sources, emptyMerge()).sources).toEqual(sources)
  expect(counted.reads).toBe(50)
})

test('a large value of a preset is read once, however many presets it is compared with', () => {
  const { counted, leaf } = counting((value) => value === 'own')
  const structure = objectOf({ spec: objectOf({ domain: objectOf({ title: leaf }) }) })
  const [own, ...others] = times(50, (index) => preset(`p${index}`, { domain: { title: index === 0 ? 'own' : 'x' } }))
  expect(own && findOverlaps(own, others, structure).overlaps).toHaveLength(49)
  expect(counted.reads).toBe(1)
})

test('a long path in a path to remove takes the steps of its length for each item', () => {
  const list: ListStructure = { kind: 'list', item: objectOf({ name: asJson }), maxItems: 99, keys: [[['name']]] }
  const steps = parseRemovePath(`list[${'a.'.repeat(100)}a=x]`)?.steps ?? []
  const node = unchanged({ list: times(50, (name) => ({ name })) })
  let spent = 0
  const spend = (count: number) => (spent += count)
  const targets = times(3, () => ({ preset: preset('r', {}), steps }))
  removePaths(node, objectOf({ list }), rootPath, targets, { spend })
  expect(spent).toBe(3 + 50 * (3 + 101))
})
