import { describe, expect, test } from 'vitest'
import { admissionRequest, outcomeOf, titleEngine, trust } from '../../test/admission.ts'
import type { Engine } from './engine.ts'
import { mutate, validate } from './handler.ts'
import { noPermissions } from './permission.ts'

const preset = (spec: unknown) => ({ kind: 'VirtualMachinePreset', metadata: { name: 'p' }, spec })
const selector = { matchLabels: { a: 'b' } }

describe.each([
  ['mutate', mutate],
  ['validate', validate],
])('%s: a preset', (_, handle) => {
  const handled = (object: unknown, oldObject?: unknown) =>
    handle(admissionRequest('VirtualMachinePreset', object, oldObject), titleEngine, trust)

  test.each<[string, unknown, string[]]>([
    ['without faults', preset({ selector, domain: {} }), ['allowed']],
    ['without selector', preset({ domain: {} }), ['required spec.selector']],
    [
      'with faults of every kind',
      preset({
        selector: { matchExpressions: [{ key: 'a', operator: 'In' }] },
        namespaceSelector: {},
        strength: 'enforce',
        domain: 1,
      }),
      ['unknown-field spec.namespaceSelector', 'enumeration spec.strength', 'type spec.domain'],
    ],
    [
      'with invalid names',
      preset({
        selector: { matchExpressions: [{ key: 'a', operator: 'In' }] },
        metadata: { labels: { 'virtset.io/a': 'b' } },
        exclusiveGroup: 'A B',
      }),
      [
        'selector-values spec.selector.matchExpressions[0].values',
        'reserved-key spec.metadata.labels[virtset.io/a]',
        'group-name spec.exclusiveGroup',
      ],
    ],
    ['that the engine refuses', preset({ selector, domain: { title: 'bad' } }), ['title spec.domain.title']],
  ])('%s', (_title, object, expected) => expect(outcomeOf(handled(object))).toEqual(expected))

  test('gets the warnings of the engine, refused or not', () => {
    expect(handled(preset({ selector, domain: {} })).warnings).toEqual(['checked'])
    expect(handled(preset({ selector, domain: { title: 'bad' } })).warnings).toEqual(['checked'])
  })

  const broken = { metadata: { name: 'p', deletionTimestamp: '2026-11-21T09:00:00Z' }, spec: 7 }
  test.each<[string, unknown, unknown, string[]]>([
    ['that is broken and being deleted', broken, broken, ['allowed']],
    [
      'that is being deleted, with another spec',
      preset({ selector, domain: { title: 'bad' } }),
      { ...preset({ selector }), metadata: broken.metadata },
      ['title spec.domain.title'],
    ],
    ['that is broken, whose update forges a deletion', broken, preset(7), ['type spec']],
    ['that is broken and created with a deletion', broken, undefined, ['type spec']],
  ])('%s', (_title, object, oldObject, expected) => expect(outcomeOf(handled(object, oldObject))).toEqual(expected))

  test('is checked with the permissions of its user', () => {
    const granted = { ...noPermissions, mayGrantHost: true }
    const engine = {
      ...titleEngine,
      checkPreset: (_preset: unknown, permissions: unknown) => ({
        causes: [],
        warnings: [JSON.stringify(permissions)],
      }),
    }
    const request = admissionRequest('ClusterVirtualMachinePreset', {
      ...preset({ selector }),
      kind: 'ClusterVirtualMachinePreset',
    })
    expect(handle(request, engine, trust, granted).warnings).toEqual([JSON.stringify(granted)])
  })
})

test('a preset is compared with others only by the validating webhook', () => {
  const compared: boolean[] = []
  const engine: Engine = {
    ...titleEngine,
    checkPreset(_preset, _permissions, isCompared) {
      compared.push(isCompared)
      return { causes: [], warnings: [] }
    },
  }
  const request = admissionRequest('VirtualMachinePreset', preset({ selector }))
  for (const handle of [mutate, validate]) handle(request, engine, trust)
  expect(compared).toEqual([false, true])
})
