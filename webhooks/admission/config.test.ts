import { describe, expect, test } from 'vitest'
import { admissionRequest, outcomeOf, titleEngine, trust } from '../../test/admission.ts'
import { config as handler } from './config.ts'
import type { Engine } from './engine.ts'
import { noPermissions } from './permission.ts'

const spec = (title = 'good') => ({ domain: { type: 'qemu', title } })
const labels = { app: 'web' }
const claim = { name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }
const config = (template: object = { spec: spec() }, metadata: object = {}) => ({
  metadata: { name: 'web', ...metadata },
  spec: { template },
})
const handled = (object: unknown, oldObject?: unknown, engine: Engine = titleEngine, name = 'web') =>
  handler.validate(admissionRequest('VirtualMachineConfig', object, oldObject, { name }), engine, trust, noPermissions)

describe('a config', () => {
  const bad = ['title spec.template.spec.domain.title']
  const ending = { deletionTimestamp: '2026-11-21T09:00:00Z' }
  test.each<[string, unknown, unknown, readonly string[]]>([
    ['is completed as a dry run', config(), undefined, ['allowed']],
    ['is refused if its VM would be', config({ spec: spec('bad') }), undefined, bad],
    ['is checked again when its template changes', config({ spec: spec('bad') }), config(), bad],
    [
      'is not completed again if its template is unchanged, regardless of the current presets',
      config({ spec: spec('bad') }, { labels }),
      config({ spec: spec('bad') }),
      ['allowed'],
    ],
    ['is broken and being deleted', { metadata: {}, spec: 7 }, { metadata: ending, spec: 7 }, ['allowed']],
    ['is being deleted, with another template', config({ spec: spec('bad') }), config({ spec: spec() }, ending), bad],
    ['whose update forges a deletion is checked', config({ spec: spec('bad') }, ending), config(), bad],
    ['is not an object', 7, undefined, ['type ']],
    ['has no spec', { metadata: { name: 'web' } }, undefined, ['required spec.template']],
    ['has no template', { metadata: { name: 'web' }, spec: {} }, undefined, ['required spec.template']],
    ['has an empty template', config({}), undefined, ['required spec.template.spec']],
    ['has a template of the wrong type', { metadata: {}, spec: { template: 7 } }, undefined, ['type spec.template']],
    [
      'has an unknown field',
      config({ spec: { ...spec(), nodeSelektor: {} } }),
      undefined,
      ['unknown-field spec.template.spec.nodeSelektor'],
    ],
    [
      'has faults inside and outside the domain',
      config({ spec: { domain: { memery: 1 }, nodeSelector: 7 } }),
      undefined,
      ['type spec.template.spec.nodeSelector', 'unknown-field spec.template.spec.domain.memery'],
    ],
    [
      'has a fault, and breaks a rule elsewhere',
      config({ spec: { ...spec('bad'), nodeSelektor: {} } }),
      undefined,
      ['unknown-field spec.template.spec.nodeSelektor', ...bad],
    ],
    [
      'has a fault in an unchanged template',
      config({ spec: { ...spec('bad'), nodeSelektor: {} } }),
      config({ spec: { ...spec('bad'), nodeSelektor: {} } }),
      ['unknown-field spec.template.spec.nodeSelektor'],
    ],
    [
      'has a fault in an unchanged template whose claims change',
      { ...config({ spec: spec('bad') }), spec: { claimTemplates: [claim], template: { spec: spec('bad') } } },
      config({ spec: spec('bad') }),
      bad,
    ],
    [
      'has a device of the node of no kind',
      config({ spec: { ...spec(), hostDevices: [{ name: 'gpu' }] } }),
      undefined,
      ['host-device-kind spec.template.spec.hostDevices[0]'],
    ],
    [
      'must not use reserved keys',
      config({
        metadata: { labels: { 'virtset.io/vm-uid': 'x' }, annotations: { 'virtset.io/completed-by': 'me' } },
        spec: spec(),
      }),
      undefined,
      [
        'reserved-key spec.template.metadata.labels[virtset.io/vm-uid]',
        'reserved-key spec.template.metadata.annotations[virtset.io/completed-by]',
      ],
    ],
    [
      'may exclude presets',
      config({ metadata: { annotations: { 'virtset.io/exclude-presets': 'a' } }, spec: spec() }),
      undefined,
      ['allowed'],
    ],
    [
      'has malformed labels',
      config({ metadata: { labels: { app: 'a b' } }, spec: spec() }),
      undefined,
      ['label-value spec.template.metadata.labels[app]'],
    ],
  ])('%s', (_, object, oldObject, expected) => expect(outcomeOf(handled(object, oldObject))).toEqual(expected))

  test('gets the warnings of its VM, refused or not; a malformed or unchanged one gets none', () => {
    const warnings = [
      handled(config()),
      handled(config({ spec: spec('bad') })),
      handled(config({ spec: { ...spec(), nodeSelektor: {} } })),
      handled(config(), config()),
    ].map((result) => result.warnings)
    expect(warnings).toEqual([['completed'], ['refused'], [], []])
  })

  test.each([
    ['web', 'web'],
    ['', 'vm'],
  ])('named %j is completed under the name and namespace of its VM', (name, expected) => {
    const completed: unknown[] = []
    const engine: Engine = {
      ...titleEngine,
      complete(vm, ...rest) {
        completed.push(vm)
        return titleEngine.complete(vm, ...rest)
      },
    }
    handled(config({ metadata: { labels }, spec: spec() }), undefined, engine, name)
    expect(completed).toEqual([
      {
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'VirtualMachine',
        metadata: { name: expected, namespace: 'default', labels },
        spec: spec(),
      },
    ])
  })
})

test('a template is completed without the exemptions of its author, with a warning', () => {
  const seen: unknown[] = []
  const engine: Engine = {
    ...titleEngine,
    complete(vm, request, permissions) {
      seen.push([...permissions.exempt])
      const warnings = [
        'virtset.io/exclude-presets: preset "site" applies: to exclude it requires the verb "exempt" on it',
      ]
      return { ...titleEngine.complete(vm, request, permissions), warnings }
    },
  }
  const permissions = { ...noPermissions, exempt: new Set(['site']) }
  const result = handler.validate(admissionRequest('VirtualMachineConfig', config()), engine, trust, permissions)
  expect(seen).toEqual([[]])
  expect(result.warnings).toEqual([
    'virtset.io/exclude-presets: preset "site" applies: a template can exclude only defaults of its namespace',
  ])
})
