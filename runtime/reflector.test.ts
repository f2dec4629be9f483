import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createKubeClient } from './kube.ts'
import type { KubeClient } from './kube.ts'
import { createLogger } from './log.ts'
import { startReflector } from './reflector.ts'
import type { Reflector } from './reflector.ts'
import { resource } from './resource.ts'
import type { KubeObject } from './resource.ts'

interface Pod extends KubeObject {
  readonly spec?: { readonly nodeName?: string; readonly note?: string }
}

const pods = resource<Pod>({ group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true })
const collection = '/api/v1/pods'
const log = createLogger({ process: 'test', level: 'silent' })

const pod = (name: string, spec: Pod['spec'] = {}) => ({ metadata: { namespace: 'default', name }, spec })

const opened: { stop(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.stop()
})

async function setUp(options: { random?: () => number; fieldSelector?: string; isLarge?: boolean } = {}) {
  const server = await startFakeApiServer()
  opened.push({ stop: () => server.close() })
  const clock = fakeClock()
  const kube = createKubeClient({ access: server.access, userAgent: 'test', timeoutMs: 5000 })
  opened.push({ stop: () => kube.close() })
  const start = () => {
    const reflector = startReflector({
      kube,
      resource: pods,
      log,
      clock,
      random: options.random ?? (() => 0),
      indexers: { node: ({ spec }) => (spec?.nodeName ? [spec.nodeName] : []) },
      ...(options.fieldSelector ? { fieldSelector: options.fieldSelector } : {}),
      ...(options.isLarge ? { isLarge: true } : {}),
    })
    opened.push(reflector)
    return reflector
  }
  return { server, clock, kube, start }
}

const names = (reflector: Reflector<Pod, 'node'>) => reflector.store.list().map(({ metadata }) => metadata.name)

/** What the server has, as the cache should have it: names, uids, versions. */
const identity = (object: { metadata: { name?: string; uid?: string; resourceVersion?: string } }) =>
  `${object.metadata.name} ${object.metadata.uid} ${object.metadata.resourceVersion}`

const isEqual = (reflector: Reflector<Pod, 'node'>, server: FakeApiServer) =>
  JSON.stringify(reflector.store.list().map(identity).toSorted()) ===
  JSON.stringify(server.objects(collection).map(identity).toSorted())

