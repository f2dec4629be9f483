import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { LabelSelector } from '../api/object.ts'
import { clusterPreset, preset } from '../test/presets/make.ts'
import { smallStructure } from '../test/presets/small-domain.ts'
import { findOverlaps, overlapWarning } from './overlap.ts'
import { commonLabels, compileSelector, isSelected } from './selector.ts'

const requires = (
  key: string,
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist',
  ...values: string[]
): LabelSelector => ({
  matchExpressions: [{ key, operator, ...(values.length === 0 ? {} : { values }) }],
})

describe('the common labels of several selectors', () => {
  test.each<[string, LabelSelector[], unknown]>([
    ['everything', [{}, {}], {}],
    ['two keys', [{ matchLabels: { a: '1' } }, { matchLabels: { b: '2' } }], { a: '1', b: '2' }],
    ['one key, two values', [{ matchLabels: { a: '1' } }, { matchLabels: { a: '2' } }], undefined],
    ['a value in both sets', [requires('a', 'In', '1', '2'), requires('a', 'In', '2', '3')], { a: '2' }],
    [
      'a value that one set includes and the other excludes',
      [requires('a', 'In', '1'), requires('a', 'NotIn', '1')],
      undefined,
    ],
    ['any value except one', [requires('a', 'Exists'), requires('a', 'NotIn', 'any')], { a: 'any-1' }],
    ['required and forbidden', [requires('a', 'Exists'), requires('a', 'DoesNotExist')], undefined],
    ['a missing label is not in any set', [requires('a', 'NotIn', '1'), requires('a', 'DoesNotExist')], {}],
  ])('%s', (_, selectors, expected) => {
    expect(commonLabels(selectors.map(compileSelector))).toEqual(expected)
  })

  const key = fc.constantFrom('a', 'b')
  const value = fc.constantFrom('1', '2', '3')
  const selector: fc.Arbitrary<LabelSelector> = fc
    .array(
      fc.oneof(
        fc.record({
          key,
          operator: fc.constantFrom('In' as const, 'NotIn' as const),
          values: fc.uniqueArray(value, { minLength: 1 }),
        }),
        fc.record({ key, operator: fc.constantFrom('Exists' as const, 'DoesNotExist' as const) }),
      ),
      { maxLength: 3 },
    )
    .map((matchExpressions) => ({ matchExpressions }))

  test('are selected by all, or no labels are', () => {
    const worlds = [undefined, '1', '2', '3', 'other'].flatMap((a) =>
      [undefined, '1', '2', '3', 'other'].map((b) => ({
        ...(a === undefined ? {} : { a }),
        ...(b === undefined ? {} : { b }),
      })),
    )
    fc.assert(
      fc.property(selector, selector, (left, right) => {
        const both = [left, right].map(compileSelector)
        const found = commonLabels(both)
        const isHit = (labels: { readonly [key: string]: string }) => both.every((one) => isSelected(one, labels))
        expect(found === undefined ? worlds.filter(isHit) : isHit(found)).toEqual(found === undefined ? [] : true)
      }),
    )
  })
})

