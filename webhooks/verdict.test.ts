import { describe, expect, test } from 'vitest'
import { completedByAnnotation, launcherPodFinalizer } from '../api/machine.ts'
import type { Engine } from './engine.ts'
import { operationsOf } from '../test/operations.ts'
import { patchBetween, writePatch } from './patch.ts'
import { mutate, validate } from './verdict.ts'
import type { Review, Verdict } from './review.ts'

const nothingToTell = {
  outcome: 'completed',
  origins: new Map(),
  overridden: new Map(),
  removed: new Map(),
  skipped: [],
  audit: [],
  participants: [],
  warnings: [],
} as const

/** Adds a title where there is none, refuses the title `bad`; the user wrote all but that. */
const engine: Engine = {
  permissions: () => undefined,
  expect() {},
  isOwn: () => false,
  patch: (before, after) => writePatch(patchBetween(before, after)),
  complete(machine) {
    if (machine.spec.domain.title === 'bad') {
      const cause = {
        rule: 'title',
        field: 'spec.domain.title',
        reason: 'FieldValueInvalid',
        message: 'is bad',
      } as const
      return { causes: [cause], warnings: ['look'] }
    }
    const annotations = { ...machine.metadata.annotations, [completedByAnnotation]: provenance }
    const domain = { title: 'added', ...machine.spec.domain }
    const whole = { ...machine, metadata: { ...machine.metadata, annotations }, spec: { ...machine.spec, domain } }
    return { completed: { ...nothingToTell, machine: whole }, warnings: [] }
  },
  remember: () => ({ isUsers: (path) => path !== 'spec.domain.title', isOverridden: () => false }),
  checkPreset: (preset) => ({
    causes: [],
    warnings: Object.keys(preset.spec.selector).length === 0 ? ['selects every VM'] : [],
  }),
}
const controller = 'system:serviceaccount:virtset-system:virtset-controller'
const trust = { controllers: [controller] }

const machine = (spec: object = { domain: { type: 'qemu' } }, metadata: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm1', ...metadata },
  spec,
})
/** The least that counts as one. */
const provenance = '{"v":1,"by":[]}'
const ours = { annotations: { [completedByAnnotation]: provenance }, finalizers: [launcherPodFinalizer] }
const stored = machine({ domain: { type: 'qemu', title: 'added' } }, ours)

const review = (object: unknown, oldObject?: unknown, username = 'jane', kind = 'VirtualMachine'): Review => ({
  uid: 'u-1',
  kind,
  name: 'vm1',
  namespace: 'default',
  operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
  user: { username, groups: [] },
  isDryRun: false,
  object,
  oldObject,
  request: {},
})

/** What is refused, as `rule field`; what is patched, as `op path`; or `allowed`. */
const told = (verdict: Verdict): string[] => {
  if (!verdict.allowed) return verdict.causes.map(({ rule, field }) => `${rule} ${field}`)
  const operations = operationsOf(verdict)
  return operations.length > 0 ? operations.map(({ op, path }) => `${op} ${path}`) : ['allowed']
}

const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineConfig', name: 'c1', uid: 'c' }
const job = { apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'j' }

