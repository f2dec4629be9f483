import { describe, expect, test } from 'vitest'
import { excludePresetsAnnotation } from '../../api/virtual-machine.ts'
import { createTurns } from '../../runtime/turns.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { candidatesOf, preset as makePreset } from '../../test/preset.ts'
import { unread } from '../../test/unread.ts'
import { admissionRequest, controllerAccount, outcomeOf, titleEngine, trust } from '../../test/admission.ts'
import { cachesWithout } from './caches.ts'
import { createEngine, type Engine } from './engine.ts'
import { createHandlers, mutate, trustedAccounts, validate } from './handler.ts'
import { noPermissions } from './permission.ts'
import type { AdmissionRequest } from './request.ts'

const metadata = { name: 'vm1' }
const vmSpec = (title: string) => ({ domain: { type: 'qemu', title } })
const template = (title: string) => ({ metadata: { labels: { app: 'a' } }, spec: vmSpec(title) })
const selector = { matchLabels: { app: 'a' } }

/** An object of each kind with this title: `bad` is refused. */
const objects: { readonly [kind: string]: (title: string) => object } = {
  VirtualMachine: (title) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata,
    spec: vmSpec(title),
  }),
  VirtualMachineConfig: (title) => ({ metadata, spec: { template: template(title) } }),
  VirtualMachineGroup: (title) => ({ metadata, spec: { replicas: 1, selector, template: template(title) } }),
  VirtualMachinePreset: (title) => ({ kind: 'VirtualMachinePreset', metadata, spec: { selector, domain: { title } } }),
  ClusterVirtualMachinePreset: (title) => ({
    kind: 'ClusterVirtualMachinePreset',
    metadata,
    spec: { selector, domain: { title } },
  }),
}
const templated = 'title spec.template.spec.domain.title'
const plain = 'title spec.domain.title'
const causes: { readonly [kind: string]: string } = {
  VirtualMachine: plain,
  VirtualMachineConfig: templated,
  VirtualMachineGroup: templated,
  VirtualMachinePreset: plain,
  ClusterVirtualMachinePreset: plain,
}
const cases = Object.keys(objects).flatMap((kind) => [
  [kind, 'mutate', mutate] as const,
  [kind, 'validate', validate] as const,
])

describe.each(cases)('%s: %s', (kind, _, handle) => {
  const handled = (object: unknown) => handle(admissionRequest(kind, object), titleEngine, trust)

  test('reports a refusal by the engine at the field of this kind', () => {
    expect(outcomeOf(handled(objects[kind]?.('bad')))).toEqual([causes[kind]])
  })

  test('allows a similar object that the engine allows', () =>
    expect(handled(objects[kind]?.('good')).allowed).toBe(true))

  test.each([
    ['spec', (deep: unknown) => ({ unknown: deep })],
    ['the domain', (deep: unknown) => ({ domain: { unknown: deep } })],
    ['a template', (deep: unknown) => ({ template: { spec: { domain: { unknown: deep } } } })],
  ])('refuses 9,900 levels in %s', (_part, specOf) => {
    const deep: unknown = JSON.parse(`${'['.repeat(9900)}${']'.repeat(9900)}`)
    expect(outcomeOf(handled({ metadata, spec: specOf(deep) }))).toEqual(['nesting spec'])
  })

  test.each(['metadata', 'status', 'spec'])('refuses 9,900 levels in %s of the stored object alone', (key) => {
    const deep: unknown = JSON.parse(`${'['.repeat(9900)}${']'.repeat(9900)}`)
    const flat = { metadata, spec: { domain: {} } }
    const request = admissionRequest(kind, flat, { ...flat, [key]: { unknown: deep } })
    expect(outcomeOf(handle(request, titleEngine, trust))).toEqual([`nesting ${key}`])
  })

  test('removes the finalizers of an object that is being deleted and nests 9,900 levels', () => {
    const stored = (finalizers: readonly string[]) => ({
      ...JSON.parse(`{"spec": ${'{"a":'.repeat(9900)}{}${'}'.repeat(9900)}}`),
      metadata: { ...metadata, deletionTimestamp: '2026-11-21T09:00:00Z', finalizers },
    })
    const request = admissionRequest(kind, stored([]), stored(['tests/hold']))
    expect(handle(request, titleEngine, trust).allowed).toBe(true)
  })

  test('refuses an object of the wrong type', () => expect(outcomeOf(handled(7))).toEqual(['type ']))
})

