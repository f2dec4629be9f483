import { expect, test } from 'vitest'
import { restrictedUses } from './restricted.ts'

const restricted = ['spec.host', 'spec.list[*].security.level', 'metadata.annotations[a/b]', 'spec.a', 'spec.a.b']

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
  ['a removal of a neighbour', {}, ['spec.list[0].name', 'status'], []],
])('uses of restricted fields: %s', (_, object, remove, fields) => {
  expect(restrictedUses({ object: object as never, remove }, restricted).map(({ field }) => field)).toEqual(fields)
})