describe('a new VM', () => {
  test.each<[string, unknown, string[]]>([
    [
      'is completed, marked and held',
      machine(),
      ['add /metadata/annotations', 'add /metadata/finalizers', 'add /spec/domain/title'],
    ],
    ['that is whole is left as it is', stored, ['allowed']],
    ['that no JSON object is', 7, ['type ']],
    ['of the wrong shape', machine({ domain: {}, nodeSelector: 1 }), ['type spec.nodeSelector']],
    [
      'of the wrong shape that breaks a rule and takes what is reserved',
      machine({ domain: { title: 'bad' }, nodeSelector: 1 }, { labels: { 'virtset.io/vm-uid': 'x' } }),
      ['type spec.nodeSelector', 'reserved-key metadata.labels[virtset.io/vm-uid]', 'title spec.domain.title'],
    ],
    [
      'with wrong volumes and tolerations',
      machine({ domain: {}, volumes: [{ name: 'A' }], tolerations: [{ operator: 'Exists', value: 'x' }] }),
      ['volume-kind spec.volumes[0]', 'volume-name spec.volumes[0].name', 'toleration-value spec.tolerations[0].value'],
    ],
    [
      'that takes what is reserved and breaks a rule',
      machine(
        { domain: { title: 'bad' } },
        { labels: { 'virtset.io/vm-uid': 'x', app: 'y' }, ownerReferences: [job, owner] },
      ),
      [
        'reserved-key metadata.labels[virtset.io/vm-uid]',
        'owner-reference metadata.ownerReferences[1]',
        'title spec.domain.title',
      ],
    ],
    [
      'may exclude presets, and what it says of its provenance is written anew',
      machine(undefined, { annotations: { 'virtset.io/exclude-presets': '*', [completedByAnnotation]: 'forged' } }),
      ['replace /metadata/annotations/virtset.io~1completed-by', 'add /metadata/finalizers', 'add /spec/domain/title'],
    ],
    [
      'may not use other annotations of ours',
      machine(undefined, { annotations: { 'virtset.io/other': 'x', 'sub.virtset.io/x': 'y' } }),
      ['reserved-key metadata.annotations[virtset.io/other]', 'reserved-key metadata.annotations[sub.virtset.io/x]'],
    ],
  ])('%s', (_, object, expected) => expect(told(mutate(review(object), engine, trust))).toEqual(expected))

  test('of the controller may have an owner', () => {
    const object = machine({ domain: { title: 't' } }, { ...ours, ownerReferences: [owner] })
    expect(told(mutate(review(object, undefined, controller), engine, trust))).toEqual(['allowed'])
    expect(told(validate(review(object, undefined, controller), engine, trust))).toEqual(['allowed'])
    expect(told(validate(review(object), engine, trust))).toEqual(['owner-reference metadata.ownerReferences[0]'])
  })

  test('is looked at once more before it is stored', () => {
    expect(told(validate(review(stored), engine, trust))).toEqual(['allowed'])
    const spoiled = machine({ domain: { title: 'bad' } }, ours)
    expect(told(validate(review(spoiled), engine, trust))).toEqual(['title spec.domain.title'])
    expect(mutate(review(spoiled), engine, trust).warnings).toEqual(['look'])
    const faulty = machine({ domain: { title: 'bad' }, nodeSelector: 1 }, ours)
    expect(told(validate(review(faulty), engine, trust))).toEqual(['type spec.nodeSelector', 'title spec.domain.title'])
  })
})

test('what was completed a moment ago is not completed again, but its owners are looked at', () => {
  const recalling: Engine = {
    ...engine,
    isOwn: () => true,
    complete() {
      throw new Error('completed again')
    },
  }
  expect(told(validate(review(stored), recalling, trust))).toEqual(['allowed'])
  const owned = machine(stored.spec, { ...ours, ownerReferences: [owner] })
  expect(told(validate(review(owned), recalling, trust))).toEqual(['owner-reference metadata.ownerReferences[0]'])
})

