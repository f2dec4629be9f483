import { afterEach, describe, expect, test } from 'vitest'
import type { Condition } from '../../api/object.ts'
import { authorAnnotation, type ObjectPreset } from '../../api/object-preset.ts'
import type { PresetTarget } from '../../api/preset-target.ts'
import type { ObjectTarget, UnusableTarget, WatchedObjects } from '../../inventory/objects.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { startFakeApiServer, type FakeApiServer, type Fault, type FakeRequest } from '../../test/fake-apiserver.ts'
import { fakeClock, settle as settled } from '../../test/fake-clock.ts'
import { gadgetPreset, gadgets, gadgetTarget } from '../../test/presets/objects.ts'
import { until } from '../../test/until.ts'
import { createAuthorReviews } from './author-reviews.ts'
import { runConfigurationController, settleConfiguration } from './configuration-controller.ts'

const preset = (name: string): Persisted<ObjectPreset> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'ObjectPreset',
  metadata: { name, namespace: 'team', uid: name, resourceVersion: '1' },
  spec: { target: gadgetTarget, selector: {} },
})

test('a round ends early while presets change, and the next one continues', async () => {
  const clock = fakeClock()
  const written: string[] = []
  const kube: Pick<KubeClient, 'get' | 'update' | 'patch'> = {
    get: (async () => ({ metadata: {} })) as unknown as KubeClient['get'],
    update: (async () => {
      throw new Error('the configuration is empty, as it should be')
    }) as KubeClient['update'],
    patch: (async (_, { name }) => {
      written.push(name)
      await clock.advance(100)
      return {}
    }) as KubeClient['patch'],
  }
  const objects: Pick<WatchedObjects, 'target' | 'targets' | 'storedTargets' | 'storedPresets'> = {
    target: () => undefined,
    targets: () => [],
    storedTargets: () => [],
    storedPresets: () => Array.from({ length: 12 }, (_, index) => preset(`p${index}`)),
  }
  const log = createLogger({ process: 'test', level: 'silent' })
  const exclusions = { namespaces: [], accounts: [] }
  const reviews = createAuthorReviews(() => Promise.resolve(true), log, clock)
  const options = { kube: kube as KubeClient, objects: objects as WatchedObjects, exclusions, reviews, log, clock }
  const settle = (isOutdated: boolean, first: number) => settleConfiguration(options, () => isOutdated, first)

  const rounds: (readonly [first: number, names: string])[] = []
  let first = 0
  for (const isOutdated of [true, true, true, false]) {
    first = await settle(isOutdated, first)
    rounds.push([first, written.splice(0).join(' ')])
  }
  expect(rounds).toEqual([
    [5, 'p0 p1 p2 p3 p4'],
    [10, 'p5 p6 p7 p8 p9'],
    [3, 'p10 p11 p0 p1 p2'],
    [0, 'p3 p4 p5 p6 p7 p8 p9 p10 p11 p0 p1 p2'],
  ])
})

test('the event loop is not kept while statuses are compared', async () => {
  let nowMs = 0
  const clock = { ...fakeClock(), monotonic: () => (nowMs += 10) }
  const kube: Pick<KubeClient, 'get' | 'patch'> = {
    get: (async () => ({ metadata: {} })) as unknown as KubeClient['get'],
    patch: (async () => ({})) as unknown as KubeClient['patch'],
  }
  const objects: Pick<WatchedObjects, 'target' | 'targets' | 'storedTargets' | 'storedPresets'> = {
    target: () => undefined,
    targets: () => [],
    storedTargets: () => [],
    storedPresets: () => Array.from({ length: 12 }, (_, index) => preset(`p${index}`)),
  }
  const log = createLogger({ process: 'test', level: 'silent' })
  const reviews = createAuthorReviews(() => Promise.resolve(true), log, clock)
  const exclusions = { namespaces: [], accounts: [] }
  let turns = 0
  let isDone = false
  const count = () => {
    if (isDone) return
    turns += 1
    setImmediate(count)
  }
  setImmediate(count)
  await settleConfiguration({
    kube: kube as KubeClient,
    objects: objects as WatchedObjects,
    exclusions,
    reviews,
    log,
    clock,
  })
  isDone = true
  // After every second preset, when 20 ms have passed.
  expect(turns).toBe(6)
})