test('a VM is mutated, and only then', () => {
  const object = { ...objects['VirtualMachine']?.('good'), spec: { domain: { type: 'qemu' } } }
  const request = admissionRequest('VirtualMachine', object)
  expect(outcomeOf(mutate(request, titleEngine, trust))).toEqual([
    'add /metadata/annotations',
    'add /metadata/finalizers',
    'add /spec/domain/title',
  ])
  expect(validate(request, titleEngine, trust)).toEqual({ allowed: true })
})

test.each([mutate, validate])('a kind without handler is refused: %o', (handle) => {
  const expected = {
    allowed: false,
    causes: [
      {
        rule: 'kind',
        field: 'kind',
        value: 'constructor',
        reason: 'FieldValueNotSupported',
        message:
          'must be one of VirtualMachine, VirtualMachineConfig, VirtualMachineGroup, VirtualMachinePreset, ClusterVirtualMachinePreset',
        suggestion: 'check the rules of the webhook configurations',
      },
    ],
    warnings: [],
  }
  expect(handle(admissionRequest('constructor', {}), titleEngine, trust)).toEqual(expected)
})

describe('the webhooks', () => {
  /** An engine that records its calls. */
  const recorded = (permissions: Engine['permissions'] = () => undefined) => {
    const awaited: string[] = []
    const authorized: AdmissionRequest[] = []
    const expected: string[] = []
    const engine: Engine = {
      ...titleEngine,
      ready: (namespace) => void awaited.push(namespace),
      permissions(request) {
        authorized.push(request)
        return permissions(request)
      },
      expectPreset: ({ kind }) => void expected.push(kind),
      checkPreset: (_, { mayGrantHost }) => ({ causes: [], warnings: [`mayGrantHost ${mayGrantHost}`] }),
    }
    return { awaited, authorized, expected, handlers: createHandlers(engine, trust) }
  }
  const preset = (title: string) => admissionRequest('VirtualMachinePreset', objects['VirtualMachinePreset']?.(title))

  test.each(cases)('answer a request for a %s to %s at once', (kind, path) => {
    const { handlers } = recorded()
    expect(handlers[path](admissionRequest(kind, objects[kind]?.('good')))).toMatchObject({ allowed: true })
  })

  test.each(cases)('authorize a request for a %s to %s', (kind, path) => {
    const { handlers, authorized } = recorded()
    const request = admissionRequest(kind, objects[kind]?.('good'))
    void handlers[path](request)
    expect(authorized).toEqual([request])
  })

  test.each<[string, readonly string[], readonly string[]]>([
    ['VirtualMachine', ['default'], []],
    ['VirtualMachineConfig', ['default'], ['default']],
    ['VirtualMachineGroup', ['default'], ['default']],
    ['VirtualMachinePreset', [], []],
    ['ClusterVirtualMachinePreset', [], []],
    ['constructor', [], []],
  ])('wait for the presets of the namespace of a %s', (kind, onCreate, onUpdate) => {
    const object = objects[kind]?.('good') ?? {}
    for (const [oldObject, expected] of [[undefined, onCreate] as const, [object, onUpdate] as const]) {
      const { handlers, awaited } = recorded()
      void handlers.mutate(admissionRequest(kind, object, oldObject))
      void handlers.validate(admissionRequest(kind, object, oldObject))
      expect(awaited).toEqual([...expected, ...expected])
    }
  })

  test('wait for permissions and hand them to the handler', async () => {
    const { handlers, expected } = recorded(async () => ({ ...noPermissions, mayGrantHost: true }))
    const results = [handlers.mutate(preset('good')), handlers.validate(preset('good'))]
    expect([results.every((result) => result instanceof Promise), expected]).toEqual([true, []])
    expect((await Promise.all(results.map(async (result) => result))).map(({ warnings }) => warnings)).toEqual([
      ['mayGrantHost true'],
      ['mayGrantHost true'],
    ])
    expect(expected).toEqual(['VirtualMachinePreset'])
  })

  test('take a turn to find out the permissions, and another one once they have them', async () => {
    const order: string[] = []
    const { handlers } = recorded(async () => {
      order.push('permissions')
      return noPermissions
    })
    const turn = async () => void order.push('turn')
    const result = handlers.mutate(preset('good'), turn)
    expect(order).toEqual(['turn'])
    expect([await result, order]).toMatchObject([{ allowed: true }, ['turn', 'permissions', 'turn']])
    const { promise: never } = Promise.withResolvers<void>()
    expect(recorded().handlers.mutate(preset('good'), () => never)).toBeInstanceOf(Promise)
    expect(recorded().handlers.mutate(preset('good'), () => undefined)).toMatchObject({ allowed: true })
  })

  test.each([
    ['PresetTarget', 'objects'],
    ['ObjectPreset', 'objects'],
    ['ClusterObjectPreset', 'objects'],
    ['VirtualMachinePreset', 'own'],
    ['VirtualMachine', 'own'],
  ])('give a %s to mutate and to validate to the handler of %s', (kind, expected) => {
    const handled: string[] = []
    const result = { allowed: true, causes: [], warnings: [] } as const
    const complete = async () => result
    const handle =
      (word: string) =>
      async ({ kind: of }: AdmissionRequest) => {
        handled.push(`${word} ${of}`)
        return result
      }
    const handlers = createHandlers(titleEngine, trust, {
      complete,
      mutate: handle('mutate'),
      validate: handle('validate'),
    })
    const request = admissionRequest(kind, objects[kind]?.('good') ?? {})
    void handlers.mutate(request)
    void handlers.validate(request)
    expect(handled).toEqual(expected === 'objects' ? [`mutate ${kind}`, `validate ${kind}`] : [])
    expect(handlers.objects).toBe(complete)
  })

  test('look up the networks of a VM that a user creates', async () => {
    const looked: string[] = []
    const handlers = createHandlers(titleEngine, trust, undefined, ({ metadata, spec }, { namespace }) => {
      looked.push(`${namespace}/${metadata.name} ${spec.domain.title}`)
      return Promise.resolve(['no network'])
    })
    const vm = (title: string) => objects['VirtualMachine']?.(title)
    const warned = await handlers.mutate(admissionRequest('VirtualMachine', vm('good')))
    expect(warned).toMatchObject({ allowed: true, warnings: ['completed', 'no network'] })
    const user = { username: controllerAccount, groups: [] }
    for (const request of [
      admissionRequest('VirtualMachine', vm('good'), undefined, { user }),
      admissionRequest('VirtualMachine', vm('bad')),
      admissionRequest('VirtualMachine', vm('good'), vm('good')),
    ])
      expect(handlers.mutate(request)).not.toBeInstanceOf(Promise)
    expect(looked).toEqual(['default/vm1 good'])
  })

  test('without permissions, grant none', () => {
    const { handlers } = recorded()
    expect(handlers.mutate(preset('good'))).toMatchObject({ warnings: ['mayGrantHost false'] })
  })

  test('expect only a preset that the validating webhook allows', () => {
    const { handlers, expected } = recorded()
    void handlers.mutate(preset('good'))
    expect(expected).toEqual([])
    void handlers.validate(admissionRequest('VirtualMachinePreset', 7))
    expect(expected).toEqual([])
    void handlers.validate(preset('good'))
    expect(expected).toEqual(['VirtualMachinePreset'])
  })
})

