import fastJsonPatch, { type Operation } from 'fast-json-patch'
import { describe, expect, test } from 'vitest'
import { completedByAnnotation, launcherPodFinalizer } from '../../api/virtual-machine.ts'
import {
  admissionRequest,
  controllerAccount as controller,
  outcomeOf,
  titleEngine as engine,
  titleProvenance,
  trust,
} from '../../test/admission.ts'
import { operationsOf } from '../../test/operations.ts'
import type { Engine } from './engine.ts'
import { mutate, validate } from './handler.ts'
import type { AdmissionRequest } from './request.ts'

const vm = (spec: object = { domain: { type: 'qemu' } }, metadata: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm1', ...metadata },
  spec,
})
const ours = { annotations: { [completedByAnnotation]: titleProvenance }, finalizers: [launcherPodFinalizer] }
const stored = vm({ domain: { type: 'qemu', title: 'added' } }, ours)

const requestFor = (object: unknown, oldObject?: unknown, username = 'jane'): AdmissionRequest =>
  admissionRequest('VirtualMachine', object, oldObject, { user: { username, groups: [] } })

const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineConfig', name: 'c1', uid: 'c' }
const job = { apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'j' }

/** 60 labels with 18 KB in all. */
const many = Object.fromEntries(
  Array.from({ length: 60 }, (_, index) => [`${'a'.repeat(230)}.example/${index}`, 'x'.repeat(63)]),
)