test('while presets change without end, rounds become rarer; a change after a pause is written soon', async () => {
  const clock = fakeClock()
  let rounds = 0
  const kube: Pick<KubeClient, 'get' | 'patch'> = {
    get: (async () => {
      rounds += 1
      return { metadata: {}, webhooks: [] }
    }) as unknown as KubeClient['get'],
    patch: (async () => ({})) as unknown as KubeClient['patch'],
  }
  const target: Persisted<PresetTarget> = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'PresetTarget',
    metadata: { name: 'gadgets.example.com', uid: 't', resourceVersion: '1' },
    spec: { ...gadgetTarget, failurePolicy: 'Fail' },
  }
  let changed = () => {}
  const objects: Pick<WatchedObjects, 'onChange' | 'target' | 'targets' | 'storedTargets' | 'storedPresets'> = {
    onChange: (listener) => void (changed = () => listener('team/p')),
    target: () => undefined,
    targets: () => [],
    storedTargets: () => [target],
    storedPresets: () => [],
  }
  const log = createLogger({ process: 'test', level: 'silent' })
  const exclusions = { namespaces: [], accounts: [] }
  const reviews = createAuthorReviews(() => Promise.resolve(true), log, clock)
  const options = { kube: kube as KubeClient, objects: objects as WatchedObjects, exclusions, reviews, log, clock }
  const stopping = new AbortController()
  const running = runConfigurationController(options, stopping.signal)
  const roundsIn = async (ms: number, isChanging: boolean): Promise<number> => {
    const before = rounds
    for (let at = 0; at < ms; at += 50) {
      if (isChanging) changed()
      await clock.advance(50)
    }
    return rounds - before
  }
  await roundsIn(5000, true)
  expect(await roundsIn(10_000, true)).toBeLessThanOrEqual(11)
  await roundsIn(5000, false)
  changed()
  expect(await roundsIn(200, false)).toBe(1)
  stopping.abort()
  await roundsIn(20_000, false)
  await running
})

const own = '/apis/virtset.io/v1alpha1'
const configurations = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations'
const read = gadgets.get('Gadget of example.com/v1')?.()
if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
const { kind } = read

const target = (name = 'gadgets.example.com'): Persisted<PresetTarget> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'PresetTarget',
  metadata: { name, uid: name, resourceVersion: '1', generation: 1 },
  spec: { ...gadgetTarget, failurePolicy: 'Fail' },
})

const usable = (): ObjectTarget => ({
  target: target(),
  kind,
  resource: 'gadgets',
  candidates: createCandidates([gadgetPreset('p', { size: 1 })]),
  quarantined: new Map(),
})

let server: FakeApiServer | undefined
const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

interface World {
  readonly entry?: ObjectTarget | UnusableTarget
  readonly targets?: readonly Persisted<PresetTarget>[]
  readonly presets?: readonly Persisted<ObjectPreset>[]
  readonly isInstalled?: boolean
  readonly mayUpdate?: boolean
  readonly fault?: (request: FakeRequest) => Fault | undefined
}

