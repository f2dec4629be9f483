import { expect, test } from 'vitest'
import * as make from '../test/presets/make.ts'
import { preset } from '../test/preset.ts'
import { compilePreset, revisionOf } from './compile.ts'

test.each<[string, string | undefined, string]>([
  ['a namespaced preset', 'team', 'team/broken'],
  ['a cluster preset', undefined, 'broken'],
])('quarantines %s whose spec cannot be read', (_, namespace, id) => {
  const { kind, metadata } = preset('broken', {}, namespace)
  const broken = {
    kind,
    metadata,
    get spec() {
      throw new RangeError('Maximum call stack size exceeded')
    },
  }
  expect(compilePreset(broken)).toEqual({
    quarantined: {
      id,
      ...(namespace === undefined ? {} : { namespace }),
      size: 1024,
      selector: undefined,
      namespaceSelector: undefined,
      causes: [
        {
          rule: 'preset-unreadable',
          field: 'spec',
          reason: 'FieldValueInvalid',
          message: 'cannot be read: Maximum call stack size exceeded',
        },
      ],
    },
  })
})

test('a preset has only what it states', () => {
  const [namespaced, cluster] = [
    make.preset('p', { domain: { title: 'a' } }),
    make.clusterPreset('c', { metadata: { labels: { a: 'b' } } }),
  ]
  expect([namespaced.content, cluster.content]).toStrictEqual([
    { spec: { domain: { title: 'a' } } },
    { metadata: { labels: { a: 'b' } } },
  ])
  expect([namespaced.namespace, Object.hasOwn(cluster, 'namespace')]).toEqual(['team', false])
  expect([namespaced.id, namespaced.layer, cluster.id, cluster.layer]).toEqual([
    'team/p',
    'namespace Default',
    'c',
    'cluster Default',
  ])
})

test('a valid preset is compiled', () => {
  expect(compilePreset(preset('p', { domain: { title: 'a' } }, 'team'))).toMatchObject({
    preset: { id: 'team/p', namespace: 'team', mode: 'Apply', content: { spec: { domain: { title: 'a' } } } },
  })
})

test('a template that nests 9,900 levels has a revision', () => {
  const deep: unknown = JSON.parse(`${'{"a":'.repeat(9900)}0${'}'.repeat(9900)}`)
  expect(revisionOf({ spec: deep })).toMatch(/^[0-9a-f]{16}$/)
  expect(revisionOf({ spec: { a: 0 } })).not.toBe(revisionOf({ spec: deep }))
})