describe('a new VM', () => {
  test.each<[string, unknown, string[]]>([
    [
      'is completed and gets provenance and the finalizer',
      vm(),
      ['add /metadata/annotations', 'add /metadata/finalizers', 'add /spec/domain/title'],
    ],
    ['that is not a JSON object but null', null, ['type ']],
    ['that is complete is unchanged', stored, ['allowed']],
    ['that is not a JSON object', 7, ['type ']],
    ['of the wrong shape', vm({ domain: {}, nodeSelector: 1 }), ['type spec.nodeSelector']],
    [
      'of the wrong shape that breaks a rule and uses reserved keys',
      vm({ domain: { title: 'bad' }, nodeSelector: 1 }, { labels: { 'virtset.io/vm-uid': 'x' } }),
      ['type spec.nodeSelector', 'reserved-key metadata.labels[virtset.io/vm-uid]', 'title spec.domain.title'],
    ],
    [
      'with wrong volumes and tolerations',
      vm({ domain: {}, volumes: [{ name: 'A' }], tolerations: [{ operator: 'Exists', value: 'x' }] }),
      ['volume-kind spec.volumes[0]', 'volume-name spec.volumes[0].name', 'toleration-value spec.tolerations[0].value'],
    ],
    [
      'that uses reserved metadata and breaks a rule',
      vm(
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
      'may exclude presets, and its own provenance is overwritten',
      vm(undefined, { annotations: { 'virtset.io/exclude-presets': '*', [completedByAnnotation]: 'forged' } }),
      ['replace /metadata/annotations/virtset.io~1completed-by', 'add /metadata/finalizers', 'add /spec/domain/title'],
    ],
    [
      'must not use other reserved annotations',
      vm(undefined, { annotations: { 'virtset.io/other': 'x', 'sub.virtset.io/x': 'y' } }),
      ['reserved-key metadata.annotations[virtset.io/other]', 'reserved-key metadata.annotations[sub.virtset.io/x]'],
    ],
  ])('%s', (_, object, expected) => expect(outcomeOf(mutate(requestFor(object), engine, trust))).toEqual(expected))

  test('that the controller creates may have an owner', () => {
    const object = vm({ domain: { title: 't' } }, { ...ours, ownerReferences: [owner] })
    expect(outcomeOf(mutate(requestFor(object, undefined, controller), engine, trust))).toEqual(['allowed'])
    expect(outcomeOf(validate(requestFor(object, undefined, controller), engine, trust))).toEqual(['allowed'])
    expect(outcomeOf(validate(requestFor(object), engine, trust))).toEqual([
      'owner-reference metadata.ownerReferences[0]',
    ])
  })

  test('is checked again before it is stored', () => {
    expect(outcomeOf(validate(requestFor(stored), engine, trust))).toEqual(['allowed'])
    const changed = vm({ domain: { title: 'bad' } }, ours)
    expect(outcomeOf(validate(requestFor(changed), engine, trust))).toEqual(['title spec.domain.title'])
    expect(mutate(requestFor(changed), engine, trust).warnings).toEqual(['refused'])
    const faulty = vm({ domain: { title: 'bad' }, nodeSelector: 1 }, ours)
    expect(outcomeOf(validate(requestFor(faulty), engine, trust))).toEqual([
      'type spec.nodeSelector',
      'title spec.domain.title',
    ])
  })
})

test('a VM that was just completed is not completed again, but its owners are checked', () => {
  const cachedEngine: Engine = {
    ...engine,
    wasCompletedHere: () => true,
    complete() {
      throw new Error('completed again')
    },
  }
  expect(outcomeOf(validate(requestFor(stored), cachedEngine, trust))).toEqual(['allowed'])
  const owned = vm(stored.spec, { ...ours, ownerReferences: [owner] })
  expect(outcomeOf(validate(requestFor(owned, undefined, controller), cachedEngine, trust))).toEqual(['allowed'])
  expect(outcomeOf(validate(requestFor(owned), cachedEngine, trust))).toEqual([
    'owner-reference metadata.ownerReferences[0]',
  ])
})

test('a new VM is checked, even if the request has an old object', () => {
  const bad = vm({ domain: { title: 'bad' } })
  const request: AdmissionRequest = { ...requestFor(bad, bad), operation: 'CREATE' }
  for (const handle of [mutate, validate]) {
    expect(outcomeOf(handle(request, engine, trust))).toEqual(['title spec.domain.title'])
  }
})

test('a new VM whose old object is null is completed', () => {
  expect(outcomeOf(mutate({ ...requestFor(stored), oldObject: null }, engine, trust))).toEqual(['allowed'])
})

test('warnings and audit annotations are part of every result of completion', () => {
  expect(mutate(requestFor(vm()), engine, trust)).toMatchObject({ warnings: ['completed'], audit: { title: 'good' } })
  const bad = vm({ domain: { title: 'bad' } })
  expect(mutate(requestFor(bad), engine, trust)).toMatchObject({ warnings: ['refused'], audit: { title: 'bad' } })
  const malformed = vm({ domain: {}, nodeSelector: 1 })
  expect(mutate(requestFor(malformed), engine, trust)).toMatchObject({ warnings: [], audit: { title: 'good' } })
})

describe('a stored VM', () => {
  const short = vm()
  const tooManyLabels = ['labels-size metadata.labels']
  const ending = { ...ours, deletionTimestamp: '2026-11-21T09:00:00Z' }

  test.each<[string, unknown, object, string[]]>([
    [
      'applied again is restored to the completed spec',
      short,
      stored,
      ['add /metadata/annotations', 'add /metadata/finalizers', 'add /spec/domain/title'],
    ],
    ['with a new label', { ...stored, metadata: { ...stored.metadata, labels: { a: 'b' } } }, stored, ['allowed']],
    ['with another spec', vm({ domain: { type: 'kvm', title: 'added' } }), stored, ['spec-immutable spec.domain.type']],
    ['without a field that its user wrote', vm({ domain: {} }), stored, ['spec-immutable spec.domain.type']],
    [
      'with forged provenance',
      vm(stored.spec, { ...ours, annotations: { [completedByAnnotation]: 'forged' } }),
      stored,
      ['replace /metadata/annotations/virtset.io~1completed-by'],
    ],
    [
      'that is being deleted and loses its finalizer',
      vm(stored.spec, { ...ending, finalizers: [] }),
      { ...stored, metadata: ending },
      ['allowed'],
    ],
    [
      'that loses its finalizer gets it back',
      vm(stored.spec, { ...ours, finalizers: ['example.com/other'] }),
      stored,
      ['add /metadata/finalizers/-'],
    ],
    [
      'that never had the finalizer does not get one',
      vm(stored.spec, { annotations: ours.annotations }),
      vm(stored.spec, { annotations: ours.annotations }),
      ['allowed'],
    ],
    ['that was never completed', vm(undefined, { labels: { a: 'b' } }), vm(), ['allowed']],
    [
      'that was never completed, with forged provenance',
      vm(undefined, { annotations: { [completedByAnnotation]: 'forged', a: 'b' } }),
      vm(),
      ['remove /metadata/annotations/virtset.io~1completed-by'],
    ],
    ['that was never completed, with another spec', vm({ domain: { type: 'kvm' } }), vm(), ['allowed']],
    ['that becomes another type', [], stored, ['allowed']],
    ['that becomes null', null, stored, ['allowed']],
    ['whose metadata becomes another type', { ...stored, metadata: 7 }, stored, ['allowed']],
  ])('%s', (_, object, oldObject, expected) => {
    expect(outcomeOf(mutate(requestFor(object, oldObject), engine, trust))).toEqual(expected)
  })

  test('is not restored for a trusted account', () => {
    expect(outcomeOf(mutate(requestFor(short, stored, controller), engine, trust))).toEqual(['allowed'])
    expect(outcomeOf(mutate(requestFor(vm({ domain: {} }), stored, controller), engine, trust))).toEqual(['allowed'])
  })

  test('that becomes another type is refused', () => {
    expect(outcomeOf(validate(requestFor([], stored), engine, trust))).toEqual(['type '])
    expect(outcomeOf(validate(requestFor(7, stored, controller), engine, trust))).toEqual(['type '])
  })

  test.each<[string, object, object, string, string[]]>([
    ['unchanged', stored, stored, 'jane', ['allowed']],
    [
      'changed by another webhook',
      vm({ domain: { type: 'qemu', title: 'x' } }, ours),
      stored,
      'jane',
      ['spec-immutable spec.domain.title'],
    ],
    [
      'in an equivalent spelling',
      vm({ domain: { memory: { value: '1' } } }, ours),
      vm({ domain: { memory: { value: 1 } } }, ours),
      'jane',
      ['spec-immutable spec'],
    ],
    [
      'changed by the controller',
      vm({ domain: { type: 'kvm', title: 'added' } }, ours),
      stored,
      controller,
      ['spec-immutable spec.domain.type'],
    ],
    ['completed by the controller', stored, vm(), controller, ['allowed']],
    ['with more labels than the limit', vm(stored.spec, { ...ours, labels: many }), stored, 'jane', tooManyLabels],
    [
      'with fewer labels beyond the limit than before',
      vm(stored.spec, { ...ours, labels: many }),
      vm(stored.spec, { ...ours, labels: { ...many, more: '' } }),
      'jane',
      ['allowed'],
    ],
    ['completed by a user', stored, vm(), 'jane', ['spec-immutable spec.domain.title']],
    [
      'completed to a malformed VM by the controller',
      vm({ domian: 1 }, ours),
      vm(),
      controller,
      ['required spec.domain', 'unknown-field spec.domian'],
    ],
    [
      'with an owner that a user adds',
      vm(stored.spec, { ...ours, ownerReferences: [owner] }),
      stored,
      'jane',
      ['owner-reference metadata.ownerReferences[0]'],
    ],
    [
      'without its owner',
      stored,
      vm(stored.spec, { ...ours, ownerReferences: [owner] }),
      'jane',
      ['owner-reference metadata.ownerReferences'],
    ],
    [
      'that is being deleted and loses its finalizer to a user',
      vm(stored.spec, { ...ending, finalizers: [] }),
      vm(stored.spec, ending),
      'jane',
      ['finalizer metadata.finalizers'],
    ],
    [
      'that is being deleted and loses its finalizer to the controller',
      vm(stored.spec, { ...ending, finalizers: [] }),
      vm(stored.spec, ending),
      controller,
      ['allowed'],
    ],
    [
      'of an earlier version, with what is invalid now, that is being deleted and loses its finalizer to the controller',
      vm({ domian: {} }, { ...ending, finalizers: [] }),
      vm({ domian: {} }, ending),
      controller,
      ['allowed'],
    ],
  ])('%s is validated', (_, object, oldObject, username, expected) => {
    expect(outcomeOf(validate(requestFor(object, oldObject, username), engine, trust))).toEqual(expected)
  })

  test.each<[unknown, string[]]>([
    [undefined, ['required metadata']],
    [{ labels: null, ownerReferences: [null] }, ['type metadata.labels', 'type metadata.ownerReferences[0]']],
  ])('whose metadata became %j is refused', (metadata, expected) => {
    const object = JSON.parse(JSON.stringify({ ...stored, metadata }))
    expect(outcomeOf(validate(requestFor(object, stored), engine, trust))).toEqual(expected)
  })
})

describe('the medium in a drive', () => {
  const withMedium = (source: unknown, more: object = {}) =>
    vm(
      {
        domain: {
          type: 'qemu',
          title: 'added',
          devices: {
            disks: [
              {
                type: 'volume',
                device: 'cdrom',
                driver: { type: 'raw' },
                ...(source === undefined ? {} : { source }),
                target: { dev: 'sda' },
                ...more,
              },
            ],
          },
        },
        volumes: ['iso', 'tools'].map((name) => ({ name, persistentVolumeClaim: { claimName: name } })),
      },
      ours,
    )
  const inserted = withMedium({ volume: 'iso' })
  const at = 'spec.domain.devices.disks[0]'

  test.each<[string, object, string[], string[]]>([
    ['can be changed', withMedium({ volume: 'tools' }), ['allowed'], ['allowed']],
    ['can be ejected', withMedium({}), ['allowed'], ['allowed']],
    [
      'is ejected if its user leaves it out',
      withMedium(undefined),
      ['add /spec/domain/devices/disks/0/source'],
      ['spec-immutable spec'],
    ],
    [
      'must be a volume of the VM',
      withMedium({ volume: 'none' }),
      [`medium ${at}.source.volume`],
      [`medium ${at}.source.volume`],
    ],
    [
      'is all that can change',
      withMedium({ volume: 'tools', file: '/etc/passwd' }, { serial: 'x' }),
      [`spec-immutable ${at}.source.file`, `spec-immutable ${at}.serial`],
      [`spec-immutable ${at}.source.file`, `spec-immutable ${at}.serial`],
    ],
  ])('%s', (_, object, mutated, validated) => {
    expect(outcomeOf(mutate(requestFor(object, inserted), engine, trust)).toSorted()).toEqual(mutated.toSorted())
    expect(outcomeOf(validate(requestFor(object, inserted), engine, trust)).toSorted()).toEqual(validated.toSorted())
  })
})

describe('attached volumes', () => {
  const attached = (name: string, target?: object) => ({ name, persistentVolumeClaim: { claimName: name }, target })
  const withVolumes = (...attachedVolumes: object[]) =>
    vm({ domain: { type: 'qemu', title: 'added' }, attachedVolumes }, ours)
  const one = attached('a', { dev: 'vda', bus: 'virtio' })
  const two = attached('b', { dev: 'vdb', bus: 'virtio' })

  test.each<[string, object, string[], string[]]>([
    ['can be added', withVolumes(one, two), ['allowed'], ['allowed']],
    ['can be removed', withVolumes(), ['allowed'], ['allowed']],
    [
      'get their place',
      withVolumes(one, attached('b')),
      ['add /spec/attachedVolumes/1/target'],
      ['spec-immutable spec.attachedVolumes[1].target'],
    ],
    [
      'cannot be changed',
      withVolumes({ ...one, serial: 'x' }),
      ['attached-volume spec.attachedVolumes[0]'],
      ['attached-volume spec.attachedVolumes[0]'],
    ],
    [
      'are checked like those of a new VM',
      withVolumes(one, attached('b', { dev: 'sda', bus: 'sata' })),
      ['attached-volume spec.attachedVolumes[1].target.bus'],
      ['attached-volume spec.attachedVolumes[1].target.bus'],
    ],
    [
      'are not filled',
      withVolumes(one, { name: 'b', persistentVolumeClaim: { claimName: 'b', source: { empty: {} } } }),
      ['unknown-field spec.attachedVolumes[1].persistentVolumeClaim.source'],
      ['unknown-field spec.attachedVolumes[1].persistentVolumeClaim.source'],
    ],
    [
      'must have their type',
      withVolumes({ name: 7 }),
      ['type spec.attachedVolumes[0].name'],
      ['type spec.attachedVolumes[0].name'],
    ],
  ])('%s', (_, object, mutated, validated) => {
    const stored = withVolumes(one)
    const sent = JSON.parse(JSON.stringify(object))
    expect(outcomeOf(mutate(requestFor(sent, stored), engine, trust))).toEqual(expect.arrayContaining(mutated))
    expect(outcomeOf(validate(requestFor(sent, stored), engine, trust))).toEqual(expect.arrayContaining(validated))
  })
})

describe('the medium that a preset enforces', () => {
  const lockedWith = (more: object, source: object) => {
    const sda = { disks: { 0: { source: { volume: 0 } } } }
    const by = [['', 'site', 'r'], 'user']
    const lock = { spec: { domain: { devices: sda } } }
    const disk = { type: 'volume', device: 'cdrom', driver: { type: 'raw' }, source, target: { dev: 'sda' } }
    return vm(
      {
        domain: { type: 'qemu', title: 'added', devices: { disks: [disk] } },
        volumes: ['agent', 'mine', 'tools'].map((name) => ({ name, persistentVolumeClaim: { claimName: name } })),
      },
      { ...ours, annotations: { [completedByAnnotation]: JSON.stringify({ v: 1, by, at: titleOf, lock, ...more }) } },
    )
  }
  const titleOf = { spec: { domain: { title: 0 } } }
  const volumePath = 'spec.domain.devices.disks[0].source.volume'
  const over = { spec: { domain: { devices: { disks: { 0: { source: { volume: [[1, 'mine'], 0] } } } } } } }
  const gone = { spec: { domain: { devices: { disks: { 0: { source: { volume: 0 } } } } } } }
  const at = { spec: { domain: { title: 0, ...gone.spec.domain } } }
  const set = lockedWith({ at, over }, { volume: 'agent' })
  const removed = lockedWith({ gone }, {})
  const all = lockedWith({ lock: { spec: { domain: { devices: { disks: 0 } } } } }, { volume: 'agent' })
  const onlyLocked = lockedWith({}, { volume: 'agent' })
  const withSource = (before: object, source: object) => {
    const sent = structuredClone(before) as { spec: { domain: { devices: { disks: object[] } } } }
    const { disks } = sent.spec.domain.devices
    sent.spec.domain.devices.disks = disks.map((disk) => ({ ...disk, source }))
    return sent
  }
  const warning = `${volumePath} remains: preset "site" enforces it`

  test.each<[string, object, object, object, string[]]>([
    ['is as the user wrote it before: it stays', set, { volume: 'mine' }, { volume: 'agent' }, [warning]],
    ['is the stored one', set, { volume: 'agent' }, { volume: 'agent' }, []],
    ['is left out', set, {}, { volume: 'agent' }, [warning]],
    ['is one that the preset had removed: it stays removed', removed, { volume: 'mine' }, {}, [warning]],
  ])('%s', (_, before, source, after, warnings) => {
    const sent = withSource(before, source)
    const result = mutate(requestFor(sent, before), engine, trust)
    expect(result.allowed && result.warnings).toEqual(warnings)
    const operations = operationsOf(result) as Operation[]
    const patched = fastJsonPatch.applyPatch(structuredClone(sent), operations).newDocument
    expect(patched).toHaveProperty('spec.domain.devices.disks.0.source', after)
    expect(outcomeOf(validate(requestFor(patched, before), engine, trust))).toEqual(['allowed'])
  })

  test.each([set, onlyLocked, all])('cannot be another one', (before) => {
    const sent = withSource(before, { volume: 'tools' })
    const result = mutate(requestFor(sent, before), engine, trust)
    expect(!result.allowed && result.causes).toMatchObject([
      { field: volumePath, message: 'cannot be changed: preset "site" enforces it' },
    ])
    expect(outcomeOf(validate(requestFor(sent, before), engine, trust))).toEqual([`spec-immutable ${volumePath}`])
  })
})

describe('labels and annotations that a preset enforces', () => {
  const provenance = JSON.stringify({
    v: 1,
    by: [['', 'site', 'r'], 'user'],
    at: { spec: { domain: { title: 0 } } },
    over: { metadata: { labels: { tier: [[1, 'mine']] } } },
    lock: { metadata: { labels: { tier: 0, 'a.b/0': 0 }, annotations: { contact: 0 } } },
  })
  const enforced = {
    labels: { tier: 'gold', 'a.b/0': 'x', app: 'web' },
    annotations: { [completedByAnnotation]: provenance, contact: 'ops' },
    finalizers: [launcherPodFinalizer],
  }
  const old = vm(stored.spec, enforced)
  const { annotations } = enforced
  const withLabels = (labels: object | undefined) =>
    vm(stored.spec, { annotations, finalizers: [launcherPodFinalizer], ...(labels === undefined ? {} : { labels }) })
  const rest = { 'a.b/0': 'x', app: 'web' }

  test.each<[string, object, string[]]>([
    ['are unchanged', old, ['allowed']],
    ['can be extended', withLabels({ ...enforced.labels, more: 'y' }), ['allowed']],
    ['are restored if they are removed', withLabels(rest), ['add /metadata/labels/tier']],
    ['are restored if no label is sent', withLabels(undefined), ['add /metadata/labels']],
    [
      'are restored if the overridden value is sent',
      withLabels({ ...rest, tier: 'mine' }),
      ['replace /metadata/labels/tier'],
    ],
    ['cannot be changed', withLabels({ ...rest, tier: 'free' }), ['enforced-metadata metadata.labels.tier']],
    [
      'cannot be changed beside the spec',
      vm({ domain: { type: 'kvm' } }, { ...enforced, labels: { ...enforced.labels, 'a.b/0': 'z' } }),
      ['enforced-metadata metadata.labels[a.b/0]', 'spec-immutable spec.domain.type'],
    ],
    [
      'cannot be changed in annotations',
      vm(stored.spec, { ...enforced, annotations: { ...annotations, contact: 'me' } }),
      ['enforced-metadata metadata.annotations.contact'],
    ],
  ])('%s', (_, object, expected) => expect(outcomeOf(mutate(requestFor(object, old), engine, trust))).toEqual(expected))

  test('that were restored are reported', () => {
    expect(mutate(requestFor(withLabels(rest), old), engine, trust).warnings).toEqual([
      'metadata.labels.tier remains: preset "site" enforces it',
    ])
  })

  test('are checked again before the VM is stored, except for the controller', () => {
    const changed = withLabels(rest)
    expect(outcomeOf(validate(requestFor(changed, old), engine, trust))).toEqual([
      'enforced-metadata metadata.labels.tier',
    ])
    expect(outcomeOf(validate(requestFor(changed, old, controller), engine, trust))).toEqual(['allowed'])
  })

  test('the provenance that names them cannot be changed by another webhook either', () => {
    const forged = vm(stored.spec, { ...enforced, annotations: { ...annotations, [completedByAnnotation]: '{}' } })
    expect(outcomeOf(validate(requestFor(forged, old), engine, trust))).toEqual([
      'reserved-key metadata.annotations[virtset.io/completed-by]',
    ])
  })
})

test('handlers do not change the request', () => {
  const freeze = <T>(value: T): T => {
    if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(freeze)
    return value
  }
  const pairs: [object, object | undefined][] = [
    [freeze(vm()), undefined],
    [freeze(vm()), freeze(stored)],
  ]
  for (const [object, oldObject] of pairs) {
    const once = mutate(requestFor(object, oldObject), engine, trust)
    expect(mutate(requestFor(object, oldObject), engine, trust)).toEqual(once)
  }
})