async function world({ entry, presets = [], isInstalled = true, mayUpdate = true, fault, ...rest }: World) {
  const clock = fakeClock()
  const fake = await startFakeApiServer({ now: () => clock.now() })
  server = fake
  const access = fake.access
  const kube = createKubeClient({ access, userAgent: 'test' })
  closing.push(
    () => fake.close(),
    () => kube.close(),
  )
  const targets = rest.targets ?? [target()]
  const stored = {
    targets: targets.map((one) => persisted<Persisted<PresetTarget>>(`${own}/presettargets`, one)),
    presets: presets.map((one) =>
      persisted<Persisted<ObjectPreset>>(
        `${own}/${one.kind === 'ObjectPreset' ? 'objectpresets' : 'clusterobjectpresets'}`,
        one,
      ),
    ),
  }
  if (isInstalled) fake.put(configurations, { metadata: { name: 'virtset-objects' } })
  fake.fault = fault
  const listeners: ((id: string | undefined) => void)[] = []
  const objects: Pick<WatchedObjects, 'onChange' | 'target' | 'targets' | 'storedTargets' | 'storedPresets'> = {
    onChange: (listener) => void listeners.push(listener),
    target: () => entry,
    targets: () => (entry === undefined ? [] : [entry]),
    storedTargets: () => stored.targets,
    storedPresets: () => stored.presets,
  }
  const lines: { readonly msg: string }[] = []
  const log = createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } })
  const logged = () => lines.splice(0).map(({ msg }) => msg)
  const reviews = createAuthorReviews(async (_, { verb }) => mayUpdate || verb !== 'update', log, clock)
  const exclusions = { namespaces: ['kube-system'], accounts: [] }
  const options = { kube, objects: objects as WatchedObjects, exclusions, reviews, log, clock }
  const registered = () => {
    const webhooks = fake.find(configurations, undefined, 'virtset-objects')?.['webhooks']
    return Array.isArray(webhooks) ? webhooks.map(({ name }: { name: string }) => name) : undefined
  }
  const statusOf = (collection: string, namespace: string | undefined, name: string) =>
    fake.find(`${own}/${collection}`, namespace, name)?.['status']
  const change = (): void => listeners.forEach((listener) => listener(undefined))
  const writes = () =>
    fake.requests.splice(0).flatMap(({ method, path }) => (method === 'GET' ? [] : [`${method} ${path}`]))
  return { clock, options, registered, statusOf, stored, change, writes, logged, fake }
}

function persisted<T extends { readonly metadata: { readonly name?: string } }>(collection: string, object: T): T {
  const { resourceVersion: _, ...metadata } = object.metadata as { readonly [key: string]: unknown }
  const saved = server?.put(collection, { ...object, metadata })
  return saved as unknown as T
}

const condition = (type: string, status: string, reason: string, message: string) => ({
  type,
  status,
  reason,
  message,
  observedGeneration: 1,
  lastTransitionTime: '2030-01-01T00:00:00Z',
})
const statusWith = (...conditions: readonly object[]) => ({ observedGeneration: 1, conditions })
const fault = (index: number) => ({
  rule: 'x',
  field: `spec.f${index}`,
  reason: 'FieldValueInvalid' as const,
  message: 'is bad',
})
const faults = (count: number) => Array.from({ length: count }, (_, index) => fault(index))
const stored = (name: string, more: object = {}): Persisted<ObjectPreset> => ({
  ...preset(name),
  metadata: { ...preset(name).metadata, generation: 1, ...more },
})

