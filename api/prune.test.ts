import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { prune } from './prune.ts'
import { isDeeper } from './schema.ts'

it('returns a value that is not too deep as it is', () => {
  const value = { a: [{ b: 1 }] }
  expect(prune(value, 3)).toBe(value)
})

it.each([
  ['objects', { a: { b: { c: 1 }, e: 2 }, d: 1 }, { a: { e: 2 }, d: 1 }],
  ['lists', { a: [['x'], 'y'] }, { a: ['y'] }],
])('removes %s below the deepest level', (_, value, expected) => {
  expect(prune(value, 2)).toEqual(expected)
})

it('reads a value of 10,000 levels, as the API server accepts it', () => {
  const levels = 10_000
  const deep: unknown = JSON.parse(`${'{"a":['.repeat(levels)}${']}'.repeat(levels)}`)
  const found = prune(deep, 200)
  expect([isDeeper(found, 200), isDeeper(found, 199)]).toEqual([false, true])
})

it('leaves nothing deeper, and what is not deeper as it was', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 1, max: 6 }), (value, levels) => {
      const found = prune(value, levels)
      expect([isDeeper(found, levels), isDeeper(value, levels) || found === value]).toEqual([false, true])
    }),
  )
})
