import { expect, test } from 'vitest'
import type { KubeClient } from '../runtime/kube.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { exemptFrom } from './admission/authorize.ts'
import { createMayAccess } from './admission/permission.ts'
import { createTenantRequests, requesterOf, userTenant } from './tenant-requests.ts'

/** A client with eight connections, whose requests beyond these wait in the order of their arrival. */
function fakeClient() {
  const connections = 8
  const sent: string[] = []
  const waiting = new Set<() => void>()
  const inProgress: (() => void)[] = []
  const pump = () => {
    for (const start of waiting) {
      if (inProgress.length >= connections) return
      waiting.delete(start)
      start()
    }
  }
  const request: KubeClient['request'] = (_method, _path, body, { signal } = {}) => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const start = () => {
      sent.push(JSON.stringify(body))
      inProgress.push(end)
    }
    const end = () => resolve({ status: { allowed: true } })
    signal?.addEventListener('abort', () => {
      waiting.delete(start)
      if (inProgress.includes(end)) inProgress.splice(inProgress.indexOf(end), 1)
      reject(signal.reason)
      pump()
    })
    waiting.add(start)
    pump()
    return promise
  }
  return {
    sent,
    inProgress,
    waiting,
    request,
    /** The API server responds to the oldest request. */
    respond: async () => {
      inProgress.shift()?.()
      pump()
      await settle()
    },
  }
}

const presets = { namespaced: 'virtualmachinepresets', cluster: 'clustervirtualmachinepresets' }
const ids = (of: string) => Array.from({ length: 64 }, (_, index) => `${of}-${index}`)
const userOf = (namespace: string) => ({ username: `system:serviceaccount:${namespace}:a`, groups: [], extra: {} })

function setUp() {
  const client = fakeClient()
  const mayAccess = createMayAccess(createTenantRequests(client), fakeClock())
  /** A VM of the namespace excludes 64 presets. */
  const exclude = (namespace: string, of: string, signal?: AbortSignal, user = userOf(namespace)) => {
    return exemptFrom(presets, ids(of), (access) =>
      mayAccess(user, access, requesterOf({ kind: 'VirtualMachine', namespace, user }, signal)),
    )
  }
  return { ...client, mayAccess, exclude }
}

test('the reviews of a flood delay those of another tenant by a few', async () => {
  const { mayAccess, exclude, sent, respond } = setUp()
  // As many admission requests as one namespace can have in progress.
  for (let index = 0; index < 192; index++) void exclude('hostile', `vm-${index}`)
  await settle()
  const jane = { username: 'jane', groups: [], extra: {} }
  const access = { verb: 'update', resource: 'virtualmachineconfigs', subresource: 'console', name: 'db' }
  const allowed = mayAccess(jane, access, { tenant: userTenant(jane) })
  await settle()
  const before = sent.length
  while (!sent.at(-1)?.includes('jane')) await respond()
  expect(sent.length - before).toBeLessThanOrEqual(1)
  while (sent.length < before + 10) await respond()
  expect(await allowed).toBe(true)
})

test('two namespaces that flood delay a third one by one request', async () => {
  const { exclude, sent, respond } = setUp()
  for (const namespace of ['hostile', 'evil'])
    for (let index = 0; index < 8; index++) void exclude(namespace, `${index}`)
  await settle()
  expect(sent).toHaveLength(8)
  void exclude('shop', 'vm')
  await settle()
  await respond()
  await respond()
  await respond()
  expect(sent.slice(8).some((body) => body.includes('system:serviceaccount:shop:a'))).toBe(true)
})

test('a user who floods a namespace delays another one of it by one request', async () => {
  const { exclude, sent, respond } = setUp()
  for (let index = 0; index < 8; index++) void exclude('shop', `${index}`)
  await settle()
  expect(sent).toHaveLength(4)
  void exclude('shop', 'vm', undefined, { username: 'jane', groups: [], extra: {} })
  await settle()
  await respond()
  await respond()
  expect(sent.slice(4).some((body) => body.includes('"jane"'))).toBe(true)
})

test('a request that is over leaves nothing behind', async () => {
  const { exclude, sent, inProgress, waiting, respond } = setUp()
  const over = new AbortController()
  const flood = Array.from({ length: 20 }, (_, index) => exclude('hostile', `vm-${index}`, over.signal).catch(String))
  await settle()
  expect([sent.length, inProgress.length]).toEqual([4, 4])
  over.abort(new Error('late'))
  expect(new Set(await Promise.all(flood))).toEqual(new Set(['Error: late']))
  await settle()
  expect([inProgress.length, waiting.size]).toEqual([0, 0])
  for (let index = 0; index < 10; index++) await respond()
  expect(sent).toHaveLength(4)
})

test('the end of one request leaves the reviews that another one shares', async () => {
  const { exclude, respond } = setUp()
  const over = new AbortController()
  const first = exclude('shop', 'vm', over.signal).catch(String)
  const second = exclude('shop', 'vm')
  over.abort(new Error('late'))
  expect(await first).toBe('Error: late')
  for (let index = 0; index < 64; index++) await respond()
  expect((await second).size).toBe(64)
})

test('a request without a namespace counts for its user, and the service accounts of a namespace for one', () => {
  const tenant = (namespace: string, username: string, kind = 'VirtualMachine') =>
    requesterOf({ kind, namespace, user: { username, groups: [], extra: {} } }).tenant
  expect(tenant('shop', 'jane')).toBe(tenant('shop', 'joe'))
  expect(tenant('', 'jane')).not.toBe(tenant('', 'joe'))
  expect(tenant('', 'system:serviceaccount:shop:a')).toBe(tenant('', 'system:serviceaccount:shop:b'))
  // A user can be named like a namespace.
  expect(tenant('', 'shop')).not.toBe(tenant('shop', 'jane'))
  // The namespace of a request for a Namespace is the name that its creator invents.
  expect(tenant('invented', 'jane', 'Namespace')).toBe(tenant('', 'jane'))
})
