import { expect, test } from 'vitest'
import type { Path } from '../api/path.ts'
import { conflictCauses } from './conflict.ts'
import type { Conflict } from './merge.ts'
import { type Layer, rankOf } from './source.ts'

const at = (...keys: string[]): Path =>
  keys.reduce<Path>((parent, key) => ({ parent, key }), { parent: undefined, key: '' })

const conflict = (layer: Layer, path: Path, ...values: [name: string, value: unknown][]): Conflict => ({
  path,
  sources: values.map(([name, value]) => ({
    rank: rankOf(layer, 3),
    origin: { by: 'preset', name, revision: '1', ...(layer.startsWith('namespace') ? { namespace: 'team' } : {}) },
    value,
  })),
})

const title = at('spec', 'domain', 'title')
const higher = 'give one preset a higher priority'
const labels = 'change the labels so that one matches'

test.each<[string, Conflict, string, string]>([
  [
    'of a namespace, which users may exclude and override',
    conflict('namespace Default', title, ['a', 'one'], ['b', 'two']),
    'presets of one layer (namespace Default) and priority (3) disagree: "team/a" sets "one", "team/b" sets "two"',
    `set the field in the VM, or ${higher}, or exclude one by virtset.io/exclude-presets (a or b), or ${labels}`,
  ],
  [
    'of the cluster, which users may override',
    conflict('cluster Default', title, ['a', 'one'], ['b', 'two']),
    'presets of one layer (cluster Default) and priority (3) disagree: "a" sets "one", "b" sets "two"',
    `set the field in the VM, or ${higher}, or ${labels}`,
  ],
  [
    'that users cannot change',
    conflict('namespace Enforce', title, ['a', 'one'], ['b', undefined]),
    'presets of one layer (namespace Enforce) and priority (3) disagree: "team/a" sets "one", "team/b" removes it',
    `${higher}, or ${labels}`,
  ],
  [
    'of more presets than are named, with each value first',
    conflict('cluster Enforce', title, ['a', 1], ['b', 1], ['c', 1], ['d', 2], ['e', 2]),
    'presets of one layer (cluster Enforce) and priority (3) disagree: "a" sets 1, "b" sets 1, "d" sets 2 and 2 more presets',
    `${higher}, or ${labels}`,
  ],
])('a conflict of presets %s', (_, one, message, suggestion) => {
  expect(conflictCauses([one])).toEqual([
    { rule: 'preset-conflict', field: 'spec.domain.title', reason: 'FieldValueInvalid', message, suggestion },
  ])
})

test('causes are ordered by field, then by message, and equal ones are reported once', () => {
  const [a, b] = [
    conflict('cluster Default', title, ['a', 1], ['b', 2]),
    conflict('cluster Default', title, ['a', 1], ['c', 2]),
  ]
  const other = conflict('cluster Default', at('spec', 'domain', 'type'), ['a', 1], ['b', 2])
  const first = conflict('cluster Default', at('metadata', 'labels', 'a'), ['a', 1], ['b', 2])
  expect(conflictCauses([other, b, a, first, b]).map(({ field, message }) => [field, message.slice(-10)])).toEqual([
    ['metadata.labels.a', '"b" sets 2'],
    ['spec.domain.title', '"b" sets 2'],
    ['spec.domain.title', '"c" sets 2'],
    ['spec.domain.type', '"b" sets 2'],
  ])
})