describe('a stored VM', () => {
  const short = machine()
  const ending = { ...ours, deletionTimestamp: '2026-11-21T09:00:00Z' }

  test.each<[string, object, object, string[]]>([
    [
      'applied again gets back what was added',
      short,
      stored,
      ['add /metadata/annotations', 'add /metadata/finalizers', 'add /spec/domain/title'],
    ],
    ['with a new label', { ...stored, metadata: { ...stored.metadata, labels: { a: 'b' } } }, stored, ['allowed']],
    [
      'with another spec',
      machine({ domain: { type: 'kvm', title: 'added' } }),
      stored,
      ['spec-immutable spec.domain.type'],
    ],
    ['without what its user wrote', machine({ domain: {} }), stored, ['spec-immutable spec.domain.type']],
    [
      'with forged provenance',
      machine(stored.spec, { ...ours, annotations: { [completedByAnnotation]: 'forged' } }),
      stored,
      ['replace /metadata/annotations/virtset.io~1completed-by'],
    ],
    [
      'that ends and loses its finalizer',
      machine(stored.spec, { ...ending, finalizers: [] }),
      { ...stored, metadata: ending },
      ['allowed'],
    ],
    ['that was never completed', machine(undefined, { labels: { a: 'b' } }), machine(), ['allowed']],
  ])('%s', (_, object, oldObject, expected) => {
    expect(told(mutate(review(object, oldObject), engine, trust))).toEqual(expected)
  })

  test.each<[string, object, object, string, string[]]>([
    ['unchanged', stored, stored, 'jane', ['allowed']],
    [
      'changed behind our back',
      machine({ domain: { type: 'qemu', title: 'x' } }, ours),
      stored,
      'jane',
      ['spec-immutable spec.domain.title'],
    ],
    [
      'spelled anew',
      machine({ domain: { memory: { value: '1' } } }, ours),
      machine({ domain: { memory: { value: 1 } } }, ours),
      'jane',
      ['spec-immutable spec'],
    ],
    [
      'changed by the controller',
      machine({ domain: { type: 'kvm', title: 'added' } }, ours),
      stored,
      controller,
      ['spec-immutable spec.domain.type'],
    ],
    ['completed by the controller', stored, machine(), controller, ['allowed']],
    ['completed by a user', stored, machine(), 'jane', ['spec-immutable spec.domain.title']],
    [
      'completed wrongly by the controller',
      machine({ domian: 1 }, ours),
      machine(),
      controller,
      ['required spec.domain', 'unknown-field spec.domian'],
    ],
    [
      'with an owner that a user gives it',
      machine(stored.spec, { ...ours, ownerReferences: [owner] }),
      stored,
      'jane',
      ['owner-reference metadata.ownerReferences[0]'],
    ],
    [
      'without the owner that it had',
      stored,
      machine(stored.spec, { ...ours, ownerReferences: [owner] }),
      'jane',
      ['owner-reference metadata.ownerReferences'],
    ],
    [
      'that ends and loses its finalizer to a user',
      machine(stored.spec, { ...ending, finalizers: [] }),
      machine(stored.spec, ending),
      'jane',
      ['finalizer metadata.finalizers'],
    ],
    [
      'that ends and loses its finalizer to the controller',
      machine(stored.spec, { ...ending, finalizers: [] }),
      machine(stored.spec, ending),
      controller,
      ['allowed'],
    ],
  ])('%s is judged', (_, object, oldObject, username, expected) => {
    expect(told(validate(review(object, oldObject, username), engine, trust))).toEqual(expected)
  })

  test.each<[unknown, string[]]>([
    [undefined, ['required metadata']],
    [{ labels: null, ownerReferences: [null] }, ['type metadata.labels', 'type metadata.ownerReferences[0]']],
  ])('whose metadata became %j is refused', (metadata, expected) => {
    const object = JSON.parse(JSON.stringify({ ...stored, metadata }))
    expect(told(validate(review(object, stored), engine, trust))).toEqual(expected)
  })
})

describe('a preset', () => {
  const preset = (spec: unknown, metadata: object = {}) => ({
    kind: 'VirtualMachinePreset',
    metadata: { name: 'p', ...metadata },
    spec,
  })
  const judge = (object: unknown) => mutate(review(object, undefined, 'jane', 'VirtualMachinePreset'), engine, trust)

  test.each<[string, unknown, string[]]>([
    ['without fault', preset({ selector: { matchLabels: { a: 'b' } }, domain: {} }), ['allowed']],
    ['without selector', preset({ domain: {} }), ['required spec.selector']],
    [
      'with every kind of fault',
      preset({
        selector: { matchExpressions: [{ key: 'a', operator: 'In' }] },
        namespaceSelector: {},
        strength: 'enforce',
        domain: 1,
      }),
      ['unknown-field spec.namespaceSelector', 'enumeration spec.strength', 'type spec.domain'],
    ],
    [
      'with names that cannot be',
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
    ['that is broken and being deleted', preset(7, { deletionTimestamp: 'now' }), ['allowed']],
  ])('%s', (_, object, expected) => expect(told(judge(object))).toEqual(expected))

  test('that selects every VM earns a warning', () => {
    expect(judge(preset({ selector: {} })).warnings).toEqual(['selects every VM'])
  })
})

test('verdicts read and never write', () => {
  const freeze = <T>(value: T): T => {
    if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(freeze)
    return value
  }
  const pairs: [object, object | undefined][] = [
    [freeze(machine()), undefined],
    [freeze(machine()), freeze(stored)],
  ]
  for (const [object, oldObject] of pairs) {
    const once = mutate(review(object, oldObject), engine, trust)
    expect(mutate(review(object, oldObject), engine, trust)).toEqual(once)
  }
})
