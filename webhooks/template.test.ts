import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../api/machine.ts'
import type { Engine } from './engine.ts'
import { noPermissions } from './permission.ts'
import type { Review, Verdict } from './review.ts'
import { machineReview, reviewTemplate } from './template.ts'

const seen: unknown[] = []
/** Refuses the title `bad`. */
const engine = {
  complete(machine: VirtualMachine) {
    seen.push(machine)
    const cause = { rule: 'title', field: 'spec.domain.title', reason: 'FieldValueInvalid', message: 'is bad' } as const
    return machine.spec.domain.title === 'bad'
      ? { causes: [cause], warnings: [] }
      : { completed: { machine }, warnings: ['look'] }
  },
} as unknown as Engine

const spec = (title = 'good') => ({ domain: { type: 'qemu', title } })
const labels = { app: 'web' }
const config = (template: object = { spec: spec() }, metadata: object = {}) => ({
  metadata: { name: 'web', ...metadata },
  spec: { template },
})
const group = (more: object = {}) => ({
  metadata: { name: 'web' },
  spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: spec() }, ...more },
})

const review = (kind: string, object: unknown, oldObject?: unknown): Review => ({
  uid: 'u-1',
  kind,
  name: 'web',
  namespace: 'default',
  operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
  user: { username: 'jane', groups: [] },
  isDryRun: false,
  object,
  oldObject,
  request: {},
})
const told = (verdict: Verdict) =>
  verdict.allowed ? (verdict.warnings ?? []) : verdict.causes.map(({ rule, field }) => `${rule} ${field}`)
const judge = (kind: string, object: unknown, oldObject?: unknown) =>
  told(reviewTemplate(review(kind, object, oldObject), engine, noPermissions))

describe('a config', () => {
  const fine = ['look']
  const bad = ['title spec.template.spec.domain.title']
  test.each<[string, unknown, unknown, readonly string[]]>([
    ['is completed for a try', config(), undefined, fine],
    ['is refused where its VM would be', config({ spec: spec('bad') }), undefined, bad],
    ['is judged anew when its template changes', config({ spec: spec('bad') }), config(), bad],
    [
      'is not when it stays, whatever presets there are now',
      config({ spec: spec('bad') }, { labels }),
      config({ spec: spec('bad') }),
      [],
    ],
    ['that is being deleted is let go', config({ spec: spec('bad') }, { deletionTimestamp: 'x' }), config(), []],
    ['is no object', 7, undefined, ['type ']],
    ['has no spec', { metadata: { name: 'web' } }, undefined, ['required spec.template']],
    ['has no template', { metadata: { name: 'web' }, spec: {} }, undefined, ['required spec.template']],
    ['has an empty template', config({}), undefined, ['required spec.template.spec']],
    [
      'has a field that is none',
      config({ spec: { ...spec(), nodeSelektor: {} } }),
      undefined,
      ['unknown-field spec.template.spec.nodeSelektor'],
    ],
    [
      'tells of its domain, too',
      config({ spec: { domain: { memery: 1 }, nodeSelector: 7 } }),
      undefined,
      ['type spec.template.spec.nodeSelector', 'unknown-field spec.template.spec.domain.memery'],
    ],
    [
      'tells of what is wrong with its VM beside its faults',
      config({ spec: { ...spec('bad'), nodeSelektor: {} } }),
      undefined,
      ['unknown-field spec.template.spec.nodeSelektor', ...bad],
    ],
    [
      'tells nothing more of a template that stays',
      config({ spec: { ...spec('bad'), nodeSelektor: {} } }),
      config({ spec: { ...spec('bad'), nodeSelektor: {} } }),
      ['unknown-field spec.template.spec.nodeSelektor'],
    ],
    [
      'may not use what is reserved',
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
      'may decline presets',
      config({ metadata: { annotations: { 'virtset.io/exclude-presets': 'a' } }, spec: spec() }),
      undefined,
      fine,
    ],
    [
      'has labels of the wrong form',
      config({ metadata: { labels: { app: 'a b' } }, spec: spec() }),
      undefined,
      ['label-value spec.template.metadata.labels[app]'],
    ],
  ])('%s', (_, object, oldObject, expected) => {
    expect(judge('VirtualMachineConfig', object, oldObject)).toEqual(expected)
  })

  test('is completed under the name that its VM will have, where it will be', () => {
    seen.length = 0
    judge('VirtualMachineConfig', config({ metadata: { labels }, spec: spec() }))
    expect(seen).toMatchObject([{ kind: 'VirtualMachine', metadata: { name: 'web', namespace: 'default', labels } }])
  })
})

describe('a group', () => {
  test.each<[string, unknown, unknown, readonly string[]]>([
    ['whose selector matches its template', group(), undefined, ['look']],
    [
      'whose selector does not',
      group({ selector: { matchLabels: { app: 'db' } } }),
      undefined,
      ['selector-template spec.template.metadata.labels'],
    ],
    ['of everything', group({ selector: {} }), undefined, ['selector-empty spec.selector']],
    [
      'with another selector than is stored',
      group({ selector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] } }),
      group(),
      ['selector-immutable spec.selector'],
    ],
    ['that is scaled', group({ replicas: 9 }), group(), []],
    ['of fewer than none', group({ replicas: -1 }), undefined, ['range spec.replicas']],
    ['of half a VM', group({ replicas: 0.5 }), undefined, ['type spec.replicas']],
    [
      'with a template that is refused',
      group({ template: { metadata: { labels }, spec: spec('bad') } }),
      undefined,
      ['title spec.template.spec.domain.title'],
    ],
  ])('%s', (_, object, oldObject, expected) => {
    expect(judge('VirtualMachineGroup', object, oldObject)).toEqual(expected)
  })
})

test('permissions are asked for as if the user made the VM', () => {
  const annotations = { 'virtset.io/exclude-presets': 'a' }
  const asked = machineReview(review('VirtualMachineConfig', config({ metadata: { annotations }, spec: spec() })))
  expect(asked).toMatchObject({
    kind: 'VirtualMachine',
    operation: 'CREATE',
    user: { username: 'jane' },
    object: { metadata: { annotations }, spec: spec() },
  })
  expect(machineReview(review('VirtualMachineConfig', 7)).object).toMatchObject({ metadata: { name: 'web' } })
})