describe('reflector', () => {
  it("lists from the API server's cache first, then watches with bookmarks, and follows", async () => {
    const { server, start } = await setUp()
    server.put(collection, pod('a'))
    const reflector = start()
    expect(reflector.hasSynced()).toBe(false)
    expect(reflector.ageMs()).toBe(Infinity)
    await reflector.synced()
    expect(names(reflector)).toEqual(['a'])
    await until(() => server.watchers() === 1)
    server.put(collection, pod('b', { nodeName: 'n1' }))
    server.remove(collection, 'default', 'a')
    await until(() => names(reflector).join() === 'b')
    expect(reflector.store.byIndex('node', 'n1').map(({ metadata }) => metadata.name)).toEqual(['b'])
    expect(server.requests.map(({ query }) => query.toString())).toEqual([
      'resourceVersion=0',
      'resourceVersion=1001&timeoutSeconds=300&watch=true&allowWatchBookmarks=true',
    ])
  })

  it('cuts lines as bytes: a character may straddle two chunks', async () => {
    const { server, start } = await setUp()
    server.chunkBytes = 1
    const reflector = start()
    await until(() => server.watchers() === 1)
    const note = 'Grüße, 仮想マシン 🖥'
    server.put(collection, pod('a', { note }))
    await until(() => reflector.store.size === 1)
    expect(reflector.store.get('default/a')?.spec?.note).toBe(note)
  })

  it('drops managedFields and the last applied configuration, keeps other annotations, and freezes', async () => {
    const { server, start } = await setUp()
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}', kept: 'yes' }
    server.put(collection, { metadata: { namespace: 'default', name: 'a', managedFields: [{}], annotations } })
    const reflector = start()
    await reflector.synced()
    const { metadata } = reflector.store.get('default/a')!
    expect(metadata.managedFields).toBeUndefined()
    expect(metadata.annotations).toEqual({ kept: 'yes' })
    expect(Object.isFrozen(metadata.annotations)).toBe(true)
  })

  const breaks = ['end', 'reset', 'expire', 'error-500', 'half-line'] as const
  it.each(breaks)('goes on after a watch ended by: %s; misses no deletion meanwhile', async (how) => {
    const { server, clock, start } = await setUp()
    server.put(collection, pod('a'))
    server.put(collection, pod('b'))
    const reflector = start()
    const deleted: string[] = []
    reflector.onChange((change) => void (change.kind === 'deleted' && deleted.push(change.object.metadata.name)))
    await until(() => server.watchers() === 1)
    server.breakWatches(how)
    server.remove(collection, 'default', 'a')
    if (how === 'expire') server.compact()
    await until(
      () => names(reflector).join() === 'b',
      () => clock.advance(800),
    )
    expect(deleted).toEqual(['a'])
  })

  it('waits between failures, longer and longer, and starts anew after two healthy minutes', async () => {
    const { server, clock, start } = await setUp()
    server.fault = () => ({ status: 500 })
    start()
    const waits: (number | undefined)[] = []
    for (let failure = 0; failure < 8; failure++) {
      await until(() => clock.pending() === 1)
      waits.push(clock.nextMs())
      await clock.advance(clock.nextMs() ?? 0)
    }
    expect(waits).toEqual([800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000])
    await until(() => clock.pending() === 1)
    server.fault = undefined
    await clock.advance(30_000)
    await until(() => server.watchers() === 1)
    await clock.advance(120_001)
    server.breakWatches('error-500')
    await until(() => clock.nextMs() === 800)
  })

  it('waits as long as Retry-After says', async () => {
    const { server, clock, start } = await setUp()
    server.fault = () => ({ status: 410, headers: { 'retry-after': '40' } })
    start()
    await until(() => clock.nextMs() === 40_000)
    expect(server.requests.length).toBe(1)
  })

  it('lists again from etcd, in pages, after 410, but waits first', async () => {
    const { server, clock, start } = await setUp()
    for (let count = 0; count < 1200; count++) server.put(collection, pod(`p${count}`))
    const reflector = start()
    await until(() => server.watchers() === 1)
    server.requests.length = 0
    server.breakWatches('expire')
    await until(() => clock.nextMs() === 800)
    expect(server.requests).toEqual([])
    await clock.advance(800)
    await until(() => server.watchers() === 1)
    expect(server.requests.map(({ query }) => query.get('limit'))).toEqual(['500', '500', '500', null])
    expect(reflector.store.size).toBe(1200)
  })

  it('lists what is large in small pages from the first time on', async () => {
    const { server, start } = await setUp({ isLarge: true })
    for (let count = 0; count < 250; count++) server.put(collection, pod(`p${count}`))
    const reflector = start()
    await until(() => server.watchers() === 1)
    const lists = server.requests.filter(({ query }) => !query.has('watch'))
    expect(lists.map(({ query }) => [query.get('limit'), query.get('resourceVersion')])).toEqual(
      Array.from({ length: 3 }, () => ['100', null]),
    )
    expect(reflector.store.size).toBe(250)
  })

  it('lists in one piece when a page is too old', async () => {
    const { server, clock, start } = await setUp()
    for (let count = 0; count < 600; count++) server.put(collection, pod(`p${count}`))
    const reflector = start()
    await until(() => server.watchers() === 1)
    server.breakWatches('expire')
    server.fault = ({ query }) => (query.has('continue') ? { status: 410 } : undefined)
    server.remove(collection, 'default', 'p0')
    await clock.advance(800)
    await until(() => reflector.store.size === 599)
    expect(reflector.statistics().lists).toBe(2)
  })

  it('reconnects when the watch is silent for longer than bookmarks take', async () => {
    const { server, clock, start } = await setUp()
    const reflector = start()
    await until(() => server.watchers() === 1)
    await clock.advance(150_000)
    server.bookmark()
    await until(() => reflector.ageMs() === 0)
    await clock.advance(150_000)
    expect(reflector.ageMs()).toBe(150_000)
    expect(reflector.statistics().watches).toBe(1)
    await clock.advance(50_000)
    await until(
      () => reflector.statistics().watches === 2,
      () => clock.advance(800),
    )
    expect(reflector.statistics().lists).toBe(1)
  })

  it('goes on from the bookmark, so that a quiet kind does not expire', async () => {
    const { server, clock, start } = await setUp()
    const reflector = start()
    await until(() => server.watchers() === 1)
    for (let count = 0; count < 5; count++) server.put('/api/v1/services', pod(`s${count}`))
    server.bookmark()
    server.compact()
    server.bookmark()
    await clock.advance(10_000)
    await until(() => reflector.ageMs() === 0 || reflector.ageMs() === 10_000)
    server.breakWatches('end')
    await until(() => reflector.statistics().watches === 2)
    expect(reflector.statistics()).toMatchObject({ lists: 1, failures: 0 })
  })

  it('survives handlers that throw or reject, and tells a late handler what is there', async () => {
    const { server, start } = await setUp()
    const reflector = start()
    reflector.onChange(() => {
      throw new Error('thrown')
    })
    reflector.onChange(async () => Promise.reject(new Error('rejected')))
    await until(() => server.watchers() === 1)
    server.put(collection, pod('a'))
    await until(() => reflector.store.size === 1)
    const late: string[] = []
    reflector.onChange((change) => void late.push(`${change.kind} ${change.object.metadata.name}`))
    expect(late).toEqual(['added a'])
  })

  it('tells of a name that was deleted and created again as of two objects', async () => {
    const { server, clock, start } = await setUp()
    server.put(collection, pod('a'))
    const reflector = start()
    await until(() => server.watchers() === 1)
    const told: string[] = []
    reflector.onChange((change) => void told.push(`${change.kind} ${change.object.metadata.uid!.slice(-1)}`))
    server.breakWatches('expire')
    server.remove(collection, 'default', 'a')
    server.put(collection, pod('a'))
    server.compact()
    await until(
      () => told.length === 3,
      () => clock.advance(800),
    )
    expect(told).toEqual(['added 1', 'deleted 1', 'added 2'])
  })

  it('follows what comes into and leaves its field selector', async () => {
    const { server, start } = await setUp({ fieldSelector: 'spec.nodeName=n1' })
    const reflector = start()
    await until(() => server.watchers() === 1)
    server.put(collection, pod('a'))
    server.put(collection, pod('b', { nodeName: 'n1' }))
    server.put(collection, pod('a', { nodeName: 'n1' }))
    await until(() => names(reflector).join() === 'b,a')
    server.put(collection, pod('b', { nodeName: 'n2' }))
    await until(() => names(reflector).join() === 'a')
    expect(reflector.store.get('default/a')?.spec).toEqual({ nodeName: 'n1' })
  })

  it('leaves nothing behind when it stops: no watch, no timer', async () => {
    const { server, clock, start } = await setUp()
    const reflector = start()
    await until(() => server.watchers() === 1)
    await reflector.stop()
    await until(() => server.watchers() === 0)
    expect(clock.pending()).toBe(0)
    const { requests } = server
    const before = requests.length
    await clock.advance(1_000_000)
    expect(requests.length).toBe(before)
  })

  it('stopped before the first list, it says so to whoever waits', async () => {
    const { server, start } = await setUp()
    server.fault = () => 'hang'
    const reflector = start()
    const waiting = reflector.synced().catch(String)
    await reflector.stop()
    expect(await waiting).toContain('stopped')
  })
})

