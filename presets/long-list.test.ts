import { expect, test } from 'vitest'
import { rootPath } from '../api/path.ts'
import { longListCauses } from './long-list.ts'
import { rankOf } from './source.ts'

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
