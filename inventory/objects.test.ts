import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { gadgetOpenApi, gadgetTarget } from '../test/presets/objects.ts'
import { until } from '../test/until.ts'
import { watchObjects, type ObjectTarget } from './objects.ts'

const log = createLogger({ process: 'test', level: 'silent' })
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const group = '/apis/virtset.io/v1alpha1'
const name = 'Gadget of example.com/v1'
const url = '/openapi/v3/apis/example.com/v1'

/** An API server that serves Gadgets once `isServed` is set. */
async function start() {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const state = { isServed: true, isRead: false }
  api.fault = ({ path }) => {
    state.isRead ||= path === url
    if (path === url) return { status: 200, body: gadgetOpenApi() }
    if (path !== '/openapi/v3') return undefined
    const paths = state.isServed ? { 'apis/example.com/v1': { serverRelativeURL: `${url}?hash=1` } } : {}
    return { status: 200, body: { paths } }
  }
  const watch = async (clock = systemClock) => {
    const objects = watchObjects({ kube, log, clock, protectedNamespaces: ['kube-system'] })
    closing.push(() => objects.stop())
    await Promise.all(objects.reflectors.map((reflector) => reflector.synced()))
    return objects
  }
  return { api, kube, state, watch }
}

type Api = Awaited<ReturnType<typeof start>>['api']

const putTarget = (api: Api, targetName = 'gadgets.example.com', more: object = {}, generation = 1) =>
  api.put(`${group}/presettargets`, {
    kind: 'PresetTarget',
    metadata: { name: targetName, generation },
    spec: { ...gadgetTarget, failurePolicy: 'Fail', ...more },
  })

const putPreset = (api: Api, presetName: string, spec: object, generation = 1, more: object = {}) =>
  api.put(`${group}/objectpresets`, {
    kind: 'ObjectPreset',
    metadata: { name: presetName, namespace: 'team', generation },
    spec: { target: gadgetTarget, selector: {}, ...spec },
    ...more,
  })

const presetsOf = (entry: Partial<ObjectTarget> | undefined) => ({
  applied: [...(entry?.candidates?.all() ?? [])].map(({ id }) => id).toSorted(),
  broken: [...(entry?.quarantined?.keys() ?? [])],
})

test('the presets of a kind follow the API server; a broken one is quarantined until it is fixed', async () => {
  const { api, watch } = await start()
  putTarget(api, 'gadgets.example.com', { restricted: ['spec.mode'] })
  putPreset(api, 'one', { object: { spec: { size: 1 } } })
  putPreset(api, 'other', { target: { ...gadgetTarget, kind: 'Widget' } })
  const objects = await watch()
  const target = () => {
    const entry = objects.target(name)
    return entry !== undefined && 'kind' in entry ? entry : undefined
  }
  await until(target)
  expect(target()?.resource).toBe('gadgets')
  expect(presetsOf(target())).toEqual({ applied: ['team/one'], broken: [] })

  putPreset(api, 'one', { object: { spec: { sise: 1 } } }, 2)
  putPreset(api, 'two', { object: { spec: { mode: 'Fast' } } })
  await until(() => presetsOf(target()).broken.length === 2)
  expect(presetsOf(target())).toEqual({ applied: [], broken: ['team/one', 'team/two'] })

  putPreset(api, 'one', { object: { spec: { size: 2 } } }, 3)
  putPreset(api, 'two', { target: { ...gadgetTarget, kind: 'Widget' } }, 2)
  await until(() => presetsOf(target()).broken.length === 0)
  expect(presetsOf(target())).toEqual({ applied: ['team/one'], broken: [] })

  api.remove(`${group}/objectpresets`, 'team', 'one')
  await until(() => presetsOf(target()).applied.length === 0)
  expect(
    objects
      .storedPresets()
      .map(({ metadata }) => metadata.name)
      .toSorted(),
  ).toEqual(['other', 'two'])
})

test('a change of a status compiles nothing again', async () => {
  const { api, watch } = await start()
  putTarget(api)
  putPreset(api, 'one', {})
  const objects = await watch()
  await until(() => presetsOf(objects.target(name)).applied.length === 1)
  const before = objects.target(name)
  const changes: (string | undefined)[] = []
  objects.onChange((id) => changes.push(id))
  putTarget(api, 'gadgets.example.com', { status: { conditions: [] } })
  putPreset(api, 'one', {}, 1, { status: { observedGeneration: 1 } })
  putPreset(api, 'two', {})
  await until(() => changes.length > 0)
  expect(changes).toEqual(['team/two'])
  expect(objects.target(name)).toBe(before)
})

test('presets that change while those of their kind are compiled are as stored', async () => {
  const { api, watch } = await start()
  const parts = Array.from({ length: 100 }, (_, index) => ({ name: `part-${index}`, tags: ['a', 'b'] }))
  const ids = Array.from({ length: 60 }, (_, index) => `p${index}`)
  for (const id of ids) putPreset(api, id, { object: { spec: { parts } } })
  const objects = await watch()
  putTarget(api)
  await until(() => objects.target(name) !== undefined)
  for (const id of ['p0', 'p59']) putPreset(api, id, { object: { spec: { sise: 1 } } }, 2)
  for (const id of ['p1', 'p58']) api.remove(`${group}/objectpresets`, 'team', id)
  await until(() => presetsOf(objects.target(name)).broken.length === 2)
  const expected = ids.slice(2, -2).map((id) => `team/${id}`)
  await until(() => presetsOf(objects.target(name)).applied.length === expected.length)
  expect(presetsOf(objects.target(name)).applied).toEqual(expected.toSorted())
})

