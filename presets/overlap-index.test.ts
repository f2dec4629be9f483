import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clusterPreset, preset } from '../test/presets/make.ts'
import { smallStructure } from '../test/presets/small-domain.ts'
import type { CompiledPreset } from './compile.ts'
import { createOverlapIndex } from './overlap-index.ts'
import { findOverlaps } from './overlap.ts'

const indexOf = (presets: readonly CompiledPreset[]) => {
  const index = createOverlapIndex(smallStructure)
  for (const one of presets) index.set(one)
  return index
}

const one = preset('one', { selector: { matchLabels: { team: 'a' } }, domain: { title: 'x', vcpu: { value: 1 } } })

describe('presets that are compared with one that sets a title where team=a', () => {
  test.each<[string, CompiledPreset, boolean]>([
    ['one with another title', preset('two', { domain: { title: 'y' } }), true],
    ['not one with the same title', preset('two', { domain: { title: 'x' } }), false],
    ['not one that sets other fields', preset('two', { domain: { type: 'kvm' } }), false],
    ['not one of another rank', preset('two', { priority: 1, domain: { title: 'y' } }), false],
    [
      'not one of another team',
      preset('two', { selector: { matchLabels: { team: 'b' } }, domain: { title: 'y' } }),
      false,
    ],
    [
      'one with another label',
      preset('two', { selector: { matchLabels: { app: 'b' } }, domain: { title: 'y' } }),
      true,
    ],
    ['not one that only warns', preset('two', { mode: 'Warn', domain: { title: 'y' } }), false],
    ['not one in another namespace', preset('two', { domain: { title: 'y' } }, 'other'), false],
    ['not itself', preset('one', { domain: { title: 'y' } }), false],
  ])('%s', (_, other, isFound) => {
    expect(indexOf([other]).candidates(one).has(other.id)).toBe(isFound)
  })

  test('not one that was deleted or has changed', () => {
    const index = indexOf([preset('two', { domain: { title: 'y' } }), preset('three', { domain: { title: 'y' } })])
    index.delete('team/two')
    index.set(preset('three', { domain: { title: 'x' } }))
    expect([...index.candidates(one)]).toEqual([])
  })

  test('deleted presets leave nothing behind, and others in place', () => {
    const presets = [
      preset('two', { domain: { title: 'y' } }),
      preset('three', { domain: { title: 'y' } }),
      preset('four', { selector: { matchLabels: { team: 'a' } }, domain: { title: 'y' } }),
      preset('five', { selector: { matchLabels: { team: 'a' } }, domain: { title: 'y' } }),
      preset('six', { selector: { matchLabels: { app: 'b' } }, domain: { title: 'y' } }),
    ]
    const index = indexOf(presets)
    index.set(preset('two', { selector: { matchLabels: { team: 'a', app: 'c' } }, domain: { title: 'y' } }))
    for (const [deleted, { id }] of presets.entries()) {
      const others = presets.slice(deleted + 1).map((other) => other.id)
      index.delete(id)
      index.delete(id)
      expect([...index.candidates(one)].toSorted()).toEqual(others.toSorted())
    }
    expect(index.isEmpty()).toBe(true)
  })

  test('few of a thousand that each select a value of their own beside a common one', () => {
    const many = Array.from({ length: 1000 }, (_, count) =>
      clusterPreset(`p${count}`, {
        selector: { matchLabels: { stage: 'prod', team: `t${count}` } },
        domain: { title: `${count}` },
      }),
    )
    const index = indexOf(many)
    const found = many.map((each) => index.candidates(each).size)
    expect(found.reduce((sum, size) => sum + size, 0)).toBeLessThan(2000)
  })
})

test.each<[string, object, object, boolean]>([
  ['branches of a union', { domain: { clock: { adjustment: 1 } } }, { domain: { clock: { timezone: 'x' } } }, true],
  ['keys that users choose', { nodeSelector: { a: '1' } }, { nodeSelector: { b: '1' } }, true],
  ['items of a list', { domain: { words: ['a'] } }, { domain: { words: ['b'] } }, true],
  ['different fields of an object', { domain: { vcpu: { value: 1 } } }, { domain: { vcpu: { cpuset: '1' } } }, false],
])('presets that set %s', (_, left, right, isFound) => {
  const found = indexOf([preset('two', { ...left })]).candidates(preset('one', { ...right }))
  expect(found.has('team/two')).toBe(isFound)
})

test('presets of the cluster that select different namespaces are not compared', () => {
  const inNamespace = (name: string, stage: string) =>
    clusterPreset(name, { namespaceSelector: { matchLabels: { stage } }, domain: { title: name } })
  const index = indexOf([inNamespace('a', 'test'), inNamespace('b', 'prod')])
  expect([...index.candidates(inNamespace('c', 'prod'))]).toEqual(['b'])
})

const value = fc.constantFrom('1', '2')
const key = fc.constantFrom('a', 'b')
const requirement = fc.oneof(
  fc.record({ key, operator: fc.constantFrom('In', 'NotIn'), values: fc.uniqueArray(value, { minLength: 1 }) }),
  fc.record({ key, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
)
const selector = fc.record({ matchExpressions: fc.array(requirement, { maxLength: 2 }) })
const text = fc.constantFrom('x', 'y')
const disk = fc.record(
  {
    type: fc.constantFrom('file', 'volume', 'network'),
    source: fc.record(
      { file: text, volume: text, hosts: fc.array(fc.record({ name: text }), { maxLength: 2 }) },
      { requiredKeys: [] },
    ),
    target: fc.record({ dev: text }, { requiredKeys: [] }),
    serial: text,
  },
  { requiredKeys: [] },
)
const domain = fc.record(
  {
    title: text,
    vcpu: fc.record({ value: fc.constantFrom(1, '1', 2) }),
    clock: fc.record({ offset: fc.constantFrom('utc', 'timezone'), timezone: text }, { requiredKeys: [] }),
    devices: fc.record({ disks: fc.array(disk, { maxLength: 2 }) }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
)
const spec = fc.record(
  {
    selector,
    domain,
    mode: fc.constantFrom('Apply', 'Warn'),
    priority: fc.constantFrom(0, 1),
    exclusiveGroup: fc.constantFrom('g', 'h'),
    metadata: fc.record({ labels: fc.dictionary(key, text) }),
    tolerations: fc.array(fc.record({ key: text, operator: fc.constant('Exists') }), { maxLength: 1 }),
    nodeSelector: fc.dictionary(key, text),
  },
  { requiredKeys: ['selector'] },
)
const world = fc.array(
  fc.oneof(
    fc.tuple(spec, fc.constantFrom('team', 'other')).map(
      ([given, namespace]) =>
        (name: string) =>
          preset(name, given, namespace),
    ),
    fc.tuple(spec, fc.option(selector, { nil: undefined })).map(
      ([given, namespaceSelector]) =>
        (name: string) =>
          clusterPreset(name, { ...given, ...(namespaceSelector === undefined ? {} : { namespaceSelector }) }),
    ),
  ),
  { minLength: 2, maxLength: 6 },
)

test('whatever presets there are, those that could disagree are all among the candidates', () => {
  fc.assert(
    fc.property(world, (makers) => {
      const presets = makers.map((make, count) => make(`p${count}`))
      const index = indexOf(presets)
      for (const each of presets) {
        const { overlaps } = findOverlaps(each, presets, smallStructure)
        const candidates = index.candidates(each)
        expect(overlaps.filter(({ other }) => !candidates.has(other.id)).map(({ fields }) => fields)).toEqual([])
      }
    }),
    { numRuns: 150 },
  )
})
