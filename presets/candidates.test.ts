import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clusterPreset, preset, team } from '../test/presets/make.ts'
import { createCandidates, selects } from './candidates.ts'

const ids = (presets: readonly { readonly id: string }[]) => presets.map(({ id }) => id).toSorted()

describe('which presets a VM gets', () => {
  const gold = { name: 'team', labels: { tier: 'gold', 'kubernetes.io/metadata.name': 'team' } }
  const list = [
    preset('all', { selector: {} }),
    preset('small', { selector: { matchLabels: { size: 'small' } } }),
    preset('small-web', { selector: { matchLabels: { size: 'small', app: 'web' } } }),
    preset('sized', { selector: { matchExpressions: [{ key: 'size', operator: 'Exists' }] } }),
    preset('unsized', { selector: { matchExpressions: [{ key: 'size', operator: 'DoesNotExist' }] } }),
    preset('some', { selector: { matchExpressions: [{ key: 'size', operator: 'In', values: ['small', 'medium'] }] } }),
    preset('not-large', { selector: { matchExpressions: [{ key: 'size', operator: 'NotIn', values: ['large'] }] } }),
    preset('elsewhere', { selector: {} }, 'other'),
    preset('one-of-many', {
      selector: {
        matchExpressions: [
          { key: 'size', operator: 'In', values: [...Array.from({ length: 40 }, (_, at) => `s${at}`), 'huge'] },
        ],
      },
    }),
    clusterPreset('everywhere', { selector: {} }),
    clusterPreset('golden', { selector: {}, namespaceSelector: { matchLabels: { tier: 'gold' } } }),
    clusterPreset('every-namespace', { selector: {}, namespaceSelector: {} }),
  ]
  const candidates = createCandidates(list)
  test.each([
    [{}, team, ['every-namespace', 'everywhere', 'team/all', 'team/not-large', 'team/unsized']],
    [
      { size: 'small' },
      team,
      ['every-namespace', 'everywhere', 'team/all', 'team/not-large', 'team/sized', 'team/small', 'team/some'],
    ],
    [
      { size: 'huge' },
      team,
      ['every-namespace', 'everywhere', 'team/all', 'team/not-large', 'team/one-of-many', 'team/sized'],
    ],
    [{ size: 'large' }, team, ['every-namespace', 'everywhere', 'team/all', 'team/sized']],
    [
      { size: 'small', app: 'web' },
      gold,
      [
        'every-namespace',
        'everywhere',
        'golden',
        'team/all',
        'team/not-large',
        'team/sized',
        'team/small',
        'team/small-web',
        'team/some',
      ],
    ],
    [{}, { name: 'other', labels: {} }, ['every-namespace', 'everywhere', 'other/elsewhere']],
    [{ size: 'small' }, { name: 'kube-system', labels: {} }, []],
    [{ size: 'small' }, { name: 'virtset-system', labels: { tier: 'gold' } }, []],
  ])('labels %j', (labels, namespace, expected) => {
    expect(ids(candidates.select(labels, namespace))).toEqual(expected)
  })
})

test.each([
  ['team', { name: 'team', labels: { tier: 'gold' } }, ['c', 'gold', 'team/a']],
  ['a namespace without presets', { name: 'other', labels: {} }, ['c']],
  ['a protected namespace', { name: 'kube-system', labels: { tier: 'gold' } }, []],
])('the presets in scope of %s', (_, namespace, expected) => {
  const candidates = createCandidates([
    preset('a', { selector: { matchLabels: { size: 'small' } } }),
    preset('b', { selector: {} }, 'elsewhere'),
    clusterPreset('c', { selector: { matchLabels: { size: 'large' } } }),
    clusterPreset('gold', { selector: {}, namespaceSelector: { matchLabels: { tier: 'gold' } } }),
  ])
  expect(ids(candidates.inScope(namespace))).toEqual(expected)
})

test('a namespaceSelector with Exists matches any value of the label', () => {
  const namespaceSelector = { matchExpressions: [{ key: 'tier', operator: 'Exists' }] }
  const candidates = createCandidates([clusterPreset('tiers', { namespaceSelector })])
  expect(ids(candidates.select({}, { name: 'team', labels: { tier: 'gold' } }))).toEqual(['tiers'])
  expect(ids(candidates.select({}, team))).toEqual([])
})

test('a new revision replaces the old one, even in another bucket', () => {
  const candidates = createCandidates([preset('a', { selector: { matchLabels: { size: 'small' } } })])
  candidates.set(preset('a', { selector: { matchLabels: { size: 'large' } } }))
  expect(candidates.size()).toBe(1)
  expect(ids(candidates.select({ size: 'small' }, team))).toEqual([])
  expect(ids(candidates.select({ size: 'large' }, team))).toEqual(['team/a'])
  candidates.delete('team/a')
  expect(candidates.size()).toBe(0)
  expect(candidates.select({ size: 'large' }, team)).toEqual([])
})

