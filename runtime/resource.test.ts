import { describe, expect, it } from 'vitest'
import { keyOf, namespaces, pathOf, refOf, virtualMachines } from './resource.ts'

describe('paths', () => {
  it.each([
    [virtualMachines, {}, '/apis/virtset.io/v1alpha1/virtualmachines'],
    [virtualMachines, { namespace: 'a' }, '/apis/virtset.io/v1alpha1/namespaces/a/virtualmachines'],
    [
      virtualMachines,
      { namespace: 'a', name: 'b', subresource: 'status' },
      '/apis/virtset.io/v1alpha1/namespaces/a/virtualmachines/b/status',
    ],
    [namespaces, { name: '../x' }, '/api/v1/namespaces/..%2Fx'],
    [namespaces, { namespace: 'a', name: 'b' }, '/api/v1/namespaces/b'],
  ])('%#', (of, at, path) => {
    expect(pathOf(of, at)).toBe(path)
  })
})

describe('keys', () => {
  it.each([{ namespace: 'a', name: 'b' }, { name: 'b' }])('of %o can be parsed back', (ref) => {
    expect(refOf(keyOf(ref))).toEqual(ref)
  })
})

describe('accepts', () => {
  it.each([
    [{ metadata: { name: 'a', uid: 'u', resourceVersion: '1' } }, true],
    [{ metadata: { name: 'a', uid: 'u' } }, false],
    [{ metadata: null }, false],
    [null, false],
    ['text', false],
  ])('%j: %s', (value, isAccepted) => {
    expect(virtualMachines.accepts(value)).toBe(isAccepted)
  })
})
