import { expect, test } from 'vitest'
import { found, originText, treeOf, type Field } from './tree.ts'

const fields: readonly Field[] = [
  { path: 'metadata.labels[a/b]', value: 'x', user: true },
  { path: 'spec.domain.type', value: 'kvm', preset: 'fast', revision: '1' },
  { path: 'spec.domain.devices.disks[0].target.dev', value: 'vda', user: true },
  { path: 'spec.domain.devices.disks[0].target.bus', value: 'virtio', default: 'disk-bus' },
]

test('fields become a tree', () => {
  const outline = (nodes: ReturnType<typeof treeOf>): unknown =>
    nodes.map(({ key, field, children }) => (field === undefined ? [key, outline(children)] : key))
  expect(outline(treeOf(fields))).toEqual([
    ['metadata', [['labels', ['a/b']]]],
    ['spec', [['domain', ['type', ['devices', [['disks', [['0', [['target', ['dev', 'bus']]]]]]]]]]]],
  ])
})

test('each origin has a text', () => {
  expect(fields.map(originText)).toEqual(['user', 'preset fast', 'user', 'default disk-bus'])
})

test.each([
  ['a path', 'disks target', '', ['dev', 'bus']],
  ['a value', 'KVM', '', ['type']],
  ['an origin', 'disk-bus', '', ['bus']],
  ['a kind of origin', '', 'preset', ['type']],
  ['nothing', 'disks', 'preset', []],
])('a search finds %s', (_, text, kind, expected) => {
  expect(found(fields, text, kind).map(({ path }) => path.split('.').at(-1))).toEqual(expected)
})
