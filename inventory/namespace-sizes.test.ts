import { expect, test } from 'vitest'
import { maxNamespaceSize } from '../presets/check.ts'
import { createNamespaceSizes } from './namespace-sizes.ts'

test('a namespace has at most twice its limit, whatever was deleted or changed', () => {
  const sizes = createNamespaceSizes()
  const add = (id: string, size = maxNamespaceSize, namespace = 'team') => sizes.add(id, namespace, size)
  expect([add('a'), add('b'), add('c', 1), add('d', 1, 'other')]).toEqual([true, true, false, true])
  // The same preset, changed, and one that was not counted.
  expect([add('b', maxNamespaceSize + 1), add('b', maxNamespaceSize - 1)]).toEqual([false, true])
  sizes.remove('c')
  expect([add('c', 2), add('c', 1)]).toEqual([false, true])
  sizes.remove('a')
  sizes.remove('a')
  expect(add('e')).toBe(true)
})
