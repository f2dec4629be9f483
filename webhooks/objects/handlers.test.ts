import { describe, expect, test } from 'vitest'
import type { ObjectPreset } from '../../api/object-preset.ts'
import { isRecord } from '../../api/schema.ts'
import type { ObjectTarget, UnusableTarget } from '../../inventory/objects.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { CompiledPreset } from '../../presets/compile.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { createTurns } from '../../runtime/turns.ts'
import { admissionRequest } from '../../test/admission.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { operationsOf } from '../../test/operations.ts'
import { team } from '../../test/presets/make.ts'
import { unread } from '../../test/unread.ts'
import { clusterGadgetPreset, gadgetPreset, gadgets, gadgetTarget } from '../../test/presets/objects.ts'
import type { Access } from '../admission/permission.ts'
import type { AdmissionRequest, AdmissionResult } from '../admission/request.ts'
import { createObjectHandlers, isObjectKind } from './handlers.ts'

const name = 'Gadget of example.com/v1'
const read = gadgets.get(name)?.()
if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
const { kind } = read

const targetObject = (restricted: readonly string[] = [], more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1' as const,
  kind: 'PresetTarget' as const,
  metadata: { name: 'gadgets.example.com' },
  spec: { ...gadgetTarget, failurePolicy: 'Fail' as const, restricted, ...more },
})

const usable = (presets: readonly CompiledPreset[] = []): ObjectTarget => ({
  target: targetObject(['spec.mode']),
  kind,
  resource: 'gadgets',
  candidates: createCandidates(presets),
  quarantined: new Map(),
})
const unusable: UnusableTarget = { target: targetObject(), causes: [] }

interface World {
  readonly entry?: ObjectTarget | UnusableTarget | undefined
  readonly stored?: readonly unknown[]
  readonly allow?: (access: Access) => boolean
  /** The target's kind. */
  readonly named?: string
  /** Until a new namespace is known. */
  readonly newNamespace?: Promise<void>
}

function handlers({ entry, stored = [], allow = () => true, named = name, newNamespace }: World) {
  const clock = fakeClock()
  const checked: Access[] = []
  const changed: ((id: string | undefined) => void)[] = []
  const state = { entry }
  const { complete, mutate, validate } = createObjectHandlers({
    objects: {
      onChange: (listener) => void changed.push(listener),
      read: () => Promise.resolve({ kind, resource: 'gadgets' }),
      target: (wanted) => (wanted === named ? state.entry : undefined),
      targets: () => (state.entry === undefined ? [] : [state.entry]),
      storedPresets: () => stored as readonly Persisted<ObjectPreset>[],
    },
    namespaces: { namespace: () => team, newNamespaces: { wait: () => newNamespace } },
    mayAccess: (_, access) => {
      checked.push(access)
      return Promise.resolve(allow(access))
    },
    clock,
  })
  /** Lets the pauses pass in which a target is looked for. */
  const now = async <T>(result: T | Promise<T>): Promise<T> => {
    await clock.advance(1500)
    return result
  }
  return {
    complete,
    mutate,
    validate,
    clock,
    checked,
    state,
    now,
    report: (id: string) => changed.forEach((one) => one(id)),
  }
}

const presetObject = (spec: object = {}, presetKind = 'ObjectPreset') => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: presetKind,
  metadata: { name: 'p', ...(presetKind === 'ObjectPreset' ? { namespace: 'team' } : {}) },
  spec: { target: gadgetTarget, selector: { matchLabels: { a: 'b' } }, object: { spec: { size: 1 } }, ...spec },
})

const presetRequest = (spec: object = {}, presetKind = 'ObjectPreset', more: Partial<AdmissionRequest> = {}) =>
  admissionRequest(presetKind, presetObject(spec, presetKind), undefined, {
    name: 'p',
    namespace: presetKind === 'ObjectPreset' ? 'team' : '',
    ...more,
  })

const objectRequest = (more: Partial<AdmissionRequest> = {}, group = 'example.com') =>
  admissionRequest('Gadget', { ...gadgetTarget, metadata: { name: 'g' }, spec: {} }, undefined, {
    namespace: 'team',
    request: { kind: { group, version: 'v1', kind: 'Gadget' } },
    ...more,
  })

/** The spec after the patch; that of the request is empty. */
const specOf = (result: AdmissionResult): unknown =>
  operationsOf(result).reduce<object>((spec, operation) => {
    const [, root, ...keys] = operation.path.split('/')
    if (root !== 'spec' || !('value' in operation)) return spec
    const { value } = operation
    const [key] = keys
    return key === undefined ? { ...spec, ...(isRecord(value) ? value : {}) } : { ...spec, [key]: value }
  }, {})

