import { expect, test } from 'vitest'
import { admissionRequest, outcomeOf, titleEngine, trust } from '../../test/admission.ts'
import { group as handler } from './group.ts'
import { noPermissions } from './permission.ts'

const spec = (title = 'good') => ({ domain: { type: 'qemu', title } })
const labels = { app: 'web' }
const group = (more: object = {}) => ({
  metadata: { name: 'web' },
  spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: spec() }, ...more },
})
const handled = (object: unknown, oldObject?: unknown) =>
  handler.validate(admissionRequest('VirtualMachineGroup', object, oldObject), titleEngine, trust, noPermissions)

/** 500 characters of JSON each. */
const manyValues = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    key: `k${index}`,
    operator: 'NotIn' as const,
    values: Array.from({ length: 8 }, (_, value) => `${value}${'x'.repeat(55)}`),
  }))

test.each<[string, unknown, unknown, readonly string[]]>([
  ['whose selector matches its template', group(), undefined, ['allowed']],
  [
    'whose selector does not match its template',
    group({ selector: { matchLabels: { app: 'db' } } }),
    undefined,
    ['selector-template spec.template.metadata.labels'],
  ],
  [
    'whose template has no labels',
    group({ template: { spec: spec() } }),
    undefined,
    ['selector-template spec.template.metadata.labels'],
  ],
  ['with an empty selector', group({ selector: {} }), undefined, ['selector-empty spec.selector']],
  [
    'with a larger selector than the controller caches',
    group({ selector: { matchLabels: labels, matchExpressions: manyValues(20) } }),
    undefined,
    ['selector-size spec.selector'],
  ],
  [
    'with a selector of many short expressions',
    group({
      selector: {
        matchLabels: labels,
        matchExpressions: Array.from({ length: 80 }, (_, index) => ({ key: `k${index}`, operator: 'DoesNotExist' })),
      },
    }),
    undefined,
    ['selector-size spec.selector'],
  ],
  [
    'with a large selector',
    group({ selector: { matchLabels: labels, matchExpressions: manyValues(8) } }),
    undefined,
    ['allowed'],
  ],
  [
    'with another selector than the stored one',
    group({ selector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] } }),
    group(),
    ['selector-immutable spec.selector'],
  ],
  ['that is scaled', group({ replicas: 9 }), group(), ['allowed']],
  ['with a negative number of replicas', group({ replicas: -1 }), undefined, ['range spec.replicas']],
  ['with half a replica', group({ replicas: 0.5 }), undefined, ['type spec.replicas']],
  [
    'whose template is refused',
    group({ template: { metadata: { labels }, spec: spec('bad') } }),
    undefined,
    ['title spec.template.spec.domain.title'],
  ],
])('a group %s', (_, object, oldObject, expected) => {
  expect(outcomeOf(handled(object, oldObject))).toEqual(expected)
})

test('both findings about the selector are reported, with the values', () => {
  const changed = group({ selector: { matchLabels: { app: 'db' } } })
  expect(handled(changed, group())).toEqual({
    allowed: false,
    causes: [
      {
        rule: 'selector-template',
        field: 'spec.template.metadata.labels',
        value: labels,
        reason: 'FieldValueInvalid',
        message: 'must match spec.selector, which requires app=db',
      },
      {
        rule: 'selector-immutable',
        field: 'spec.selector',
        value: 'app=db',
        reason: 'FieldValueInvalid',
        message: 'is immutable: with another selector the group would lose its VMs',
      },
    ],
    warnings: [],
  })
})
