import { expect, it } from 'vitest'
import { pick, slimAnnotations, slimLabels, slimMetadata } from './slim.ts'

const metadata = {
  name: 'a',
  namespace: 'n',
  uid: 'u',
  resourceVersion: '1',
  generation: 2,
  labels: { a: '1', b: '2' },
  annotations: { large: 'x'.repeat(1000) },
}

it('stores the identity of an object, and the fields of its metadata that are named', () => {
  const identity = { name: 'a', namespace: 'n', uid: 'u', resourceVersion: '1' }
  expect(slimMetadata(metadata)).toEqual(identity)
  expect(slimMetadata(metadata, 'generation', 'finalizers')).toStrictEqual({ ...identity, generation: 2 })
})

it('stores the labels that are named, and no empty map', () => {
  expect(slimLabels(metadata, 'b', 'c')).toStrictEqual({ labels: { b: '2' } })
  expect(slimLabels(metadata, 'c')).toStrictEqual({})
  expect(slimLabels({}, 'b')).toStrictEqual({})
})

it('stores the annotations that are named, unless they are too long', () => {
  expect(slimAnnotations(metadata, { large: 1000 })).toStrictEqual({ annotations: metadata.annotations })
  expect(slimAnnotations(metadata, { large: 999, other: 1 })).toStrictEqual({})
  expect(slimAnnotations({}, { large: 1000 })).toStrictEqual({})
})

it('picks no inherited member', () => {
  expect(pick({ a: 1, b: undefined }, 'a', 'b')).toStrictEqual({ a: 1 })
  expect(slimLabels(metadata, 'toString', 'constructor')).toStrictEqual({})
})