const messages = (result: AdmissionResult): readonly string[] =>
  result.allowed
    ? ['allowed', ...(result.warnings ?? [])]
    : result.causes.map(({ field, message, suggestion = '' }) => `${field}: ${message} ${suggestion}`.trimEnd())

test('these kinds are checked here', () => {
  const kinds = ['PresetTarget', 'ObjectPreset', 'ClusterObjectPreset', 'VirtualMachinePreset', 'Gadget']
  expect(kinds.filter(isObjectKind)).toEqual(['PresetTarget', 'ObjectPreset', 'ClusterObjectPreset'])
})

test.each<[string, 'complete' | 'mutate' | 'validate', AdmissionRequest]>([
  ['an object to complete', 'complete', objectRequest()],
  ['a preset to mutate', 'mutate', presetRequest()],
  ['a preset to validate', 'validate', presetRequest()],
  ['a target to validate', 'validate', admissionRequest('PresetTarget', targetObject())],
])('nothing of %s is read before its turn', async (_, path, request) => {
  const { object, reads } = unread(Object(request.object))
  const { promise: never } = Promise.withResolvers<void>()
  const one = handlers({ entry: usable() })
  void one[path]({ ...request, object, oldObject: path === 'complete' ? undefined : object }, () => never)
  await settle()
  expect(reads).toEqual([])
  await one.now(one[path]({ ...request, object }))
  expect(reads).not.toEqual([])
})

