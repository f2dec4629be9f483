import { expect, test } from 'vitest'
import { rootPath } from '../api/path.ts'
import { maxSteps, unmetered, within } from '../api/steps.ts'
import { gadgetPreset } from '../test/presets/objects.ts'
import { preset } from '../test/presets/make.ts'
import { groupItems } from './items.ts'
import { parseRemovePath } from './remove-path.ts'
import { removePaths } from './remove.ts'
import { byUser, userRank } from './source.ts'
import { asJson, objectOf, type LeafStructure, type ListStructure } from './structure.ts'
import { unchanged } from './tree.ts'

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