const key = fc.constantFrom('size', 'app', '__proto__')
const value = fc.constantFrom('a', 'b', '')
const requirement = fc.oneof(
  fc.record({ key, operator: fc.constantFrom('In', 'NotIn'), values: fc.uniqueArray(value, { minLength: 1 }) }),
  fc.record({ key, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
)
const selector = fc.record(
  { matchLabels: fc.dictionary(key, value), matchExpressions: fc.array(requirement, { maxLength: 3 }) },
  { requiredKeys: [] },
)
const labels = fc.dictionary(key, value)

test('the index finds the same presets as a full scan, after any changes', () => {
  const change = fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    isCluster: fc.boolean(),
    isDeleted: fc.boolean(),
    selector,
    namespaceSelector: fc.option(selector, { nil: undefined }),
  })
  fc.assert(
    fc.property(fc.array(change, { maxLength: 8 }), labels, labels, (changes, vmLabels, namespaceLabels) => {
      const candidates = createCandidates()
      const plain = new Map<string, ReturnType<typeof preset>>()
      for (const one of changes) {
        const made = one.isCluster
          ? clusterPreset(one.name, {
              selector: one.selector,
              ...(one.namespaceSelector === undefined ? {} : { namespaceSelector: one.namespaceSelector }),
            })
          : preset(one.name, { selector: one.selector })
        if (one.isDeleted) {
          candidates.delete(made.id)
          plain.delete(made.id)
        } else {
          candidates.set(made)
          plain.set(made.id, made)
        }
      }
      const namespace = { name: 'team', labels: namespaceLabels }
      const expected = [...plain.values()].filter((made) => selects(made, vmLabels, namespace))
      expect(ids(candidates.select(vmLabels, namespace))).toEqual(ids(expected))
    }),
    { numRuns: 500 },
  )
})

describe('the index tests few presets', () => {
  /** Records of which presets the selector of namespaces is read, the first that a test of a preset looks at. */
  const counted = (presets: readonly ReturnType<typeof preset>[]) => {
    const read: string[] = []
    const watched = presets.map((one) =>
      Object.defineProperty({ ...one }, 'namespaceSelector', {
        get: () => (read.push(one.name), one.namespaceSelector),
      }),
    )
    const candidates = createCandidates(watched)
    read.length = 0
    return { candidates, read }
  }
  const labels = { app: 'web', size: 's3', zone: 'a' }

  test('those of its rarest label', () => {
    const { candidates, read } = counted([
      preset('common', { selector: { matchLabels: { app: 'web' } } }),
      ...Array.from({ length: 9 }, (_, at) =>
        preset(`p${at}`, { selector: { matchLabels: { app: 'web', size: `s${at}` } } }),
      ),
    ])
    expect(ids(candidates.select(labels, team))).toEqual(['team/common', 'team/p3'])
    expect(read.toSorted()).toEqual(['common', 'p3'])
  })

  test('whatever the order of its labels', () => {
    const { candidates, read } = counted([
      preset('common', { selector: { matchLabels: { app: 'web' } } }),
      ...Array.from({ length: 9 }, (_, at) =>
        preset(`p${at}`, { selector: { matchLabels: { size: `s${at}`, app: 'web' } } }),
      ),
    ])
    expect(ids(candidates.select(labels, team))).toEqual(['team/common', 'team/p3'])
    expect(read.toSorted()).toEqual(['common', 'p3'])
  })

  test('one with up to 16 values is found by each of them, one with more by the key', () => {
    const values = (count: number) => Array.from({ length: count }, (_, at) => `s${at + 4}`)
    const among = (name: string, count: number) =>
      preset(name, { selector: { matchExpressions: [{ key: 'size', operator: 'In', values: values(count) }] } })
    const { candidates, read } = counted([among('many', 16), among('more', 17)])
    expect(ids(candidates.select(labels, team))).toEqual([])
    expect(read).toEqual(['more'])
    expect(ids(candidates.select({ size: 's19' }, team))).toEqual(['team/many', 'team/more'])
  })

  test('none of another namespace, and those of a namespace by its labels', () => {
    const { candidates, read } = counted([
      preset('elsewhere', { selector: {} }, 'other'),
      clusterPreset('gold', { selector: {}, namespaceSelector: { matchLabels: { tier: 'gold' } } }),
      clusterPreset('all', { selector: {} }),
    ])
    expect(ids(candidates.select(labels, team))).toEqual(['all'])
    expect(read).toEqual(['all'])
  })
})
