import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { editDistance, nearest } from './nearest.ts'

describe('the nearest word', () => {
  test.each([
    ['devcies', ['domain', 'devices'], 'devices'],
    ['Memory', ['memory', 'memoryBacking'], 'memory'],
    ['tolleration', ['tolerations', 'affinity'], 'tolerations'],
    ['cpuu', ['cpu', 'vcpu'], 'cpu'],
    ['os', ['on', 'om'], 'on'],
    ['entirely', ['different', 'words'], undefined],
    ['x', [], undefined],
    ['', ['a', 'ab'], 'a'],
    ['x'.repeat(1_000_000), ['memory'], undefined],
  ])('to %.20s', (word, candidates, expected) => expect(nearest(word, candidates)).toBe(expected))
})

describe('the distance', () => {
  test.each([
    ['', '', 0],
    ['abc', '', 3],
    ['abc', 'abd', 1],
    ['abc', 'acb', 1],
    ['kitten', 'sitting', 3],
  ])('from %j to %j is %d', (left, right, distance) => expect(editDistance(left, right)).toBe(distance))

  test('is symmetric, and zero only between equals', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (left, right) => {
        expect(editDistance(left, right)).toBe(editDistance(right, left))
        expect(editDistance(left, right) === 0).toBe(left === right)
      }),
    )
  })
})
