import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kubeconfigAccess } from '../../runtime/access.ts'
import {
  isAlreadyExists,
  isConflict,
  isExpired,
  isInvalid,
  isNotFound,
  unlessNotFound,
} from '../../runtime/api-error.ts'
import { systemClock } from '../../runtime/clock.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createEventRecorder, events } from '../../runtime/events.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { startLeaderElection } from '../../runtime/leader-election.ts'
import { createLogger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import { resource } from '../../runtime/resource.ts'
import type { KubeObject } from '../../runtime/resource.ts'
import { run } from '../../cluster/command.ts'
import { fakeClock } from '../fake-clock.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>
}

const configMaps = resource<ConfigMap>({
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
})
const log = createLogger({ process: 'test', level: 'silent' })
const namespace = 'default'
const slow = { deadlineMs: 60_000 }

let api: TestApiServer
let kube: KubeClient

beforeAll(async () => {
  api = await startApiServer()
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'runtime-test' })
})

afterAll(async () => {
  await kube.close()
  await api.stop()
})

describe('the client on a real API server', () => {
  it('writes, reads and refuses as the fake does', async () => {
    const ref = { namespace, name: 'client' }
    const created = await kube.create(configMaps, { metadata: ref, data: { a: '1' } })
    await expect(kube.create(configMaps, { metadata: ref })).rejects.toSatisfy(isAlreadyExists)
    const patched = await kube.patch(configMaps, ref, { type: 'merge', body: { data: { b: '2' } } })
    expect(patched.data).toEqual({ a: '1', b: '2' })
    await expect(kube.update(configMaps, { ...created, data: {} })).rejects.toSatisfy(isConflict)
    const test = [{ op: 'test', path: '/metadata/uid', value: 'other' }]
    await expect(kube.patch(configMaps, ref, { type: 'json', body: test })).rejects.toSatisfy(isInvalid)
    const stale = [{ op: 'replace', path: '/metadata/resourceVersion', value: created.metadata.resourceVersion }]
    await expect(kube.patch(configMaps, ref, { type: 'json', body: stale })).rejects.toSatisfy(isConflict)
    const old = { metadata: { resourceVersion: created.metadata.resourceVersion }, data: { b: '3' } }
    await expect(kube.patch(configMaps, ref, { type: 'merge', body: old })).rejects.toSatisfy(isConflict)
    const applied = { apiVersion: 'v1', kind: 'ConfigMap', data: { c: '3' } }
    expect((await kube.patch(configMaps, ref, { type: 'apply', body: applied, fieldManager: 'm' })).data).toMatchObject(
      { c: '3' },
    )
    await expect(kube.delete(configMaps, ref, { uid: 'other' })).rejects.toSatisfy(isConflict)
    await kube.delete(configMaps, ref, { uid: created.metadata.uid, dryRun: true })
    await kube.delete(configMaps, ref, { uid: created.metadata.uid })
    await expect(kube.get(configMaps, ref)).rejects.toSatisfy(isNotFound)
  })

  it('a watch from a compacted version is expired', async () => {
    const { signal } = new AbortController()
    const watch = kube.watch(configMaps, { resourceVersion: '1', timeoutSeconds: 1, signal })
    const outcome = await Array.fromAsync(watch).catch((error: unknown) => error)
    // Either the API server still has the version, or it reports that it expired.
    expect(Array.isArray(outcome) || isExpired(outcome)).toBe(true)
  })
})

describe('the reflector on a real API server', () => {
  it('follows a thousand changes, and pages through a list from etcd', async () => {
    const names = Array.from({ length: 1000 }, (_, index) => `c${index}`)
    const reflector = startReflector({ kube, resource: configMaps, log, namespace, labelSelector: 'test=reflector' })
    try {
      await reflector.synced()
      const labels = { test: 'reflector' }
      await Promise.all(names.map((name) => kube.create(configMaps, { metadata: { namespace, name, labels } })))
      await until(() => reflector.store.size === 1000, undefined, slow)
      await Promise.all(names.slice(0, 500).map((name) => kube.delete(configMaps, { namespace, name })))
      await until(() => reflector.store.size === 500, undefined, slow)
      expect(reflector.store.get('default/c999')?.metadata.managedFields).toBeUndefined()
      expect(reflector.statistics()).toMatchObject({ lists: 1, watches: 1, failures: 0 })
    } finally {
      await reflector.stop()
    }
    const selection = { namespace, labelSelector: 'test=reflector' }
    const page = await kube.list(configMaps, { ...selection, limit: 100 })
    expect(page.items.length).toBe(100)
    const rest = await kube.list(configMaps, { ...selection, limit: 1000, continue: page.continue ?? '' })
    expect(rest.items.length).toBe(400)
  })
})

describe('leader election on a real API server', () => {
  const candidates = (name: string) => {
    const changes: string[] = []
    const start = (identity: string, clock: Clock) =>
      startLeaderElection({
        kube,
        log,
        lease: { namespace, name },
        identity,
        clock,
        onLeading: () => changes.push(`${identity} leads`),
        onLost: (why) => changes.push(`${identity} lost: ${why}`),
      })
    return { changes, start }
  }

  it('hands over at once when the leader stops', async () => {
    const { changes, start } = candidates('test')
    const one = start('one', systemClock)
    await until(() => one.isLeader(), undefined, slow)
    const two = start('two', systemClock)
    await until(() => two.leader() === 'one', undefined, slow)
    await one.stop()
    await until(() => two.isLeader(), undefined, slow)
    await two.stop()
    expect(changes).toEqual(['one leads', 'two leads'])
  })

  it('creates a lease again that was deleted, or takes the one that another has created for nobody', async () => {
    const { changes, start } = candidates('deleted')
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/deleted`
    const clock = fakeClock()
    const one = start('one', clock)
    await until(() => one.isLeader() && clock.pending() > 0, undefined, slow)
    const isOurs = { spec: { holderIdentity: 'one' } }
    await kube.request('DELETE', path)
    await clock.advance(2000)
    expect(await until(() => unlessNotFound(kube.request('GET', path)), undefined, slow)).toMatchObject(isOurs)
    await until(() => one.isLeader() && clock.pending() > 0, undefined, slow)
    const two = start('two', systemClock)
    await until(() => two.leader() === 'one', undefined, slow)
    await kube.request('DELETE', path)
    await until(() => two.leader()?.startsWith('nobody'), undefined, slow)
    await clock.advance(2000)
    await until(() => two.leader() === 'one', undefined, slow)
    await until(() => one.isLeader(), undefined, slow)
    expect([await kube.request('GET', path), changes]).toMatchObject([isOurs, ['one leads']])
    await two.stop()
    await one.stop()
  })
})

describe('events on a real API server', () => {
  it('are shown by kubectl describe with their count', async () => {
    const { metadata } = await kube.create(configMaps, { metadata: { namespace, name: 'described' } })
    const recorder = createEventRecorder({ kube, log, component: 'virtset-test', instance: 'here' })
    const regarding = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'described', uid: metadata.uid }
    for (let count = 0; count < 3; count++)
      recorder.record({ regarding, type: 'Normal', reason: 'Tested', message: 'Was tested' })
    await recorder.stop()
    const found = await kube.list(events, { namespace, fieldSelector: 'involvedObject.name=described' })
    expect(found.items).toMatchObject([{ count: 3, reason: 'Tested', source: { component: 'virtset-test' } }])
    const shown = await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'describe', 'configmap', 'described'])
    expect(shown).toMatch(/Normal\s+Tested\s+\S+ \(x3 over \S+\)\s+virtset-test\s+Was tested/)
  })
})