describe('with presets of a cluster', () => {
  const requests = 8
  const manyLabels = Object.fromEntries(
    Array.from({ length: 200 }, (_, index) => [`k${index}`.padEnd(60, 'x'), 'x'.repeat(60)]),
  )
  const excluding = (labels: object, annotation = 'p') => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', labels, annotations: { [excludePresetsAnnotation]: annotation } },
    spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
  })
  /** `selected`: the labels by which presets were looked up. `nextTurn` ends the current one. */
  const setUp = () => {
    const selected: string[] = []
    const ends: (() => void)[] = []
    const candidates = candidatesOf(makePreset('p', { strength: 'Enforce', domain: { title: 'x' } }, 'default'))
    const select: typeof candidates.select = (labels, namespace) => {
      selected.push(JSON.stringify(labels))
      return candidates.select(labels, namespace)
    }
    const caches = { ...cachesWithout(fakeClock()), candidates: { ...candidates, select } }
    const engine = createEngine(caches, async () => true)
    const turns = createTurns((end) => void ends.push(end))
    const turn = () => turns.take({ tenant: 'default', username: 'jane' })
    const { pendingPresets } = caches
    return { handlers: createHandlers(engine, trust), selected, pendingPresets, turn, nextTurn: () => ends.shift() }
  }

  test.each([
    ['mutate', 'that arrive at once'],
    ['mutate', 'that have waited for one preset'],
    ['validate', 'that arrive at once'],
    ['validate', 'that have waited for one preset'],
  ] as const)('VMs to %s %s are read one in each turn', async (path, arrival) => {
    const { handlers, selected, pendingPresets, turn, nextTurn } = setUp()
    if (arrival.includes('waited')) pendingPresets.expect('default/p', 0)
    const results = Array.from({ length: requests }, async (_, index) =>
      handlers[path](admissionRequest('VirtualMachine', excluding({ app: `a${index}` })), turn),
    )
    pendingPresets.arrived('default/p', () => 0)
    const perTurn: number[] = []
    let isOver = false
    while (!isOver) {
      await settle()
      perTurn.push(new Set(selected.splice(0)).size)
      const next = nextTurn()
      next?.()
      isOver = next === undefined
    }
    expect([Math.max(...perTurn), perTurn.length]).toEqual([1, 2 * requests + 1])
    expect(await Promise.all(results)).toEqual(results.map(() => expect.objectContaining({ allowed: true })))
  })

  test.each(cases)('nothing of a %s to %s is read before its turn', (kind, path) => {
    const { object, reads } = unread(objects[kind]?.('good') ?? {})
    const { promise: never } = Promise.withResolvers<void>()
    void setUp().handlers[path](admissionRequest(kind, object, object), () => never)
    expect(reads).toEqual([])
    void setUp().handlers[path](admissionRequest(kind, object, object))
    expect(reads).not.toEqual([])
  })

  test.each<[string, object, string]>([
    ['labels', excluding(manyLabels), 'labels-size metadata.labels'],
    [
      'an annotation',
      excluding({}, `p,${'x'.repeat(256 * 1024)}`),
      `length metadata.annotations[${excludePresetsAnnotation}]`,
    ],
  ])('%s beyond the limit are refused without a review', (_, object, cause) => {
    const result = setUp().handlers.mutate(admissionRequest('VirtualMachine', object))
    expect(result).not.toBeInstanceOf(Promise)
    expect(result instanceof Promise ? [] : outcomeOf(result)).toEqual([cause])
  })
})

test('trusted accounts are virtset and the garbage collector', () => {
  expect(trustedAccounts('ns')).toEqual([
    'system:serviceaccount:ns:virtset-controller',
    'system:serviceaccount:ns:virtset-webhooks',
    'system:serviceaccount:kube-system:generic-garbage-collector',
    'system:kube-controller-manager',
  ])
})
