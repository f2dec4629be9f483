import { afterEach, describe, expect, it } from 'vitest'
import { isDeeper } from '../api/schema.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import type { Proof } from './access.ts'
import {
  ApiError,
  ApiUnreachable,
  isAlreadyExists,
  isConflict,
  isExpired,
  isForbidden,
  isInvalid,
  isNotFound,
} from './api-error.ts'
import { createKubeClient } from './kube.ts'
import { withoutManagedFields, type ObjectParts } from './partial-json.ts'
import { identity, namespaces, resource } from './resource.ts'
import type { KubeObject } from './resource.ts'

interface Pod extends KubeObject {
  readonly spec?: { readonly nodeName?: string; readonly count?: number }
  readonly status?: { readonly phase: string }
}

const pods = resource<Pod>({ group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true })
const vms = resource<Pod>({
  group: 'virtset.io',
  version: 'v1alpha1',
  plural: 'virtualmachines',
  kind: 'VirtualMachine',
  namespaced: true,
})
const ref = { namespace: 'default', name: 'a' }

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function setUp(options: { prove?: () => Promise<Proof>; timeoutMs?: number; folder?: string } = {}) {
  const server = await startFakeApiServer()
  opened.push(() => server.close())
  const clock = fakeClock()
  const prove = options.prove ?? (() => server.access.prove())
  const access = { ...server.access, prove, server: server.access.server + (options.folder ?? '') }
  const timeout = options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }
  const kube = createKubeClient({ access, userAgent: 'test', clock, ...timeout })
  opened.push(() => kube.close())
  return { server, clock, kube }
}

const lastOf = ({ requests }: FakeApiServer) => {
  const { method, path, query, body, headers } = requests.at(-1)!
  return { line: `${method} ${path}`, query: query.toString(), body, type: headers['content-type'] }
}