describe('an object', () => {
  const inNoNamespace = { name: 'none', expression: 'namespaceObject == null' }
  const injecting = usable([gadgetPreset('p', { size: 1 })])

  test.each<[string, World, AdmissionRequest, boolean]>([
    ['is completed with the presets of its kind', { entry: injecting }, objectRequest(), true],
    ['of another group is not changed', { entry: injecting }, objectRequest({}, 'example.org'), false],
    ['of the core group is not changed', { entry: injecting }, objectRequest({}, ''), false],
    ['of a kind whose target was deleted is not changed', {}, objectRequest(), false],
    ['that is updated is not changed', { entry: injecting }, objectRequest({ operation: 'UPDATE' }), false],
  ])('%s', async (_, world, request, isChanged) => {
    const result = await handlers(world).complete(request)
    expect(result).toMatchObject({ allowed: true })
    expect(result.allowed && result.patch !== undefined && result.patch.operations > 0).toBe(isChanged)
  })

  test('is not completed without the schema of its kind', async () => {
    await expect(handlers({ entry: unusable }).complete(objectRequest())).rejects.toThrow(
      'the PresetTarget gadgets.example.com is not ready',
    )
  })

  test('in no namespace is completed without one, also if it is a Namespace', async () => {
    const presets = [clusterGadgetPreset('p', { size: 1 }, { matchConditions: [inNoNamespace] })]
    const entry = { ...usable(presets), kind: { ...kind, isNamespaced: false } }
    const { complete } = handlers({ entry, newNamespace: new Promise(() => {}) })
    expect(specOf(await complete(objectRequest()))).toEqual({ size: 1 })
  })

  test('that nests 9,900 levels is refused', async () => {
    const deep: unknown = JSON.parse(`${'['.repeat(9900)}${']'.repeat(9900)}`)
    const request = objectRequest({ object: { metadata: {}, spec: { deep } } })
    expect(messages(await handlers({ entry: injecting }).complete(request))).toEqual([
      expect.stringMatching(/^spec: .*levels/),
    ])
  })

  test.each<[string, World['allow'], object]>([
    ['of its namespace, which everyone can exclude', () => false, {}],
    ['that it enforces, with the verb exempt', ({ verb }) => verb === 'exempt', { strength: 'Enforce' }],
  ])('can exclude a preset %s', async (_, allow = () => false, more) => {
    const entry = usable([gadgetPreset('p', { size: 1 }, more), gadgetPreset('q', { mode: 'Fast' })])
    const { complete, checked } = handlers({ entry, allow })
    const annotations = { 'virtset.io/exclude-presets': 'p' }
    const result = await complete(
      objectRequest({ object: { ...gadgetTarget, metadata: { name: 'g', annotations }, spec: {} } }),
    )
    expect(specOf(result)).toEqual({ mode: 'Fast' })
    const access = { verb: 'exempt', resource: 'objectpresets', namespace: 'team', name: 'p' }
    expect(checked).toEqual('strength' in more ? [access] : [])
  })

  test('cannot exclude an enforced preset without the verb exempt, and its user is warned', async () => {
    const entry = usable([gadgetPreset('p', { size: 1 }, { strength: 'Enforce' })])
    const annotations = { 'virtset.io/exclude-presets': 'p' }
    const object = { ...gadgetTarget, metadata: { name: 'g', annotations }, spec: {} }
    const result = await handlers({ entry, allow: () => false }).complete(objectRequest({ object }))
    expect(specOf(result)).toEqual({ size: 1 })
    expect(messages(result)).toEqual(['allowed', expect.stringContaining('requires the verb "exempt" on it')])
  })

  test('takes its turn before it is completed', async () => {
    const order: string[] = []
    const turn = async () => void order.push('turn')
    await handlers({ entry: injecting }).complete(objectRequest(), turn)
    expect(order).toEqual(['turn'])
  })

  test.each(['that arrive at once', 'that have waited for one preset'])(
    '%s are read one in each turn',
    async (arrival) => {
      const selected: string[] = []
      const ends: (() => void)[] = []
      const candidates = createCandidates([gadgetPreset('p', { size: 1 }, { strength: 'Enforce' })])
      const select: typeof candidates.select = (labels, namespace) => {
        selected.push(JSON.stringify(labels))
        return candidates.select(labels, namespace)
      }
      const { complete, validate, report } = handlers({ entry: { ...usable(), candidates: { ...candidates, select } } })
      if (arrival.includes('waited')) await validate(presetRequest())
      const turns = createTurns((end) => void ends.push(end))
      const annotations = { 'virtset.io/exclude-presets': 'p' }
      const requests = Array.from({ length: 8 }, (_, index) => {
        const metadata = { name: 'g', annotations, labels: { app: `a${index}` } }
        return objectRequest({ object: { ...gadgetTarget, metadata, spec: {} } })
      })
      const results = requests.map(async (request) =>
        complete(request, () => turns.take({ tenant: 'team', username: 'jane' })),
      )
      report('team/p')
      const perTurn: number[] = []
      let isOver = false
      while (!isOver) {
        await settle()
        perTurn.push(new Set(selected.splice(0)).size)
        const end = ends.shift()
        end?.()
        isOver = end === undefined
      }
      expect([Math.max(...perTurn), perTurn.length]).toEqual([1, 2 * requests.length + 1])
      expect(await Promise.all(results)).toEqual(results.map(() => expect.objectContaining({ allowed: true })))
    },
  )

  test('waits for its namespace, if this was just created', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const { complete } = handlers({ entry: injecting, newNamespace: promise })
    let isDone = false
    const completing = Promise.resolve(complete(objectRequest())).then(() => (isDone = true))
    await settle()
    expect(isDone).toBe(false)
    resolve()
    await completing
  })

  test('of the core group is completed', async () => {
    const core = { apiVersion: 'v1', kind: 'Gadget' }
    const entry = { ...injecting, target: { ...targetObject(), spec: { ...targetObject().spec, ...core } } }
    const { complete } = handlers({ entry, named: 'Gadget of v1' })
    expect(specOf(await complete(objectRequest({}, '')))).toEqual({ size: 1 })
  })

  test('waits for a preset that was just admitted, until the watch reports it', async () => {
    const { complete, validate, report, clock } = handlers({ entry: usable() })
    expect(messages(await validate(presetRequest()))).toEqual(['allowed'])
    let isDone = false
    const completing = Promise.resolve(complete(objectRequest())).then(() => (isDone = true))
    await clock.advance(10)
    expect(isDone).toBe(false)
    report('team/p')
    await completing
  })

  test.each<[string, Partial<AdmissionRequest>, object]>([
    ['of a dry run', { isDryRun: true }, {}],
    ['with a generated name', { name: '' }, {}],
    ['that was refused', {}, { object: { spec: { sise: 1 } } }],
    ['whose spec did not change', { oldObject: presetObject() }, {}],
  ])('does not wait for a preset %s', async (_, more, spec) => {
    const { complete, validate } = handlers({ entry: usable() })
    await validate(presetRequest(spec, 'ObjectPreset', more))
    expect(await complete(objectRequest())).toMatchObject({ allowed: true })
  })
})