type Step =
  | { do: 'put' | 'remove'; name: string }
  | { do: 'break'; how: Parameters<FakeApiServer['breakWatches']>[0] }
  | { do: 'compact' | 'bookmark' }
  | { do: 'fault'; status: number; times: number }
  | { do: 'reset'; times: number }
  | { do: 'wait'; ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constantFrom('put', 'remove'), name: fc.constantFrom('a', 'b', 'c', 'd') }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('break' as const),
      how: fc.constantFrom('end', 'reset', 'expire', 'error-500', 'half-line'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('compact' as const, 'bookmark' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('fault' as const),
      status: fc.constantFrom(410, 429, 500, 503, 400),
      times: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const), times: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 300_000 }) }) },
)

describe('whatever happens', () => {
  it('the cache ends equal to the server, and the told changes add up to it', { timeout: 60_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 25 }),
        fc.constantFrom(undefined, 1, 7),
        async (steps, chunk) => {
          const { server, clock, start, kube } = await setUp()
          server.chunkBytes = chunk
          let faults: { left: number; status: number | 'reset' } = { left: 0, status: 500 }
          server.fault = () => {
            if (faults.left === 0) return undefined
            faults.left--
            return faults.status === 'reset' ? 'reset' : { status: faults.status }
          }
          const reflector = start()
          const told = new Map<string, string>()
          const wrong: string[] = []
          reflector.onChange(({ kind, object }) => {
            const { uid, name } = object.metadata
            if (told.has(uid) === (kind === 'added')) wrong.push(`${kind} ${uid}`)
            if (kind === 'deleted') told.delete(uid)
            else told.set(uid, name)
          })
          for (const one of steps) {
            if (one.do === 'put') server.put(collection, pod(one.name))
            else if (one.do === 'remove') server.remove(collection, 'default', one.name)
            else if (one.do === 'break') server.breakWatches(one.how)
            else if (one.do === 'compact') server.compact()
            else if (one.do === 'bookmark') server.bookmark()
            else if (one.do === 'fault') faults = { left: one.times, status: one.status }
            else if (one.do === 'reset') faults = { left: one.times, status: 'reset' }
            else if (one.do === 'wait') await clock.advance(one.ms)
          }
          await until(
            () => isEqual(reflector, server) && server.watchers() === 1,
            () => clock.advance(30_000),
          )
          expect([...told.keys()].toSorted()).toEqual(
            server
              .objects(collection)
              .map(({ metadata }) => metadata.uid!)
              .toSorted(),
          )
          expect(wrong).toEqual([])
          await reflector.stop()
          expect(clock.pending()).toBe(0)
          await stopAll(kube, server)
        },
      ),
      { numRuns: 40 },
    )
  })
})

async function stopAll(kube: KubeClient, server: FakeApiServer): Promise<void> {
  await kube.close()
  await server.close()
  opened.length = 0
}
