import { describe, expect, test } from 'vitest'
import { smallStructure } from '../test/presets/small-domain.ts'
import { comparison } from './comparison.ts'
import { covers, coversAll, leafPaths, meaningOf, prune } from './cover.ts'
import { structureAt } from './structure.ts'

const domain = structureAt(smallStructure, ['spec', 'domain']) ?? smallStructure

describe('one value covers another', () => {
  test.each<[string, unknown, unknown, boolean]>([
    ['if it has every leaf', { title: 'a' }, { title: 'a', type: 'kvm' }, true],
    ['but not if one is missing', { title: 'a', type: 'kvm' }, { title: 'a' }, false],
    ['or differs', { title: 'a' }, { title: 'b' }, false],
    ['or is null and missing', { title: null }, {}, false],
    ['in any spelling', { vcpu: { value: 1 } }, { vcpu: { value: '1' } }, true],
    ['if its list has every item', { words: ['b'] }, { words: ['a', 'b'] }, true],
    ['but not if an item is missing', { words: ['a', 'c'] }, { words: ['a', 'b'] }, false],
    ['or if it has no list', { words: ['a'] }, { words: 'a' }, false],
    ['or only the other has none', { words: 'a' }, { words: ['a'] }, false],
    ['or no object', { vcpu: { value: 1 } }, { vcpu: 1 }, false],
    ['or only the other has no object', { vcpu: 1 }, { vcpu: { value: 1 } }, false],
    ['by JSON where a key is not known', { new: { a: 1, b: 2 } }, { new: { b: 2, a: 1 } }, true],
    ['which must be equal', { new: { a: 1 } }, { new: { a: 1, b: 2 } }, false],
  ])('%s', (_, part, whole, expected) => expect(covers(domain, part, whole, comparison())).toBe(expected))

  test('which takes one step for each value', () => {
    let count = 0
    const value = { title: 'a', words: ['a', 'b'] }
    covers(domain, value, value, comparison({ spend: (steps) => (count += steps) }))
    expect(count).toBe(1 + 1 + 1 + 1 + 2)
  })

  test('and for a long one the steps of its size, once', () => {
    let count = 0
    const by = comparison({ spend: (steps) => (count += steps) })
    for (const title of ['a', 'b', 'c']) covers(domain, { title: 'a'.repeat(640) }, { title }, by)
    expect(count).toBe(3 * 2 + 10)
  })
})

describe('two values mean the same', () => {
  test.each<[string, unknown, unknown, boolean]>([
    ['whatever the order of their keys', { title: 'a', type: 'kvm' }, { type: 'kvm', title: 'a' }, true],
    ['and the spelling of their leaves', { vcpu: { value: 1 } }, { vcpu: { value: '1' } }, true],
    [
      'in lists too',
      { devices: { videos: [{ model: { vram: 1 } }] } },
      { devices: { videos: [{ model: { vram: '1' } }] } },
      true,
    ],
    ['but not in another order', { words: ['a', 'b'] }, { words: ['b', 'a'] }, false],
    ['or under another key', { title: 'a' }, { type: 'a' }, false],
    ['also where a key is not known', { new: { a: 1, b: 2 } }, { new: { b: 2, a: 1 } }, true],
    ['or where the form is wrong', { words: { a: 1, b: 2 }, vcpu: [1] }, { words: { b: 2, a: 1 }, vcpu: [1] }, true],
  ])('%s', (_, left, right, expected) => expect(meaningOf(domain, left) === meaningOf(domain, right)).toBe(expected))
})

test.each<[unknown, readonly string[]]>([
  [{}, []],
  ['text', []],
  [{ a: 1, b: { c: 2, d: {} } }, ['a', 'b.c', 'b.d']],
  [{ list: [{ a: 1 }, { a: 2, b: 3 }, {}] }, ['list.a', 'list.b', 'list']],
])('the leaves of %j', (value, paths) => expect(leafPaths(value)).toEqual(paths))

test.each<[readonly string[], readonly string[], boolean]>([
  [['a', 'b'], ['a', 'b'], true],
  [['a'], ['a.b'], true],
  [['a'], ['ab'], false],
  [['a'], ['a', 'b'], false],
  [['a.b'], ['a'], false],
  [[], [], true],
])('%j allows %j: %s', (allowed, paths, expected) => expect(coversAll(allowed, paths)).toBe(expected))

test('prunes the other keys', () => {
  expect(prune({ a: 1, b: 2, c: 3 }, (key) => key !== 'b')).toEqual({ a: 1, c: 3 })
})