describe('a preset for objects', () => {
  const everything = 'spec.selector: {} selects every object of its kind in its namespace'
  const noTarget = 'there is no PresetTarget for this kind, which an operator creates'
  const team1 = 'in namespace "team"'
  const needs = (verbs: string, where: string) =>
    `spec.target: writing a preset requires the permission to ${verbs} gadgets ${where}`
  const grant =
    'is restricted by the PresetTarget: writing it requires the verb "grant-host" on clusterobjectpresets.virtset.io'
  const restricted = { object: { spec: { mode: 'Fast' } } }
  const entry = usable()
  const except =
    (verb: string) =>
    (access: Access): boolean =>
      access.verb !== verb

  test.each<[string, World, AdmissionRequest, readonly string[]]>([
    ['is accepted', { entry }, presetRequest(), ['allowed']],
    ['is accepted with its warnings', { entry }, presetRequest({ selector: {} }), ['allowed', everything]],
    [
      'of the wrong form',
      { entry },
      presetRequest({ selector: 7 }),
      ['spec.selector: must be an object, not a number'],
    ],
    [
      'with an unknown field',
      { entry },
      presetRequest({ object: { spec: { sise: 1 } } }),
      ['spec.object.spec.sise: there is no such field did you mean "size"?'],
    ],
    ['without a target', {}, presetRequest(), [`spec.target: ${noTarget}`]],
    [
      'with a misspelled target',
      { entry },
      presetRequest({ target: { ...gadgetTarget, kind: 'Gadjet' } }),
      [`spec.target: ${noTarget} did you mean Gadget of example.com/v1?`],
    ],
    [
      'with a target that is not ready',
      { entry: unusable },
      presetRequest(),
      ['spec.target: the PresetTarget for this kind is not ready; see its status'],
    ],
    [
      'of a user who cannot create such objects',
      { entry, allow: except('create') },
      presetRequest(),
      [needs('create', team1)],
    ],
    [
      'of a user who cannot update such objects',
      { entry, allow: except('update') },
      presetRequest(),
      [needs('update', team1)],
    ],
    [
      'of the cluster, of a user who can do neither',
      { entry, allow: ({ verb }) => verb === 'grant-host' },
      presetRequest({}, 'ClusterObjectPreset'),
      [needs('create and update', 'in all namespaces')],
    ],
    [
      'for a cluster-scoped kind, of such a user',
      { entry: { ...entry, kind: { ...kind, isNamespaced: false } }, allow: () => false },
      presetRequest({}, 'ClusterObjectPreset'),
      ['spec.target: writing a preset requires the permission to create and update gadgets'],
    ],
    [
      'with a restricted field',
      { entry },
      presetRequest(restricted),
      ['spec.object.spec.mode: is restricted by the PresetTarget: only a ClusterObjectPreset can set or remove it'],
    ],
    [
      'of the cluster with a restricted field, of a user who cannot grant it',
      { entry, allow: except('grant-host') },
      presetRequest(restricted, 'ClusterObjectPreset'),
      [`spec.object.spec.mode: ${grant}`],
    ],
    [
      'of the cluster without one, of such a user',
      { entry, allow: except('grant-host') },
      presetRequest({}, 'ClusterObjectPreset'),
      ['allowed'],
    ],
    [
      'of the cluster with a restricted field, of a user who can grant it',
      { entry },
      presetRequest(restricted, 'ClusterObjectPreset'),
      ['allowed'],
    ],
    [
      'that may disagree with another',
      { entry: usable([gadgetPreset('q', { size: 2 })]) },
      presetRequest(),
      ['allowed', expect.stringContaining('team/q')],
    ],
    [
      'whose spec did not change, of a user without permissions',
      { entry, allow: () => false },
      presetRequest({}, 'ObjectPreset', { oldObject: presetObject() }),
      ['allowed'],
    ],
    [
      'that is being deleted is not checked',
      {},
      presetRequest({}, 'ObjectPreset', {
        oldObject: { ...presetObject(), metadata: { name: 'p', deletionTimestamp: '2026-11-21T09:00:00Z' } },
      }),
      ['allowed'],
    ],
  ])('%s', async (_, world, request, expected) => {
    const { validate, now } = handlers(world)
    expect(messages(await now(validate(request)))).toEqual(expected)
  })

  test('must fit into its namespace with the others', async () => {
    const stored = (name: string, object: object = {}, namespace = 'team') => ({
      ...presetObject({ object: { text: 'x'.repeat(62_000), ...object } }),
      metadata: { name, namespace, uid: name },
    })
    // Whether they are for this kind, and whether they are applied, makes no difference: each takes memory.
    const others = Array.from({ length: 16 }, (_, index) => stored(`q${index}`, { sise: index }))
    const tooMuch = [expect.stringContaining('the presets of namespace "team" must count at most 1048576 together')]
    const check = async (among: readonly ReturnType<typeof stored>[]) =>
      messages(await handlers({ entry, stored: among }).validate(presetRequest({ object: { spec: { size: 1 } } })))
    const last = stored('last', { spec: { text: 'x'.repeat(60_000) } })
    expect(await check([...others, last])).toEqual(tooMuch)
    expect(await check(others)).toEqual(['allowed'])
    expect(await check([...others, stored('last', {}, 'other'), stored('p', last.spec.object)])).toEqual(['allowed'])
  })

  test('must fit into its namespace with those that are admitted and not stored yet', async () => {
    const stored: object[] = []
    const { validate, report } = handlers({ entry, stored })
    const large = { object: { spec: { parts: [{ name: 'a', options: { x: 'x'.repeat(62_000) } }] } } }
    const named = (name: string) => ({ ...presetObject(large), metadata: { name, namespace: 'team' } })
    const admit = async (name: string) =>
      messages(await validate(presetRequest(large, 'ObjectPreset', { name, object: named(name) })))
    for (let index = 0; index < 16; index++) expect(await admit(`p${index}`)).toEqual(['allowed'])
    const tooMuch = [expect.stringContaining('must count at most 1048576 together')]
    expect(await admit('p16')).toEqual(tooMuch)
    // One of its name was deleted.
    report('team/p0')
    expect(await admit('p16')).toEqual(tooMuch)
    stored.push(named('p0'))
    report('team/p0')
    stored.pop()
    expect(await admit('p16')).toEqual(['allowed'])
  })

  test('is checked in turns, also after each wait', async () => {
    const { validate, clock, state } = handlers({ entry: unusable })
    const turns: (() => void)[] = []
    const turn = () => new Promise<void>((resolve) => void turns.push(resolve))
    let result: AdmissionResult | undefined
    void Promise.resolve(validate(presetRequest(), turn)).then((done) => (result = done))
    for (const step of ['form', 'content', 'others']) {
      await clock.advance(0)
      expect([step, turns.length, result]).toEqual([step, 1, undefined])
      turns.pop()?.()
      state.entry = usable()
      await clock.advance(100)
    }
    expect(result).toMatchObject({ allowed: true })
  })

  test('asks for the permissions on the objects in its namespace', async () => {
    const { validate, checked } = handlers({ entry })
    await validate(presetRequest())
    expect(checked).toEqual([
      { verb: 'create', group: 'example.com', resource: 'gadgets', name: '', namespace: 'team' },
      { verb: 'update', group: 'example.com', resource: 'gadgets', name: '', namespace: 'team' },
    ])
  })

  test('of the cluster makes objects of every namespace wait until the watch reports it', async () => {
    const { complete, validate, report } = handlers({ entry: usable() })
    await validate(presetRequest({}, 'ClusterObjectPreset'))
    let isDone = false
    const completing = Promise.resolve(complete(objectRequest())).then(() => (isDone = true))
    await settle()
    expect(isDone).toBe(false)
    report('p')
    await completing
  })

  test('asks for the permissions in all namespaces if it is of the cluster', async () => {
    const { validate, checked } = handlers({ entry })
    await validate(presetRequest(restricted, 'ClusterObjectPreset'))
    expect(checked).toEqual([
      { verb: 'create', group: 'example.com', resource: 'gadgets', name: '' },
      { verb: 'update', group: 'example.com', resource: 'gadgets', name: '' },
      { verb: 'grant-host', resource: 'clusterobjectpresets', name: 'p' },
    ])
  })

  test('waits for a target that was created with it', async () => {
    const { validate, clock, state } = handlers({ entry: unusable })
    const validating = validate(presetRequest())
    await clock.advance(600)
    state.entry = usable()
    await clock.advance(900)
    expect(messages(await validating)).toEqual(['allowed'])
  })
})

describe('a target', () => {
  test('is checked in turns, before and after its schema is read', async () => {
    const order: string[] = []
    const turn = async () => void order.push('turn')
    await handlers({}).validate(admissionRequest('PresetTarget', targetObject()), turn)
    expect(order).toEqual(['turn', 'turn'])
  })

  const request = (object: object) => admissionRequest('PresetTarget', object)

  test.each<[string, object, readonly string[]]>([
    ['is accepted', targetObject(), ['allowed']],
    [
      'of the wrong form is refused',
      targetObject([], { failurePolicy: 'Sometimes' }),
      ['spec.failurePolicy: supported values: "Fail", "Ignore"'],
    ],
    [
      'with a wrong name is refused',
      { ...targetObject(), metadata: { name: 'gadgets' } },
      ['metadata.name: must be "gadgets.example.com"'],
    ],
  ])('%s', async (_, object, expected) =>
    expect(messages(await handlers({}).validate(request(object)))).toEqual(expected),
  )
})
