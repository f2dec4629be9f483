import { expect, test } from 'vitest'
import {
  byUser,
  compareSources,
  compareText,
  isUser,
  type Layer,
  layerOf,
  originLabel,
  priorityOf,
  rankOf,
  userRank,
} from './source.ts'

const preset = (name: string, rank: number, namespace?: string) => ({
  rank,
  origin: { by: 'preset', name, revision: '1', ...(namespace === undefined ? {} : { namespace }) } as const,
  value: undefined,
})

test.each<[Layer, number]>([
  ['cluster Default', -(2 ** 31)],
  ['cluster Default', 2 ** 31 - 1],
  ['namespace Default', 0],
  ['user', 0],
  ['namespace Enforce', -5],
  ['cluster Enforce', 7],
])('the rank of %s with priority %i contains both', (layer, priority) => {
  const rank = rankOf(layer, priority)
  expect([layerOf(rank), priorityOf(rank)]).toEqual([layer, priority])
})

test('any priority of a layer is below any of the next layer', () => {
  expect(rankOf('namespace Default', -(2 ** 31)) > rankOf('cluster Default', 2 ** 31 - 1)).toBe(true)
  expect([rankOf('namespace Default', 99) < userRank, rankOf('namespace Enforce', -99) > userRank]).toEqual([
    true,
    true,
  ])
})

test('the stronger source comes first, equals by their label', () => {
  const sources = [preset('b', 1), preset('a', 1), preset('c', 2), preset('b', 1, 'a')]
  expect(sources.toSorted(compareSources).map(({ origin }) => originLabel(origin))).toEqual(['c', 'a', 'a/b', 'b'])
})

test.each([
  ['a', 'b', -1],
  ['b', 'a', 1],
  ['a', 'a', 0],
  ['B', 'a', -1],
])('%s compared with %s: %i', (left, right, expected) => expect(compareText(left, right)).toBe(expected))

test('labels', () => {
  expect([byUser, { by: 'default', rule: 'r' } as const].map(originLabel)).toEqual(['user', 'default r'])
  expect([isUser({ rank: 0, origin: byUser, value: 1 }), isUser(preset('a', 0))]).toEqual([true, false])
})
