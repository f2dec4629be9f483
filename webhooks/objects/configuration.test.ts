import { expect, test } from 'vitest'
import type { LabelSelector } from '../../api/object.ts'
import type { ObjectTarget } from '../../inventory/objects.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compileObjectPreset } from '../../presets/object-preset.ts'
import { kindsIn } from '../../presets/object-kind.ts'
import { webhooksFor } from './configuration.ts'

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

function targetWith(selectors: readonly LabelSelector[], broken: readonly LabelSelector[] = []): ObjectTarget {
  const candidates = createCandidates()
  const quarantined: ObjectTarget['quarantined'] = new Map()
  const compile = (selector: LabelSelector, name: string, spec: object) =>
    compileObjectPreset(
      { kind: 'ObjectPreset', metadata: { name, namespace: 'n' }, spec: { target, selector, ...spec } },
      kinds,
    )
  for (const [index, selector] of selectors.entries()) {
    const compiled = compile(selector, `p${index}`, {})
    if ('preset' in compiled) candidates.set(compiled.preset)
  }
  for (const [index, selector] of broken.entries()) {
    const compiled = compile(selector, `q${index}`, { object: { nothing: 1 } })
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
const not = { matchExpressions: [{ key: 'size', operator: 'NotIn' as const, values: ['s'] }] }

test.each<[string, ObjectTarget, readonly object[]]>([
  ['none without presets', targetWith([]), []],
  ['the label that all presets require', targetWith([size, { matchLabels: { size: 't', a: 'b' } }, any]), [any]],
  ['every object for a preset that requires none', targetWith([size, {}]), [{}]],
  ['every object for presets that require different ones', targetWith([size, { matchLabels: { a: 'b' } }]), [{}]],
  ['objects without the label', targetWith([not]), [{}]],
  ['objects that broken presets select, for their warnings', targetWith([size], [{ matchLabels: { a: 'b' } }]), [{}]],
])('the API server sends %s', (_, entry, selectors) => {
  expect(webhooksFor([entry], exclusions).map(({ objectSelector }) => objectSelector)).toEqual(selectors)
})

test('a webhook is for one resource, outside of protected namespaces', () => {
  const unusable = { target: targetWith([]).target, causes: [] }
  expect(webhooksFor([unusable, targetWith([size])], exclusions)).toEqual([
    {
      name: 'things.g.test.objects.virtset.io',
      admissionReviewVersions: ['v1'],
      clientConfig: {
        service: {
          namespace: 'default',
          name: 'kubernetes',
          port: 443,
          path: '/apis/subresources.virtset.io/v1alpha1/admissionreviews/objects',
        },
      },
      failurePolicy: 'Ignore',
      matchPolicy: 'Equivalent',
      namespaceSelector: {
        matchLabels: { team: 'a' },
        matchExpressions: [
          { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', 'virtset-system'] },
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
