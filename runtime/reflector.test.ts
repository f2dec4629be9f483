import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer, Fault } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import type { FakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import type { Rate } from './bucket.ts'
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

async function setUp(options: { random?: () => number; fieldSelector?: string; name?: string; eventRate?: Rate } = {}) {
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
      ...(options.name ? { name: options.name } : {}),
      ...(options.eventRate ? { eventRate: options.eventRate } : {}),
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
  it('lists, then watches with bookmarks, and follows', async () => {
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
      'limit=25',
      'resourceVersion=1001&timeoutSeconds=300&watch=true&allowWatchBookmarks=true',
    ])
  })

  it('splits lines as bytes: a character can span two chunks', async () => {
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
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}', other: 'yes' }
    server.put(collection, { metadata: { namespace: 'default', name: 'a', managedFields: [{}], annotations } })
    const reflector = start()
    await reflector.synced()
    const { metadata } = reflector.store.get('default/a')!
    expect(metadata.managedFields).toBeUndefined()
    expect(metadata.annotations).toEqual({ other: 'yes' })
    expect(Object.isFrozen(metadata.annotations)).toBe(true)
  })

  const breaks = ['end', 'reset', 'expire', 'error-500', 'half-line'] as const
  it.each(breaks)(
    'continues after a watch ended by: %s; misses no deletion meanwhile, and tells of a gap',
    async (how) => {
      const { server, clock, start } = await setUp()
      server.put(collection, pod('a'))
      server.put(collection, pod('b'))
      const reflector = start()
      const deleted: string[] = []
      reflector.onChange((change) => void (change.kind === 'deleted' && deleted.push(change.object.metadata.name)))
      let gaps = 0
      reflector.onGap(() => void gaps++)
      await until(() => server.watchers() === 1)
      server.breakWatches(how)
      server.remove(collection, 'default', 'a')
      if (how === 'expire') server.compact()
      await until(
        () => names(reflector).join() === 'b',
        () => clock.advance(800),
      )
      expect(deleted).toEqual(['a'])
      expect(gaps).toBe(how === 'expire' ? 1 : 0)
    },
  )

  it('watches on after a gap whose handler fails, and calls the others', async () => {
    const { server, clock, start } = await setUp()
    const reflector = start()
    const heard: string[] = []
    reflector.onChange(({ object }) => void heard.push(object.metadata.name))
    reflector.onGap(() => {
      heard.push('gap')
      throw new Error('a gap')
    })
    reflector.onGap(() => void heard.push('another handler'))
    await until(() => server.watchers() === 1)
    server.breakWatches('expire')
    server.compact()
    await until(
      () => heard.includes('another handler') && server.watchers() === 1,
      () => clock.advance(800),
    )
    server.put(collection, pod('a'))
    await until(() => heard.includes('a'))
    expect([heard, reflector.statistics().lists]).toEqual([['gap', 'another handler', 'a'], 2])
  })

  it('backs off after refusals, and starts over after two healthy minutes', async () => {
    const { server, clock, start } = await setUp()
    server.fault = () => ({ status: 403 })
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

  it('waits for Retry-After', async () => {
    const { server, clock, start } = await setUp()
    server.fault = () => ({ status: 410, headers: { 'retry-after': '40' } })
    start()
    await until(() => clock.nextMs() === 40_000)
    expect(server.requests.length).toBe(1)
  })

  it('lists at once after 410', async () => {
    const { server, clock, start } = await setUp()
    for (let count = 0; count < 60; count++) server.put(collection, pod(`p${count}`))
    const reflector = start()
    await until(() => server.watchers() === 1)
    await clock.advance(10_000)
    server.requests.length = 0
    server.breakWatches('expire')
    await until(() => server.watchers() === 1)
    const lists = server.requests.map(({ query }) => query.get('limit'))
    expect(lists).toEqual(['25', '25', '25', null])
    expect(reflector.store.size).toBe(60)
    server.breakWatches('expire')
    await until(() => clock.nextMs() === 800)
    expect(reflector.statistics().lists).toBe(2)
  })

  describe.each<[string, () => Fault]>([
    ['refuses connections', () => 'reset'],
    ['responds with 500', () => ({ status: 500 })],
    ['responds with 503', () => ({ status: 503 })],
  ])('an API server that %s for 70 s', (_, fault) => {
    it.each([
      ['has all versions', () => {}],
      ['has none of the old versions', (server: FakeApiServer) => server.compact()],
      ['was restored from a backup', (server: FakeApiServer) => server.restore()],
    ])('and then %s, is in the cache within 10 s, with the longest jitter', async (_case, meanwhile) => {
      const { server, clock, start } = await setUp({ random: () => 1 })
      server.put(collection, pod('a'))
      server.backUp()
      server.put(collection, pod('b'))
      const reflector = start()
      await until(() => server.watchers() === 1)
      server.fault = fault
      server.breakWatches('reset')
      for (let waitedMs = 0; waitedMs < 70_000; waitedMs += 100) {
        // Requests are real: time does not advance until each has failed.
        await until(() => clock.pending() === 1)
        await clock.advance(100)
      }
      meanwhile(server)
      server.put(collection, pod('c'))
      // The API server's own start: it answers before it knows its roles.
      server.fault = () => ({ status: 403 })
      const firstResponse = server.requests.length
      await until(
        () => server.requests.length > firstResponse,
        () => clock.advance(100),
      )
      const answeredMs = clock.monotonic()
      server.fault = undefined
      await until(
        () => isEqual(reflector, server),
        () => clock.advance(100),
      )
      expect(clock.monotonic() - answeredMs).toBeLessThanOrEqual(10_000)
    })
  })

  describe('lists again when versions went back', () => {
    const rollbacks: [
      string,
      (server: FakeApiServer, clock: FakeClock, kube: KubeClient, reflector: Reflector<Pod, 'node'>) => unknown,
    ][] = [
      ['in a bookmark', (server) => server.bookmark()],
      ['in an event', (server) => server.put(collection, pod('c'))],
      ['while the watch was silent for 75 s', (_server, clock) => clock.advance(75_000)],
      [
        'in the response to an own write',
        (_server, _clock, kube, reflector) => reflector.observeWrite(kube.create(pods, pod('c'))),
      ],
    ]
    it.each(rollbacks)('%s', async (_, notice) => {
      const { server, clock, kube, start } = await setUp()
      server.put(collection, pod('a', { note: 'old' }))
      server.backUp()
      const reflector = start()
      const deleted: string[] = []
      reflector.onChange((change) => void (change.kind === 'deleted' && deleted.push(change.object.metadata.name)))
      await until(() => server.watchers() === 1)
      server.put(collection, pod('a', { note: 'new' }))
      server.remove(collection, 'default', 'a')
      server.put(collection, pod('b'))
      await until(() => isEqual(reflector, server))
      await clock.advance(10_000)
      server.restore()
      await notice(server, clock, kube, reflector)
      await until(() => isEqual(reflector, server) && reflector.statistics().lists === 2)
      expect(deleted).toEqual(['a', 'b'])
      expect(reflector.store.get('default/a')?.spec).toEqual({ note: 'old' })
    })

    it('but not for an own write that changed nothing', async () => {
      const { server, clock, kube, start } = await setUp()
      server.put(collection, pod('a'))
      server.put(collection, pod('b'))
      const reflector = start()
      await until(() => server.watchers() === 1)
      await reflector.observeWrite(kube.get(pods, { namespace: 'default', name: 'a' }))
      await until(() => server.requests.some(({ query }) => query.get('limit') === '1'))
      await clock.advance(20_000)
      expect(reflector.statistics()).toMatchObject({ lists: 1, watches: 1, failures: 0 })
    })
  })

  it('lists again after more events than the rate that it is given, so that one object delays no other', async () => {
    const { server, clock, start } = await setUp({ eventRate: { perSecond: 1, burst: 2 } })
    for (const name of ['a', 'b', 'c', 'd']) server.put(collection, pod(name))
    const reflector = start()
    await until(() => server.watchers() === 1)
    expect(reflector.store.size).toBe(4)
    for (const nodeName of ['1', '2', '3', '4', '5', '6']) server.put(collection, pod('a', { nodeName }))
    server.put(collection, pod('e'))
    await until(() => server.watchers() === 0)
    expect(reflector.store.byIndex('node', '3')).toHaveLength(1)
    await clock.advance(9999)
    expect(reflector.statistics()).toMatchObject({ lists: 1, failures: 0 })
    await clock.advance(1)
    await until(() => isEqual(reflector, server) && server.watchers() === 1)
    expect(reflector.statistics()).toMatchObject({ lists: 2, watches: 2, failures: 0 })
    server.put(collection, pod('f'))
    await until(() => isEqual(reflector, server))
    expect(reflector.statistics().lists).toBe(2)
  })

  it('lists in small pages', async () => {
    const { server, start } = await setUp()
    for (let count = 0; count < 250; count++) server.put(collection, pod(`p${count}`))
    const reflector = start()
    await until(() => server.watchers() === 1)
    const lists = server.requests.filter(({ query }) => !query.has('watch'))
    expect(lists.map(({ query }) => [query.get('limit'), query.get('resourceVersion')])).toEqual(
      Array.from({ length: 10 }, () => ['25', null]),
    )
    expect(reflector.store.size).toBe(250)
  })

  it('delivers the first list page by page, and starts over when a page is too old', async () => {
    const { server, clock, start } = await setUp()
    for (let count = 0; count < 150; count++) server.put(collection, pod(`p${count}`))
    const { promise, resolve } = Promise.withResolvers<void>()
    let isHeld = true
    server.fault = ({ query }) => (query.has('continue') && isHeld ? { heldUntil: promise } : undefined)
    const reflector = start()
    const delivered = new Map<string, number>()
    reflector.onChange(({ kind, object: { metadata } }) => {
      delivered.set(metadata.name, (delivered.get(metadata.name) ?? 0) + (kind === 'deleted' ? -1 : 1))
    })
    await until(() => reflector.store.size === 25)
    expect([delivered.size, reflector.hasSynced()]).toEqual([25, false])
    server.remove(collection, 'default', 'p0')
    server.compact()
    isHeld = false
    resolve()
    await until(
      () => reflector.hasSynced(),
      () => clock.advance(800),
    )
    expect(isEqual(reflector, server)).toBe(true)
    expect([...delivered].filter(([, count]) => count !== 1)).toEqual([['p0', 0]])
  })

  it('never lists in one piece, however often a page is too old', async () => {
    const { server, clock, start } = await setUp()
    for (let count = 0; count < 60; count++) server.put(collection, pod(`p${count}`))
    const reflector = start()
    await until(() => server.watchers() === 1)
    let expired = 0
    server.breakWatches('expire')
    server.fault = ({ query }) => (query.has('continue') && expired++ < 5 ? { status: 410 } : undefined)
    server.remove(collection, 'default', 'p0')
    await until(
      () => reflector.store.size === 59,
      () => clock.advance(30_000),
    )
    const lists = server.requests.filter(({ query }) => !query.has('watch'))
    expect([expired >= 5, lists.filter(({ query }) => !query.has('limit'))]).toEqual([true, []])
  })

  it('lists in smaller pages after each page without a response, until a list is complete', async () => {
    const { server, clock, start } = await setUp()
    for (let count = 0; count < 30; count++) server.put(collection, pod(`p${count}`))
    server.fault = ({ query }) => (Number(query.get('limit')) > 6 ? 'reset' : undefined)
    const reflector = start()
    await until(
      () => reflector.hasSynced(),
      () => clock.advance(5000),
    )
    const limits = () =>
      server.requests.filter(({ query }) => !query.has('watch')).map(({ query }) => query.get('limit'))
    expect([...new Set(limits())]).toEqual(['25', '12', '6'])
    server.fault = undefined
    await until(() => server.watchers() === 1)
    server.breakWatches('expire')
    await until(
      () => reflector.statistics().lists > 3,
      () => clock.advance(5000),
    )
    expect(limits().at(-1)).toBe('25')
  })

  it('watches one object by its name, and checks the version with the same permission', async () => {
    const { server, clock, start } = await setUp({ name: 'a' })
    start()
    await until(() => server.watchers() === 1)
    await clock.advance(75_000)
    await until(() => server.requests.some(({ query }) => query.get('limit') === '1'))
    expect(new Set(server.requests.map(({ query }) => query.get('fieldSelector')))).toEqual(
      new Set(['metadata.name=a']),
    )
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

  it('continues from the bookmark, so that the version of a quiet kind does not expire', async () => {
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

  it('survives handlers that throw or reject, and calls a late handler for each stored object', async () => {
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

  it('delivers a deletion and an addition for a name that was deleted and created again', async () => {
    const { server, clock, start } = await setUp()
    server.put(collection, pod('a'))
    const reflector = start()
    await until(() => server.watchers() === 1)
    const delivered: string[] = []
    reflector.onChange((change) => void delivered.push(`${change.kind} ${change.object.metadata.uid!.slice(-1)}`))
    server.breakWatches('expire')
    server.remove(collection, 'default', 'a')
    server.put(collection, pod('a'))
    server.compact()
    await until(
      () => delivered.length === 3,
      () => clock.advance(800),
    )
    expect(delivered).toEqual(['added 1', 'deleted 1', 'added 2'])
  })

  it('follows objects that begin or cease to match its field selector', async () => {
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

  it('leaves no watch and no timer when it stops', async () => {
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

  it('rejects waiting callers when it is stopped before the first list', async () => {
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

describe('random histories', () => {
  it('end with a cache equal to the server, and the delivered changes add up to it', async () => {
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
          const delivered = new Map<string, string>()
          const wrong: string[] = []
          reflector.onChange(({ kind, object }) => {
            const { uid, name } = object.metadata
            if (delivered.has(uid) === (kind === 'added')) wrong.push(`${kind} ${uid}`)
            if (kind === 'deleted') delivered.delete(uid)
            else delivered.set(uid, name)
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
          expect([...delivered.keys()].toSorted()).toEqual(
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
