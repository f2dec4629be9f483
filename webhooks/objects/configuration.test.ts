import { expect, test } from 'vitest'
import type { LabelSelector } from '../../api/object.ts'
import type { ObjectTarget } from '../../inventory/objects.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compileObjectPreset } from '../../presets/object-preset.ts'
import { kindsIn } from '../../presets/object-kind.ts'
import { webhooksFor, type Webhook } from './configuration.ts'

const definition = {
  kind: 'CustomResourceDefinition',
  spec: {
    group: 'g.test',
    names: { kind: 'Thing' },
    scope: 'Namespaced',
    versions: [
      { name: 'v1', schema: { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object' } } } } },
    ],
  },
}
const kinds = kindsIn(definition) ?? new Map()
const read = kinds.get('Thing of g.test/v1')()
const exclusions = { namespaces: ['kube-system', 'virtset-system'], accounts: ['a'] }

type Presets = { readonly [namespace: string]: readonly LabelSelector[] }

/** @param presets by their namespace; those of `` are for the cluster */
function targetWith(presets: Presets, broken: readonly LabelSelector[] = []): ObjectTarget {
  const candidates = createCandidates()
  const quarantined: ObjectTarget['quarantined'] = new Map()
  const compile = (selector: LabelSelector, name: string, namespace: string, spec: object) =>
    compileObjectPreset(
      {
        kind: namespace === '' ? 'ClusterObjectPreset' : 'ObjectPreset',
        metadata: { name, ...(namespace === '' ? {} : { namespace }) },
        spec: { target, selector, ...spec },
      },
      kinds,
    )
  // Thousands of presets have the same few selectors.
  const compiledOnce = new Map<string, ReturnType<typeof compile>>()
  for (const [namespace, selectors] of Object.entries(presets)) {
    for (const [index, selector] of selectors.entries()) {
      const name = `p${index}`
      const key = JSON.stringify([selector, namespace === ''])
      const compiled = compiledOnce.get(key) ?? compile(selector, name, namespace, {})
      compiledOnce.set(key, compiled)
      if (!('preset' in compiled)) continue
      candidates.set(namespace === '' ? compiled.preset : { ...compiled.preset, id: `${namespace}/${name}`, namespace })
    }
  }
  for (const [index, selector] of broken.entries()) {
    const compiled = compile(selector, `q${index}`, 'n', { object: { nothing: 1 } })
    if ('quarantined' in compiled) quarantined.set(`n/q${index}`, compiled.quarantined)
  }
  const spec = { ...target, failurePolicy: 'Ignore', namespaceSelector: { matchLabels: { team: 'a' } } } as const
  const metadata = { name: 'things.g.test' }
  return {
    target: { apiVersion: 'virtset.io/v1alpha1', kind: 'PresetTarget', metadata, spec },
    kind: read.kind,
    resource: 'things',
    candidates,
    quarantined,
  }
}
const target = { apiVersion: 'g.test/v1', kind: 'Thing' }
const size = { matchLabels: { size: 's' } }
const any = { matchExpressions: [{ key: 'size', operator: 'Exists' as const }] }
const otherLabel = { matchLabels: { a: 'b' } }
const not = { matchExpressions: [{ key: 'size', operator: 'NotIn' as const, values: ['s'] }] }

test.each<[string, ObjectTarget, readonly object[]]>([
  ['none without presets', targetWith({}), []],
  ['the label that all presets require', targetWith({ n: [size, { matchLabels: { size: 't', a: 'b' } }, any] }), [any]],
  ['every object for a preset that requires none', targetWith({ n: [size, {}] }), [{}]],
  [
    'every object for presets that require different ones',
    targetWith({ n: [size, { matchLabels: { a: 'b' } }] }),
    [{}],
  ],
  ['objects without the label', targetWith({ n: [not] }), [{}]],
  ['objects that broken presets select, for their warnings', targetWith({ n: [size] }, [otherLabel]), [{}]],
])('the API server sends %s', (_, entry, selectors) => {
  expect(webhooksFor([entry], exclusions).map(({ objectSelector }) => objectSelector)).toEqual(selectors)
})

const among = (operator: string, ...values: readonly string[]) => ({ operator, values })

test.each<[string, Presets, readonly object[]]>([
  [
    'of its own namespace',
    { n: [{}], o: [size] },
    [
      [any, among('In', 'o')],
      [{}, among('In', 'n')],
    ],
  ],
  [
    'beside those of the cluster, of its own namespace',
    { '': [size], n: [{}], o: [any] },
    [
      [any, among('In', 'o')],
      [{}, among('In', 'n')],
      [any, among('NotIn', 'n', 'o')],
    ],
  ],
  [
    'of the cluster, of every namespace',
    { '': [{}], n: [size] },
    [
      [{}, among('In', 'n')],
      [{}, among('NotIn', 'n')],
    ],
  ],
])('a preset decides which objects are sent only %s', (_, presets, expected) => {
  const sent = webhooksFor([targetWith(presets)], exclusions).map(({ objectSelector, namespaceSelector }) => {
    const { operator = '', values = [] } = namespaceSelector.matchExpressions?.[1] ?? {}
    return [objectSelector, among(operator, ...values)]
  })
  expect(sent).toEqual(expected)
})

test('of a cluster-scoped kind, namespaced presets are not for any object', () => {
  const entry = { ...targetWith({ n: [{}], '': [size] }, [otherLabel]), kind: { ...read.kind, isNamespaced: false } }
  const made = webhooksFor([entry], exclusions)
  expect(made.map(({ name, objectSelector, rules: [rule] }) => [name, objectSelector, rule?.scope])).toEqual([
    ['things.g.test.objects.virtset.io', any, 'Cluster'],
  ])
})

test('an expression of the target is beside those of virtset', () => {
  const entry = targetWith({ '': [size] })
  const namespaceSelector: LabelSelector = { matchExpressions: [{ key: 'k', operator: 'Exists' }] }
  const spec = { ...entry.target.spec, namespaceSelector }
  const [made] = webhooksFor([{ ...entry, target: { ...entry.target, spec } }], exclusions)
  expect(made?.namespaceSelector).toEqual({
    matchExpressions: [
      { key: 'k', operator: 'Exists' },
      { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: exclusions.namespaces },
    ],
  })
})

test.each([
  ['pods', 'v1', true],
  ['pods', 'metrics.k8s.io/v1', false],
  ['configmaps', 'v1', false],
])('of %s of %s, mirrors of static pods are left out: %s', (resource, apiVersion, isLeftOut) => {
  const entry = targetWith({ n: [size] })
  const spec = { ...entry.target.spec, apiVersion }
  const [made] = webhooksFor([{ ...entry, resource, target: { ...entry.target, spec } }], exclusions)
  expect(made?.matchConditions.map(({ name }) => name)).toEqual([
    'is-not-virtset',
    ...(isLeftOut ? ['is-not-static'] : []),
  ])
})

/** Presets of as many namespaces, half of them for other labels, and of the cluster. */
const presetsOf = (count: number): Presets => ({
  ...Object.fromEntries(
    Array.from({ length: count }, (_, index): [string, readonly LabelSelector[]] => [
      `n${index}`,
      [index % 2 === 0 ? size : { matchLabels: { size: 's', other: 'x' } }],
    ]),
  ),
  '': [any],
})
const listedBy = (made: readonly Webhook[]) =>
  made.flatMap(({ namespaceSelector: { matchExpressions = [] } }) =>
    matchExpressions.filter(({ operator }) => operator === 'In').flatMap(({ values = [] }) => values),
  )

test.each([
  [4000, 2, 4000],
  [4001, 1, 0],
])('%i namespaces with presets have %i webhooks', (count, webhooks, listed) => {
  const made = webhooksFor([targetWith(presetsOf(count))], exclusions)
  expect([made.length, listedBy(made).length]).toEqual([webhooks, listed])
  expect(made.every(({ objectSelector }) => objectSelector.matchExpressions?.[0]?.key === 'size')).toBe(true)
})

test('the limit of namespaces is for all targets, and those with the most are not distinguished', () => {
  const named = (resource: string, count: number) => ({ ...targetWith(presetsOf(count)), resource })
  const made = webhooksFor([named('things', 1500), named('wings', 3000), named('rings', 2000)], exclusions)
  expect(made.map(({ name }) => name)).toEqual([
    'rings.g.test.0.namespaced.virtset.io',
    'rings.g.test.objects.virtset.io',
    'things.g.test.0.namespaced.virtset.io',
    'things.g.test.objects.virtset.io',
    'wings.g.test.objects.virtset.io',
  ])
  expect(listedBy(made)).toHaveLength(3500)
})

test('without presets, there are no webhooks, however many targets there are', () => {
  expect(webhooksFor([targetWith({}), targetWith({})], exclusions)).toEqual([])
})

test('of many labels, those of the most namespaces have webhooks of their own', () => {
  const presets = Array.from({ length: 40 }, (_, index): [string, readonly LabelSelector[]] => [
    `n${index}`,
    [{ matchLabels: { [`l${Math.min(index, 20)}`]: 'x' } }],
  ])
  const made = webhooksFor([targetWith(Object.fromEntries(presets))], exclusions)
  expect(made.map(({ name }) => name)).toHaveLength(17)
  expect(made[0]).toMatchObject({ objectSelector: { matchExpressions: [{ key: 'l20', operator: 'Exists' }] } })
  expect(made.filter(({ objectSelector }) => objectSelector.matchExpressions === undefined)).toHaveLength(1)
})

test('of labels with equally many namespaces, the first have webhooks of their own', () => {
  const labels = Array.from({ length: 18 }, (_, index) => `l${index + 10}`)
  const presets = labels
    .toReversed()
    .map((label, index): [string, readonly LabelSelector[]] => [`n${index + 10}`, [{ matchLabels: { [label]: 'x' } }]])
  const sent = webhooksFor([targetWith(Object.fromEntries(presets))], exclusions).map(
    ({ objectSelector: { matchExpressions: [label] = [] } }) => label?.key,
  )
  expect(new Set(sent)).toEqual(new Set([...labels.slice(0, 16), undefined]))
})

test('the webhooks of a target that cannot be used stay as they are', () => {
  const usable = targetWith({ '': [size], n: [{}] })
  const before = webhooksFor([usable], exclusions)
  const others = before.map((webhook) => ({ ...webhook, name: `x${webhook.name}` }))
  const unusable = { target: usable.target, causes: [] }
  expect(before).toHaveLength(2)
  expect(webhooksFor([unusable], exclusions, [...others, ...before])).toEqual(before)
  expect(webhooksFor([], exclusions, before)).toEqual([])
})

test('a webhook is for one resource, outside of protected namespaces', () => {
  expect(webhooksFor([targetWith({ n: [size] })], exclusions)).toEqual([
    {
      name: 'things.g.test.0.namespaced.virtset.io',
      admissionReviewVersions: ['v1'],
      clientConfig: {
        service: {
          namespace: 'default',
          name: 'kubernetes',
          port: 443,
          path: '/apis/admission.virtset.io/v1alpha1/admissionreviews/objects',
        },
      },
      failurePolicy: 'Ignore',
      matchPolicy: 'Equivalent',
      namespaceSelector: {
        matchLabels: { team: 'a' },
        matchExpressions: [
          { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', 'virtset-system'] },
          { key: 'kubernetes.io/metadata.name', operator: 'In', values: ['n'] },
        ],
      },
      objectSelector: any,
      rules: [
        {
          apiGroups: ['g.test'],
          apiVersions: ['v1'],
          operations: ['CREATE'],
          resources: ['things'],
          scope: 'Namespaced',
        },
      ],
      matchConditions: [{ name: 'is-not-virtset', expression: '!(request.userInfo.username in ["a"])' }],
      sideEffects: 'None',
      timeoutSeconds: 5,
      reinvocationPolicy: 'IfNeeded',
    },
  ])
})