describe('a round', () => {
  test('registers the webhooks of targets, and writes nothing if nothing differs', async () => {
    const { options, registered, writes, logged, stored, fake } = await world({ entry: usable() })
    await settleConfiguration(options)
    expect(registered()).toEqual(['gadgets.example.com.0.namespaced.virtset.io'])
    expect(writes()).toEqual([
      `PUT ${configurations}/virtset-objects`,
      `PATCH ${own}/presettargets/gadgets.example.com/status`,
    ])
    expect(logged()).toEqual(['the webhooks for preset targets have changed'])
    const written = fake.find(`${own}/presettargets`, undefined, 'gadgets.example.com')
    stored.targets.splice(0, 1, written as unknown as Persisted<PresetTarget>)
    await settleConfiguration(options)
    expect([writes(), logged()]).toEqual([[], []])
  })

  test.each<[string, World, object]>([
    ['is ready', { entry: usable() }, condition('Ready', 'True', 'Ready', '')],
    [
      'that is invalid names every cause',
      { entry: { target: target(), causes: faults(2) } },
      condition('Ready', 'False', 'Invalid', 'spec.f0: is bad; spec.f1: is bad'),
    ],
    [
      'is not ready without the overlay',
      { entry: usable(), isInstalled: false },
      condition(
        'Ready',
        'False',
        'NotInstalled',
        'the MutatingWebhookConfiguration virtset-objects is missing: install the overlay object-presets',
      ),
    ],
    [
      'is not ready without the right to update the configuration',
      {
        entry: usable(),
        fault: ({ method, path }) => (method === 'PUT' && path.includes('webhook') ? { status: 403 } : undefined),
      },
      condition(
        'Ready',
        'False',
        'NotInstalled',
        'the MutatingWebhookConfiguration virtset-objects is missing: install the overlay object-presets',
      ),
    ],
    [
      'is ready if another replica was first',
      { entry: usable(), fault: ({ method }) => (method === 'PUT' ? { status: 409 } : undefined) },
      condition('Ready', 'True', 'Ready', ''),
    ],
    [
      'of a kind that has another target is not ready',
      { entry: { ...usable(), target: target('other') } },
      condition('Ready', 'False', 'Invalid', 'there is another PresetTarget for this kind'),
    ],
    [
      'of a kind whose other target is invalid does not show its causes',
      { entry: { target: target('other'), causes: faults(1) } },
      condition('Ready', 'False', 'Invalid', 'there is another PresetTarget for this kind'),
    ],
  ])('reports whether a target %s', async (_, given, expected) => {
    const { options, statusOf } = await world(given)
    await settleConfiguration(options)
    expect(statusOf('presettargets', undefined, 'gadgets.example.com')).toEqual(statusWith(expected))
  })

  const broken = (count: number): ObjectTarget => {
    const { quarantined } = {
      quarantined: new Map([
        ['team/q', { id: 'team/q', namespace: 'team', selector: undefined, causes: faults(count) }],
      ]),
    }
    return { ...usable(), quarantined: quarantined as unknown as ObjectTarget['quarantined'] }
  }
  const ten = faults(10)
    .map(({ field, message }) => `${field}: ${message}`)
    .join('; ')
  const author = { annotations: { [authorAnnotation]: '{"username":"jane","groups":[]}' } }
  const noTarget = 'spec.target: there is no PresetTarget for Gadget of example.com/v1 that is ready'
  const lost =
    'the author jane has lost a permission; the preset stays in use: ' +
    'spec.target: writing a preset requires the permission to update gadgets in namespace "team"'

  test.each<[string, World, Persisted<ObjectPreset>, readonly object[]]>([
    ['is in use', { entry: usable() }, stored('p'), [condition('Accepted', 'True', 'Accepted', '')]],
    ['is broken', { entry: broken(1) }, stored('q'), [condition('Accepted', 'False', 'Invalid', 'spec.f0: is bad')]],
    ['has ten faults', { entry: broken(10) }, stored('q'), [condition('Accepted', 'False', 'Invalid', ten)]],
    [
      'has more faults',
      { entry: broken(12) },
      stored('q'),
      [condition('Accepted', 'False', 'Invalid', `${ten}; and 2 more`)],
    ],
    ['has no target', {}, stored('p'), [condition('Accepted', 'False', 'NoTarget', noTarget)]],
    [
      'has a target that is not ready',
      { entry: { target: target(), causes: [] } },
      stored('p'),
      [condition('Accepted', 'False', 'NoTarget', noTarget)],
    ],
    [
      'has an author with all permissions',
      { entry: usable() },
      stored('p', author),
      [condition('Accepted', 'True', 'Accepted', ''), condition('Permitted', 'True', 'Permitted', '')],
    ],
    [
      'has an author who has lost a permission',
      { entry: usable(), mayUpdate: false },
      stored('p', author),
      [condition('Accepted', 'True', 'Accepted', ''), condition('Permitted', 'False', 'PermissionLost', lost)],
    ],
  ])('reports that a preset %s', async (_, given, one, conditions) => {
    const { options, statusOf } = await world({ ...given, presets: [one] })
    await settleConfiguration(options)
    expect(statusOf('objectpresets', 'team', one.metadata.name)).toMatchObject(statusWith(...conditions))
  })

  test('leaves what another replica has found since, until the author is reviewed again', async () => {
    const {
      options,
      statusOf,
      stored: cached,
      clock,
      writes,
    } = await world({
      entry: usable(),
      presets: [stored('p', author), stored('q', author)],
    })
    const settle = async (of = options) => {
      await settleConfiguration(of)
      for (const [index, { metadata }] of cached.presets.entries()) {
        const status = statusOf('objectpresets', 'team', metadata.name) ?? {}
        const { resourceVersion } = server?.find(`${own}/objectpresets`, 'team', metadata.name)?.metadata ?? {}
        const one = { ...cached.presets[index], metadata: { ...metadata, resourceVersion }, status }
        cached.presets.splice(index, 1, one as unknown as Persisted<ObjectPreset>)
      }
      return writes().filter((write) => write.includes('/objectpresets/')).length
    }
    const permitted = () =>
      ['p', 'q'].map((name) =>
        (statusOf('objectpresets', 'team', name) as { conditions: Condition[] }).conditions
          .filter(({ type }) => type === 'Permitted')
          .map(({ status }) => status)
          .join(),
      )
    expect([await settle(), permitted()]).toEqual([2, ['True', 'True']])
    await clock.advance(60_000)
    const other = { ...options, reviews: createAuthorReviews(() => Promise.resolve(false), options.log, clock) }
    expect([await settle(other), permitted()]).toEqual([2, ['False', 'False']])
    for (const of of [options, other, options, other]) expect(await settle(of)).toBe(0)
    await clock.advance(9 * 60_000)
    expect([await settle(), permitted()]).toEqual([2, ['True', 'True']])
    await clock.advance(59_000)
    expect(await settle(other)).toBe(0)
  })

  test('reports a review of some time ago of a preset whose spec is another', async () => {
    const before = {
      observedGeneration: 1,
      conditions: [{ ...condition('Permitted', '', 'PermissionLost', lost), status: 'False' as const }],
    }
    const {
      options,
      statusOf,
      stored: cached,
      clock,
    } = await world({
      entry: usable(),
      presets: [stored('q', author), { ...stored('p', author), status: before }],
    })
    const [changed] = cached.presets.splice(1)
    await settleConfiguration(options)
    await clock.advance(60_000)
    if (changed !== undefined) cached.presets.push({ ...changed, metadata: { ...changed.metadata, generation: 2 } })
    await settleConfiguration(options)
    const permitted = { ...condition('Permitted', 'True', 'Permitted', ''), observedGeneration: 2 }
    expect(statusOf('objectpresets', 'team', 'p')).toMatchObject({
      conditions: [{ ...permitted, lastTransitionTime: '2030-01-01T00:01:00Z' }, { type: 'Accepted' }],
    })
  })

  test('reports the revision of a preset that is in use, and that of the cluster at its place', async () => {
    const entry = usable()
    const { namespace: _, ...metadata } = stored('p').metadata
    const ofCluster = { ...stored('p'), kind: 'ClusterObjectPreset' as const, metadata }
    const { options, statusOf } = await world({ entry, presets: [stored('p'), ofCluster] })
    await settleConfiguration(options)
    const { revision } = entry.candidates.get('team/p')?.origin ?? {}
    expect(revision).toMatch(/^[0-9a-f]{16}$/)
    expect(statusOf('objectpresets', 'team', 'p')).toMatchObject({ revision })
    expect(statusOf('clusterobjectpresets', undefined, 'p')).toEqual(
      statusWith(condition('Accepted', 'False', 'Invalid', '')),
    )
  })

  const notWritten = 'a status could not be written; retrying'
  test.each([
    [404, []],
    [409, []],
    [422, [notWritten]],
  ])('continues after a status that the API server refuses with %i', async (status, expected) => {
    const { options, statusOf, logged } = await world({
      entry: usable(),
      presets: [stored('p'), stored('r')],
      fault: ({ path }) => (path.endsWith('/p/status') ? { status } : undefined),
    })
    await settleConfiguration(options)
    expect(statusOf('objectpresets', 'team', 'r')).toBeDefined()
    expect(logged().slice(1)).toEqual(expected)
  })

  test.each([
    [[target()], ['the overlay object-presets is not installed: presets for objects are not applied']],
    [[], []],
  ])('warns of a missing configuration if there are targets', async (targets, expected) => {
    const { options, logged } = await world({ targets, isInstalled: false })
    await settleConfiguration(options)
    expect(logged()).toEqual(expected)
  })

  test.each<[string, (request: FakeRequest) => Fault | undefined, typeof ApiError | typeof ApiUnreachable]>([
    ['a status', ({ path }) => (path.endsWith('/status') ? 'reset' : undefined), ApiUnreachable],
    [
      'the configuration',
      ({ path }) => (path.includes('webhookconfigurations') ? { status: 500 } : undefined),
      ApiError,
    ],
  ])('ends if %s cannot be written at all', async (_, unavailable, expected) => {
    const { options } = await world({ entry: usable(), fault: unavailable })
    await expect(settleConfiguration(options)).rejects.toBeInstanceOf(expected)
  })
})