describe('presets that could disagree', () => {
  const small = { matchLabels: { size: 'small' } }
  const web = { matchLabels: { app: 'web' } }
  const one = preset('one', { selector: small, domain: { title: 'a', vcpu: { value: 1 } } })
  test.each([
    ['on labels that both select', preset('two', { selector: web, domain: { title: 'b' } }), ['spec.domain.title']],
    ['but not if they set equal values', preset('two', { selector: web, domain: { vcpu: { value: '1' } } }), undefined],
    ['nor on other leaves', preset('two', { selector: web, domain: { type: 'kvm' } }), undefined],
    ['nor with another priority', preset('two', { selector: web, priority: 1, domain: { title: 'b' } }), undefined],
    ['nor in another layer', clusterPreset('two', { selector: web, domain: { title: 'b' } }), undefined],
    [
      'nor if no VM can have both labels',
      preset('two', { selector: { matchLabels: { size: 'large' } }, domain: { title: 'b' } }),
      undefined,
    ],
    ['nor in another namespace', preset('two', { selector: web, domain: { title: 'b' } }, 'other'), undefined],
    [
      'nor if no namespace can have both labels',
      clusterPreset('two', {
        selector: web,
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'other' } },
        domain: { title: 'b' },
      }),
      undefined,
    ],
    ['nor with other exclusive groups', preset('two', { selector: web, exclusiveGroup: 'b' }), undefined],
    ['nor if one is in mode Warn', preset('two', { mode: 'Warn', selector: web, domain: { title: 'b' } }), undefined],
  ])('%s', (_, other, fields) => {
    expect(findOverlaps(one, [one, other], smallStructure).overlaps[0]?.fields).toEqual(fields)
  })

  test('are reported with the labels of a VM that both select', () => {
    const other = preset('two', {
      selector: web,
      domain: { title: 'b', vcpu: { value: 2 } },
      matchConditions: [{ name: 'c', expression: 'true' }],
    })
    expect(findOverlaps(one, [other], smallStructure).overlaps.map(overlapWarning)).toEqual([
      'disagrees with preset "team/two" on spec.domain.title and 1 more, e.g. on a VM with labels {size=small,app=web,kubernetes.io/metadata.name=team} (unless their conditions exclude each other)',
    ])
  })

  test('are not searched for a preset in mode Warn, or between revisions of one preset', () => {
    const other = preset('two', { selector: web, domain: { title: 'b' } })
    const warning = preset('one', { mode: 'Warn', selector: small, domain: { title: 'a' } })
    const before = preset('one', { selector: small, domain: { title: 'before' } })
    expect(findOverlaps(warning, [other], smallStructure).overlaps).toEqual([])
    expect(findOverlaps(one, [before], smallStructure).overlaps).toEqual([])
  })

  test('are not found if they share no namespace or no exclusive group', () => {
    const golden = { namespaceSelector: { matchLabels: { tier: 'gold' } }, domain: { title: 'a' } }
    const silver = { namespaceSelector: { matchLabels: { tier: 'silver' } }, domain: { title: 'b' } }
    const between = (left: object, right: object) =>
      findOverlaps(clusterPreset('a', { ...left }), [clusterPreset('b', { ...right })], smallStructure).overlaps.length
    expect([between(golden, { ...golden, domain: { title: 'b' } }), between(golden, silver)]).toEqual([1, 0])
    const [one, two] = [{ exclusiveGroup: 'one' }, { exclusiveGroup: 'two', priority: 1 }]
    expect([between(one, { ...two, exclusiveGroup: 'one' }), between(one, two)]).toEqual([1, 0])
  })

  test('are found in the namespace that both select', () => {
    const inTeam = clusterPreset('c', { exclusiveGroup: 'one', domain: { title: 'a' } })
    const all = [preset('a', { exclusiveGroup: 'one' }), preset('b', { exclusiveGroup: 'one' }, 'other')]
    expect(findOverlaps(inTeam, all, smallStructure).overlaps.map(({ other }) => other.id)).toEqual([
      'other/b',
      'team/a',
    ])
    expect(findOverlaps(preset('p', { exclusiveGroup: 'one' }), all, smallStructure).overlaps).toMatchObject([
      { other: { id: 'team/a' }, namespaceLabels: { 'kubernetes.io/metadata.name': 'team' }, hasConditions: false },
    ])
    const silver = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'silver' } } }
    expect(
      findOverlaps(clusterPreset('d', { exclusiveGroup: 'one', ...silver }), all, smallStructure).overlaps,
    ).toEqual([])
  })

  test('of different rank only disagree on their exclusive group', () => {
    const left = preset('one', { exclusiveGroup: 'size', domain: { title: 'a' } })
    const right = preset('two', { exclusiveGroup: 'size', domain: { title: 'b' }, priority: 9 })
    const found = findOverlaps(left, [right], smallStructure).overlaps
    expect(found.map(({ fields }) => fields)).toEqual([['exclusiveGroup']])
    expect(found.map(overlapWarning)).toEqual([
      'disagrees with preset "team/two" on exclusiveGroup, e.g. on a VM with labels {kubernetes.io/metadata.name=team}',
    ])
  })

  test('are searched up to the given number', () => {
    const others = ['e', 'c', 'd', 'f'].map((name) => preset(name, { selector: web, domain: { title: name } }))
    const found = (most?: number) => {
      const { overlaps, isComplete } = findOverlaps(one, others, smallStructure, most)
      return [overlaps.map(({ other }) => other.name), isComplete]
    }
    expect([found(2), found(4), found()]).toEqual([
      [['c', 'd'], false],
      [['c', 'd', 'e', 'f'], true],
      [['c', 'd', 'e', 'f'], true],
    ])
  })

  test('are searched up to a limit of values', () => {
    const domain = {
      devices: { interfaces: Array.from({ length: 250 }, (_, index) => ({ alias: { name: `ua-${index}` } })) },
    }
    const large = Array.from({ length: 100 }, (_, index) => preset(`l${100 + index}`, { domain }))
    const last = preset('z', { domain: { title: 'z' } })
    const { overlaps, isComplete } = findOverlaps(
      preset('a', { domain: { ...domain, title: 'a' } }),
      [...large, last],
      smallStructure,
    )
    expect([overlaps, isComplete]).toEqual([[], false])
  })

  test('are searched up to a limit of labels', () => {
    const values = Array.from({ length: 200 }, (_, index) => `v${index}`)
    const matchExpressions = Array.from({ length: 50 }, (_, index) => ({ key: `k${index}`, operator: 'In', values }))
    const others = Array.from({ length: 10 }, (_, index) =>
      preset(`l${index}`, { selector: { matchExpressions }, domain: { title: 'same' } }),
    )
    const last = preset('z', { domain: { title: 'z' } })
    const { overlaps, isComplete } = findOverlaps(
      preset('a', { domain: { title: 'same' } }),
      [...others, last],
      smallStructure,
    )
    expect([overlaps, isComplete]).toEqual([[], false])
  })

  test('include those of one exclusive group, across layers', () => {
    const left = preset('one', { selector: small, exclusiveGroup: 'size' })
    const right = clusterPreset('two', { selector: web, exclusiveGroup: 'size', priority: 9 })
    expect(findOverlaps(left, [right], smallStructure).overlaps.map(({ fields }) => fields)).toEqual([
      ['exclusiveGroup'],
    ])
  })
})