test('a target that is added while presets of another one are compiled never seems to be absent', async () => {
  const { api, state, watch } = await start()
  const parts = Array.from({ length: 100 }, (_, index) => ({ name: `part-${index}`, tags: ['a', 'b'] }))
  for (let index = 0; index < 100; index++) putPreset(api, `p${index}`, { object: { spec: { parts } } })
  const objects = await watch({ ...systemClock, monotonic: afterEachPreset() })
  const widget = 'Widget of example.com/v1'
  const seen: (readonly [isStored: boolean, isKnown: boolean])[] = []
  objects.onChange(() => seen.push([objects.storedTargets().length === 2, objects.target(widget) !== undefined]))
  putTarget(api)
  await until(() => state.isRead)
  putTarget(api, 'widgets.example.com', { kind: 'Widget' })
  await until(() => objects.target(widget) !== undefined && 'kind' in (objects.target(name) ?? {}))
  expect(seen.filter(([isStored, isKnown]) => isStored !== isKnown)).toEqual([])
})

/** A clock by which each preset takes longer than a slice. */
function afterEachPreset(): () => number {
  let now = 0
  return () => (now += 100)
}

test('a target whose kind is not served yet is used as soon as it is', async () => {
  const { api, state, watch } = await start()
  state.isServed = false
  putTarget(api)
  const objects = await watch()
  const causes = () => {
    const entry = objects.target(name)
    return entry !== undefined && 'causes' in entry ? entry.causes.map(({ message }) => message) : undefined
  }
  await until(() => causes()?.[0] === 'the API server does not serve example.com/v1')
  state.isServed = true
  await until(() => causes() === undefined)
  expect(objects.target(name)).toMatchObject({ resource: 'gadgets' })
})

test('of two targets for one kind, the one with the right name is used', async () => {
  const { api, watch } = await start()
  putTarget(api, 'a')
  putTarget(api, 'gadgets.example.com')
  putTarget(api, 'z')
  const objects = await watch()
  await until(() => 'kind' in (objects.target(name) ?? {}))
  expect(objects.target(name)?.target.metadata.name).toBe('gadgets.example.com')
  expect([...objects.targets()]).toHaveLength(1)
  expect(objects.storedTargets()).toHaveLength(3)
})

test('a deleted target is not used any more', async () => {
  const { api, watch } = await start()
  putTarget(api)
  const objects = await watch()
  await until(() => 'kind' in (objects.target(name) ?? {}))
  api.remove(`${group}/presettargets`, undefined, 'gadgets.example.com')
  await until(() => objects.target(name) === undefined)
  expect([...objects.targets()]).toEqual([])
})

test('a target that is invalid by itself, or whose preset has no valid target, does no harm', async () => {
  const { api, watch } = await start()
  putTarget(api, 'gadgets.example.com', { failurePolicy: 'Sometimes' })
  api.put(`${group}/objectpresets`, { metadata: { name: 'x', namespace: 'team' }, spec: 7 })
  api.put(`${group}/clusterobjectpresets`, { metadata: { name: 'y' }, spec: { target: 'Gadget' } })
  const objects = await watch()
  expect(objects.target(name)).toMatchObject({ causes: [{ field: 'spec.failurePolicy' }] })
  expect(objects.target('undefined of undefined')).toBeUndefined()
})

test('the schema of any kind can be read', async () => {
  const { watch } = await start()
  const objects = await watch()
  expect(await objects.read(gadgetTarget)).toMatchObject({ resource: 'gadgets' })
  expect(await objects.read({ ...gadgetTarget, kind: 'Gadjet' })).toMatchObject({
    causes: [{ field: 'spec.kind', suggestion: 'did you mean Gadget of example.com/v1?' }],
  })
})

test('caches only the metadata of presets that is used', async () => {
  const { api, watch } = await start()
  putPreset(api, 'one', {}, 1, {
    metadata: { name: 'one', namespace: 'team', generation: 1, annotations: { large: 'x' }, labels: { a: 'b' } },
  })
  const objects = await watch()
  expect(objects.storedPresets().map(({ metadata }) => Object.keys(metadata).toSorted())).toEqual([
    ['generation', 'name', 'namespace', 'resourceVersion', 'uid'],
  ])
})

test('reports which caches have not synced', async () => {
  const { api, kube } = await start()
  const listing = Promise.withResolvers<void>()
  const { fault } = api
  api.fault = (request) =>
    request.path === `${group}/presettargets` ? { heldUntil: listing.promise } : fault?.(request)
  const objects = watchObjects({ kube, log, clock: systemClock, protectedNamespaces: [] })
  closing.push(() => objects.stop())
  await until(() => objects.unready().length === 1)
  expect(objects.unready()).toEqual(['the cache of presettargets has not synced yet'])
  listing.resolve()
  await until(() => objects.unready().length === 0)
})
