import { expect, test } from 'vitest'
import type { PresetSpec } from '../../api/preset.ts'
import { emptyInventory } from '../../inventory/inventory.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { candidatesOf, preset } from '../../test/preset.ts'
import { cachesWithout } from './caches.ts'
import { createEngine } from './engine.ts'
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

const handledWith = (object: unknown, presetSpec: Partial<PresetSpec>, oldObject?: unknown) => {
  const inventory = { ...emptyInventory(), candidates: candidatesOf(preset('p', presetSpec, 'default')) }
  const engine = createEngine(cachesWithout(fakeClock(), inventory), () => Promise.resolve(false))
  return handler.validate(admissionRequest('VirtualMachineGroup', object, oldObject), engine, trust, noPermissions)
}
const valid = { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } }
const selecting = (selector: object) => group({ selector, template: { metadata: { labels }, spec: valid } })
const withApp = selecting({ matchLabels: labels })
const withoutTier = selecting({
  matchLabels: labels,
  matchExpressions: [{ key: 'example.com/tier', operator: 'NotIn', values: ['gold'] }],
})
const gold = { metadata: { labels: { 'example.com/tier': 'gold' } } }
const other: Partial<PresetSpec> = { strength: 'Enforce', metadata: { labels: { app: 'other' } } }

test.each<[string, unknown, Partial<PresetSpec>, unknown, readonly string[]]>([
  ['changes', withApp, other, undefined, ['selector-preset spec.template.metadata.labels.app']],
  ['adds', withoutTier, gold, undefined, ['selector-preset spec.template.metadata.labels[example.com/tier]']],
  ['adds without effect on the selector', withApp, gold, undefined, ['allowed']],
  ['would change in mode Warn', withApp, { ...other, mode: 'Warn' }, undefined, ['allowed']],
  ['changes for VMs of a stored group', withApp, other, withApp, ['allowed']],
])('a group with a label that a preset %s', (_, object, presetSpec, oldObject, expected) => {
  expect(outcomeOf(handledWith(object, presetSpec, oldObject))).toEqual(expected)
})

test('a group that could never have a VM is told by which preset', () => {
  expect(handledWith(withApp, other)).toMatchObject({
    allowed: false,
    causes: [
      {
        value: 'other',
        message:
          'preset "default/p" sets this label, but spec.selector requires app=web: the group could never have a VM',
        suggestion: 'change spec.selector and the labels of the template, or the selector of the preset',
      },
    ],
  })
})
