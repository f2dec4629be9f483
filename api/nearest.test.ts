import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { editDistance, fieldNames, nearest } from './nearest.ts'

describe('the nearest word', () => {
  test.each([
    ['devcies', ['domain', 'devices'], 'devices'],
    ['Memory', ['memory', 'memoryBacking'], 'memory'],
    ['tolleration', ['tolerations', 'affinity'], 'tolerations'],
    ['cpuu', ['cpu', 'vcpu'], 'cpu'],
    ['os', ['on', 'om'], 'on'],
    ['cd', ['fd', 'hd', 'cdrom'], 'cdrom'],
    ['Gi', ['GB', 'GiB'], 'GiB'],
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

  test('is cut at a limit', () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 12, unit: fc.constantFrom('a', 'b', 'c') }),
        fc.string({ maxLength: 12, unit: fc.constantFrom('a', 'b', 'c') }),
        fc.nat(8),
        (left, right, limit) => {
          expect(editDistance(left, right, limit)).toBe(Math.min(limit, editDistance(left, right)))
        },
      ),
    )
  })
})

test('is the same as by comparing all candidates', () => {
  const words = fc.string({ maxLength: 10, unit: fc.constantFrom('a', 'b', 'c', 'A', 'B', '.', 'é') })
  fc.assert(
    fc.property(words, fc.array(words, { maxLength: 8 }), (word, candidates) => {
      const distances = candidates.map((one) => editDistance(word.toLowerCase(), one.toLowerCase()))
      const least = Math.min(...distances)
      const isNear = least <= Math.max(1, Math.floor(word.length / 3))
      const longer = word.length < 2 ? [] : candidates.filter((one) => one.toLowerCase().startsWith(word.toLowerCase()))
      const near = isNear ? candidates[distances.indexOf(least)] : undefined
      expect(nearest(word, candidates)).toBe(longer.length === 1 ? longer[0] : near)
    }),
  )
})

test('the names of fields are prepared once', () => {
  const fields = { memory: 1, vcpu: 2 }
  expect(fieldNames(fields)).toBe(fieldNames(fields))
})
