import { expect, test } from 'vitest'
import { element, leaves } from '../api/domain/description.ts'
import { line } from '../api/domain/text.ts'
import { rootPath } from '../api/path.ts'
import { longListCauses } from './long-list.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import { byUser, rankOf, userRank } from './source.ts'
import { templateStructure } from './structure.ts'
import { emit } from './tree.ts'

const source = (name: string, value: unknown) => ({
  rank: rankOf('cluster Default', 0),
  origin: { by: 'preset', name, revision: '1' } as const,
  value,
})
const causes = (...sources: ReturnType<typeof source>[]) =>
  longListCauses([{ path: { parent: rootPath, key: 'words' }, length: 9, maxItems: 8, sources }])

test('names the presets that have the most items', () => {
  expect(causes(source('b', [1]), source('a', [1]), source('c', [1, 2]))).toEqual([
    {
      rule: 'list-length',
      field: 'words',
      value: 9,
      reason: 'FieldValueTooMany',
      message: 'must have at most 8 items, and has 9 including those of presets: "c" has 2, "a" has 1, "b" has 1',
      suggestion: 'change the labels so that fewer of these presets match, or shorten their lists',
    },
  ])
})

test('counts the presets beyond three', () => {
  const four = [source('d', 'one'), source('c', [1, 2]), source('b', [1, 2, 3]), source('a', [1, 2, 3, 4])]
  expect(causes(...four)[0]?.message).toMatch(/: "a" has 4, "b" has 3, "c" has 2 and 1 more presets$/)
})

test.each<[string, string[] | undefined, string[], string[] | undefined, number]>([
  ['as many as are allowed', ['a', 'b'], ['c'], ['a', 'b', 'c'], 0],
  ['one more', ['a', 'b'], ['c', 'd'], ['a', 'b'], 1],
  ['too many of a preset alone', undefined, ['a', 'b', 'c', 'd'], undefined, 1],
  ['too many of the user, of which the preset has some', ['a', 'b', 'c', 'd'], ['d'], ['a', 'b', 'c', 'd'], 0],
  ['too many of the user, and one of the preset', ['a', 'b', 'c', 'd'], ['e'], ['a', 'b', 'c', 'd'], 1],
])('a list with %s', (_, users, words, expected, count) => {
  const structure = templateStructure(
    element('A domain.', { words: leaves('word', line(), 'Words.', { maxItems: 3 }) }),
  )
  const merge = emptyMerge()
  const vm = (value: string[] | undefined) => ({ spec: { domain: { title: 't', ...(value && { words: value }) } } })
  const sources = [{ rank: userRank, origin: byUser, value: vm(users) }, source('p', vm(words))]
  const node = mergeSources(structure, sources, rootPath, merge)
  const value = node === undefined ? undefined : emit(node, rootPath).value
  expect([value, merge.longLists.length]).toEqual([vm(expected), count])
})