describe('the controller', () => {
  async function running(given: World) {
    const made = await world(given)
    const stopping = new AbortController()
    const ended = runConfigurationController(made.options, stopping.signal)
    closing.push(async () => {
      stopping.abort()
      await made.clock.advance(100)
      await ended
    })
    /** Waits for real requests, and lets the clock pass. */
    const pass = async (ms: number) => {
      await made.clock.advance(ms)
      for (let turn = 0; turn < 20; turn++) await settled()
    }
    return { ...made, pass, stopping, ended }
  }
  const path = `PUT ${configurations}/virtset-objects`
  const isRegistered = (registered: () => unknown) => until(async () => registered() !== undefined)

  test('registers webhooks at once, and repairs the configuration', async () => {
    const { registered, fake, clock } = await running({ entry: usable() })
    await isRegistered(registered)
    const { resourceVersion: _, ...metadata } = fake.find(configurations, undefined, 'virtset-objects')?.metadata ?? {}
    fake.put(configurations, { metadata })
    await until(async () => {
      await clock.advance(1000)
      return registered() !== undefined
    })
    expect(registered()).toHaveLength(1)
  })

  test('settles again after a change, when changes that come together have arrived', async () => {
    const { registered, writes, change, clock, fake, stored: current } = await running({ entry: usable() })
    await isRegistered(registered)
    await until(async () => (await clock.advance(0), clock.nextMs() === 15_000))
    writes()
    fake.put(configurations, { metadata: { name: 'virtset-objects' } })
    await clock.advance(1000)
    change()
    await settled()
    expect(clock.nextMs()).toBe(100)
    expect(writes()).not.toContain(path)
    await clock.advance(100)
    await isRegistered(registered)
    expect(current.targets).toHaveLength(1)
  })

  test('without targets, reads the configuration once', async () => {
    const { fake, pass, clock, stored, change } = await running({ targets: [], isInstalled: false })
    await until(async () => fake.requests.length > 0 && clock.pending() > 0)
    for (let round = 0; round < 4; round++) await pass(15_100)
    expect(fake.requests.map(({ method }) => method)).toEqual(['GET'])
    stored.targets.push(target())
    change()
    await until(async () => (await pass(100), fake.requests.length > 1))
    expect(fake.requests.length).toBeGreaterThan(1)
  })

  test('continues after an error', async () => {
    let failures = 0
    const { registered, clock, logged } = await running({
      entry: usable(),
      targets: [],
      fault: () => (failures++ < 3 ? { status: 500 } : undefined),
    })
    await until(async () => {
      await clock.advance(1000)
      return registered() !== undefined
    })
    expect(registered()).toHaveLength(1)
    expect(logged().at(0)).toBe('could not settle the configuration for preset targets; retrying')
  })
})