describe('requests', () => {
  it('are below the path of the server', async () => {
    const { server, kube } = await setUp({ folder: '/k8s/clusters/c-x' })
    server.fault = () => ({ status: 404 })
    const { signal } = new AbortController()
    for (const asked of [
      kube.get(pods, ref),
      kube.list(pods),
      kube.create(pods, { metadata: ref }),
      kube.delete(pods, ref),
      kube.watch(pods, { timeoutSeconds: 1, signal }).next(),
      kube.request('GET', '/version?a=b'),
    ]) {
      await expect(asked).rejects.toBeInstanceOf(ApiError)
    }
    const all = '/k8s/clusters/c-x/api/v1'
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `GET ${all}/namespaces/default/pods/a`,
      `GET ${all}/pods`,
      `POST ${all}/namespaces/default/pods`,
      `DELETE ${all}/namespaces/default/pods/a`,
      `GET ${all}/pods`,
      'GET /k8s/clusters/c-x/version',
    ])
  })

  it('creates, reads, replaces, patches and deletes, with the content type of each body', async () => {
    const { server, kube } = await setUp()
    const created = await kube.create(pods, { metadata: ref })
    expect(created).toMatchObject({ apiVersion: 'v1', kind: 'Pod', metadata: { ...ref, uid: expect.any(String) } })
    expect(lastOf(server)).toEqual({
      line: 'POST /api/v1/namespaces/default/pods',
      query: 'fieldManager=test',
      body: { apiVersion: 'v1', kind: 'Pod', metadata: ref },
      type: 'application/json',
    })
    const updated = await kube.update(pods, { ...created, spec: { nodeName: 'n1' } })
    expect(lastOf(server).line).toBe('PUT /api/v1/namespaces/default/pods/a')
    expect(await kube.get(pods, ref)).toEqual(updated)
    await kube.patch(pods, ref, { type: 'merge', body: { status: { phase: 'Running' } } }, { subresource: 'status' })
    expect(lastOf(server)).toMatchObject({
      line: 'PATCH /api/v1/namespaces/default/pods/a/status',
      type: 'application/merge-patch+json',
    })
    await kube.patch(pods, ref, { type: 'json', body: [{ op: 'add', path: '/spec/count', value: 1 }] })
    expect(lastOf(server).type).toBe('application/json-patch+json')
    const bytes = Buffer.from('[{"op":"add","path":"/spec/count","value":2}]')
    expect(await kube.patch(pods, ref, { type: 'json', body: bytes })).toMatchObject({ spec: { count: 2 } })
    expect(lastOf(server).type).toBe('application/json-patch+json')
    expect(await kube.get(pods, ref)).toMatchObject({
      spec: { nodeName: 'n1', count: 2 },
      status: { phase: 'Running' },
    })
    await kube.delete(pods, ref, { uid: created.metadata.uid, gracePeriodSeconds: 0 })
    expect(lastOf(server)).toMatchObject({
      line: 'DELETE /api/v1/namespaces/default/pods/a',
      body: { kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid: created.metadata.uid } },
    })
    await expect(kube.get(pods, ref)).rejects.toSatisfy(isNotFound)
  })

  it('creates without reading what is stored', async () => {
    const { server, kube } = await setUp()
    await kube.createUnread(pods, { metadata: ref })
    expect(lastOf(server)).toEqual({
      line: 'POST /api/v1/namespaces/default/pods',
      query: 'fieldManager=test',
      body: { apiVersion: 'v1', kind: 'Pod', metadata: ref },
      type: 'application/json',
    })
    server.fault = () => ({ status: 201, body: 'not an object' })
    await kube.createUnread(pods, { metadata: ref })
    for (const status of [200, 204]) {
      server.fault = () => ({ status, body: {} })
      await expect(kube.createUnread(pods, { metadata: ref })).rejects.toBeInstanceOf(ApiUnreachable)
    }
    server.fault = () => ({ status: 403 })
    await expect(kube.createUnread(pods, { metadata: ref })).rejects.toMatchObject({ status: { code: 403 } })
  })

  it('server-side apply has its own content type, manager and force', async () => {
    const { server, kube } = await setUp()
    server.fault = () => ({ status: 200, body: { metadata: { name: 'a', uid: 'u', resourceVersion: '1' } } })
    await kube.patch(pods, ref, { type: 'apply', body: { spec: {} }, fieldManager: 'me', force: true })
    expect(lastOf(server)).toMatchObject({ type: 'application/apply-patch+yaml', query: 'fieldManager=me&force=true' })
  })

  it('a dry run returns the result and stores nothing', async () => {
    const { server, kube } = await setUp()
    expect(await kube.create(pods, { metadata: ref }, { dryRun: true })).toMatchObject({ metadata: { name: 'a' } })
    expect(lastOf(server).query).toBe('fieldManager=test&dryRun=All')
    expect(server.objects('/api/v1/pods')).toEqual([])
  })

  it('groups, cluster-scoped kinds and other requests have their own paths', async () => {
    const { server, kube } = await setUp()
    server.put('/apis/virtset.io/v1alpha1/virtualmachines', { metadata: ref })
    server.put('/api/v1/namespaces', { metadata: { name: 'default' } })
    expect((await kube.list(vms)).items).toMatchObject([{ apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine' }])
    expect((await kube.get(namespaces, { name: 'default' })).metadata.name).toBe('default')
    server.fault = () => ({ status: 201, body: { status: { allowed: true } } })
    const review = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
    expect(await kube.request('POST', review, { spec: {} })).toEqual({ status: { allowed: true } })
    const sent = server.requests.length
    const signal = AbortSignal.abort(new Error('late'))
    await expect(kube.request('POST', review, { spec: {} }, { signal })).rejects.toThrow('late')
    expect(server.requests).toHaveLength(sent)
  })

  it('selects by label, field and namespace, and pages', async () => {
    const { server, kube } = await setUp()
    for (const name of ['a', 'b', 'c'])
      server.put('/api/v1/pods', { metadata: { namespace: 'default', name, labels: { app: name } } })
    const found = await kube.list(pods, { namespace: 'default', labelSelector: 'app=b' })
    expect(found.items.map(({ metadata }) => metadata.name)).toEqual(['b'])
    const first = await kube.list(pods, { limit: 2 })
    expect(first.continue).toBeDefined()
    const second = await kube.list(pods, { limit: 2, continue: first.continue! })
    expect([...first.items, ...second.items].map(({ metadata }) => metadata.name)).toEqual(['a', 'b', 'c'])
  })

  it('returns no object nested deeper than code can walk', async () => {
    const { kube, server } = await setUp()
    const deep: unknown = JSON.parse(`${'{"a":'.repeat(500)}1${'}'.repeat(500)}`)
    server.put('/api/v1/pods', { metadata: { namespace: 'default', name: 'deep' }, spec: deep })
    const read = await kube.get(pods, { namespace: 'default', name: 'deep' })
    const listed = (await kube.list(pods)).items
    for (const object of [read, ...listed])
      expect([isDeeper(object, 199), isDeeper(object, 200)]).toEqual([true, false])
  })

  it.each<[string, ObjectParts, object, object]>([
    ['all but managedFields', withoutManagedFields, { own: '1', other: '2' }, { nodeName: 'n', count: 1 }],
    [
      'only what its kind names',
      { metadata: { ...identity, labels: { own: true } }, spec: { nodeName: true } },
      { own: '1' },
      { nodeName: 'n' },
    ],
  ])('reads of each object %s', async (_, read, labels, spec) => {
    const { server, kube } = await setUp()
    const of = resource<Pod>({ ...pods, read })
    server.put('/api/v1/pods', {
      metadata: { ...ref, uid: 'u', labels: { own: '1', other: '2' }, managedFields: [{}] },
      spec: { nodeName: 'n', count: 1 },
    })
    const listed: Pod[] = []
    await kube.listEach(of, {}, (pod) => listed.push(pod))
    const watch = kube.watch(of, { resourceVersion: '0', timeoutSeconds: 9, signal: AbortSignal.timeout(9000) })
    const { value: event } = await watch.next()
    await watch.return(undefined)
    const found = [
      await kube.get(of, ref),
      ...(await kube.list(of)).items,
      ...listed,
      await kube.patch(of, ref, { type: 'merge', body: {} }),
      event?.object,
    ]
    const one = { metadata: expect.objectContaining({ ...ref, uid: 'u', labels }), spec }
    expect(found).toEqual(Array.from({ length: 5 }, () => expect.objectContaining(one)))
    expect(JSON.stringify(found)).not.toContain('managedFields')
  })

  it('ends a list after the bytes that are wanted, with the objects that are complete', async () => {
    const { server, kube } = await setUp()
    const count = 2 * 1024 * 1024
    for (const name of ['a', 'b', 'c'])
      server.put('/api/v1/pods', {
        metadata: { namespace: 'default', name, annotations: { text: name === 'a' ? '' : 'x'.repeat(count) } },
      })
    const readWith = async (mostBytes: number) => {
      const names: string[] = []
      const end = await kube.listEach(pods, { mostBytes }, ({ metadata }) => names.push(metadata.name))
      return { names, isWhole: end.resourceVersion !== '' }
    }
    expect(await readWith(count)).toEqual({ names: ['a'], isWhole: false })
    expect(await readWith(2 * count)).toEqual({ names: ['a', 'b'], isWhole: false })
    expect(await readWith(3 * count)).toEqual({ names: ['a', 'b', 'c'], isWhole: true })
    server.fault = () => ({ status: 200, body: '{"items":[' })
    await expect(readWith(count)).rejects.toBeInstanceOf(ApiUnreachable)
  })

  it('reads the error of a watch, whatever is read of objects', async () => {
    const { server, kube } = await setUp()
    const of = resource<Pod>({ ...pods, read: { metadata: identity } })
    const watch = kube.watch(of, { resourceVersion: '0', timeoutSeconds: 9, signal: AbortSignal.timeout(9000) })
    const next = watch.next()
    await until(() => server.watchers() === 1)
    server.breakWatches('error-500')
    expect((await next).value).toMatchObject({ type: 'ERROR', object: { code: 500, message: expect.any(String) } })
  })

  it('does not parse a response that is not read', async () => {
    const { server, kube } = await setUp()
    server.fault = () => ({ status: 200, body: 'no JSON' })
    await expect(kube.request('GET', '/x')).rejects.toThrow('GET /x: the response is not JSON')
    expect(await kube.request('GET', '/x', undefined, { read: false })).toBeUndefined()
    server.fault = () => ({ status: 404 })
    await expect(kube.request('GET', '/x', undefined, { read: false })).rejects.toMatchObject({ status: { code: 404 } })
  })

  it('reuses connections', async () => {
    const { server, kube } = await setUp()
    await Promise.all(Array.from({ length: 200 }, () => kube.list(pods)))
    expect(server.connections()).toBeLessThanOrEqual(8)
  })
})

describe('errors', () => {
  it.each([
    ['Conflict', 409, 'Conflict', isConflict],
    ['AlreadyExists', 409, 'AlreadyExists', isAlreadyExists],
    ['Expired', 410, 'Expired', isExpired],
    ['Invalid', 422, 'Invalid', isInvalid],
    ['Forbidden', 403, 'Forbidden', isForbidden],
  ])('%s is an error of its own', async (_name, status, reason, isIt) => {
    const { server, kube } = await setUp()
    server.fault = () => ({ status, body: { kind: 'Status', code: status, reason, message: 'no' } })
    const error: unknown = await kube.get(pods, ref).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ApiError)
    expect(String(error)).toBe(`ApiError: GET /api/v1/namespaces/default/pods/a: no (${status} ${reason})`)
    expect([isConflict, isAlreadyExists, isExpired, isInvalid, isForbidden].filter((is) => is(error))).toEqual([isIt])
  })

  it('a response in plain text is an error with that text', async () => {
    const { server, kube } = await setUp()
    server.fault = () => ({ status: 502, body: 'bad gateway' })
    await expect(kube.get(pods, ref)).rejects.toMatchObject({ status: { code: 502, message: 'bad gateway' } })
  })

  it('a refusal has its causes', async () => {
    const { server, kube } = await setUp()
    const details = { causes: [{ reason: 'FieldValueInvalid', field: 'spec.x', message: 'no' }] }
    server.fault = () => ({ status: 422, body: { code: 422, reason: 'Invalid', message: 'm', details } })
    await expect(kube.get(pods, ref)).rejects.toMatchObject({ status: { details } })
  })

  it('waits for Retry-After, and gives up after four retries', async () => {
    const { server, clock, kube } = await setUp()
    server.fault = () => ({ status: 429, headers: { 'retry-after': '7' } })
    const outcome = kube.create(pods, { metadata: ref }).catch((thrown: unknown) => thrown)
    for (let wait = 0; wait < 4; wait++) {
      await until(() => clock.nextMs() === 7000)
      await clock.advance(7000)
    }
    expect(await outcome).toMatchObject({ status: { code: 429 }, retryAfterMs: 7000 })
    expect(server.requests.length).toBe(5)
  })

  it('does not wait for a long Retry-After, nor after an error without one', async () => {
    const { server, kube } = await setUp()
    server.fault = () => ({ status: 503, headers: { 'retry-after': '120' } })
    await expect(kube.get(pods, ref)).rejects.toMatchObject({ retryAfterMs: 120_000 })
    server.fault = () => ({ status: 500 })
    await expect(kube.get(pods, ref)).rejects.toMatchObject({ status: { code: 500 } })
    expect(server.requests.length).toBe(2)
  })

  it('repeats a read once over a broken connection, and never a write', async () => {
    const { server, kube } = await setUp()
    let faults = 1
    server.fault = () => (faults-- > 0 ? 'reset' : undefined)
    expect((await kube.list(pods)).items).toEqual([])
    faults = 1
    await expect(kube.create(pods, { metadata: ref })).rejects.toBeInstanceOf(ApiUnreachable)
    expect(server.objects('/api/v1/pods')).toEqual([])
  })

  it('a request without a response ends with the time limit', async () => {
    const { server, kube } = await setUp({ timeoutMs: 50 })
    server.fault = () => 'hang'
    await expect(kube.create(pods, { metadata: ref })).rejects.toBeInstanceOf(ApiUnreachable)
  })

  it('an abort is not reported as an error of the API server', async () => {
    const { server, kube } = await setUp()
    server.fault = () => 'hang'
    const stop = new AbortController()
    const outcome = kube.get(pods, ref, { signal: stop.signal }).catch((thrown: unknown) => thrown)
    await until(() => server.requests.length === 1)
    const reason = new Error('enough')
    stop.abort(reason)
    expect(await outcome).toBe(reason)
  })

  it.each([
    ['not JSON', 'ok'],
    ['not an object', { items: [] }],
    ['without identity', { metadata: { name: 'a' } }],
  ])('an answer that is %s is not believed', async (_name, body) => {
    const { server, kube } = await setUp()
    server.fault = () => ({ status: 200, body })
    await expect(kube.get(pods, ref)).rejects.toBeInstanceOf(ApiUnreachable)
  })
})

describe('credentials', () => {
  it('are read for each request', async () => {
    let token = 'one'
    const { server, kube } = await setUp({
      prove: async () => ({ headers: { authorization: `Bearer ${token}` }, tls: {} }),
    })
    await kube.list(pods)
    token = 'two'
    await kube.list(pods)
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer one', 'Bearer two'])
  })

  it('a renewed CA leads to new connections', async () => {
    let ca = 'one'
    const { server, kube } = await setUp({ prove: async () => ({ headers: {}, tls: { ca } }) })
    await kube.list(pods)
    ca = 'two'
    await kube.list(pods)
    expect(server.connections()).toBe(2)
  })
})
