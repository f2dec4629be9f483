import { afterEach, expect, test } from 'vitest'
import { startFakeApiServer, type FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { fairClient } from './fair-client.ts'
import { createKubeClient, type KubeClient } from './kube.ts'
import { virtualMachines } from './resource.ts'

const connections = 8

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** An API server that answers nothing until `release`. */
async function setUp() {
  const server = await startFakeApiServer()
  const client = createKubeClient({ access: server.access, userAgent: 'test', connections, retries: false })
  const held = Promise.withResolvers<undefined>()
  const ends: (() => void)[] = []
  const arrived: string[] = []
  server.fault = ({ path }: FakeRequest) => {
    const [, namespace = 'none'] = /\/namespaces\/([^/]+)/.exec(path) ?? []
    arrived.push(namespace)
    const { promise, resolve } = Promise.withResolvers<undefined>()
    ends.push(() => resolve(undefined))
    return { heldUntil: Promise.race([promise, held.promise]) }
  }
  const sent: Promise<unknown>[] = []
  const release = () => held.resolve(undefined)
  opened.push(
    () => server.close(),
    () => client.close(),
    async () => {
      release()
      await Promise.allSettled(sent)
    },
  )
  const clock = fakeClock()
  const kube = fairClient(client, connections, clock)
  return {
    arrived,
    clock,
    send: (request: (kube: KubeClient) => Promise<unknown>) => {
      const outcome = request(kube)
      outcome.catch(() => {})
      sent.push(outcome)
    },
    /** The oldest request is answered. */
    answer: () => ends.shift()?.(),
  }
}

const metadata = { namespace: 'mallory', name: 'vm', uid: 'u', resourceVersion: '1' }
const vm = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata, spec: { domain: {} } } as const
const get = (namespace: string) => (kube: KubeClient) => kube.get(virtualMachines, { namespace, name: 'vm' })

test.each<[string, (kube: KubeClient) => Promise<unknown>]>([
  ['get', get('mallory')],
  ['list', (kube) => kube.list(virtualMachines, { namespace: 'mallory' })],
  ['list in pieces', (kube) => kube.listEach(virtualMachines, { namespace: 'mallory' }, () => {})],
  ['create', (kube) => kube.create(virtualMachines, vm)],
  ['create unread', (kube) => kube.createUnread(virtualMachines, vm)],
  ['update', (kube) => kube.update(virtualMachines, vm)],
  ['patch', (kube) => kube.patch(virtualMachines, metadata, { type: 'merge', body: {} })],
  ['delete', (kube) => kube.delete(virtualMachines, metadata)],
  ['other', (kube) => kube.request('GET', '/version')],
])('a flood of slow requests (%s) leaves connections to another namespace', async (_, request) => {
  const { arrived, send } = await setUp()
  for (let index = 0; index < 40; index++) send(request)
  send(get('alice'))
  await until(() => arrived.length === 7)
  expect(arrived.filter((namespace) => namespace === 'alice')).toEqual(['alice'])
})

test('two namespaces that flood delay a third one by one request', async () => {
  const { arrived, send, answer } = await setUp()
  for (const namespace of ['mallory', 'eve']) for (let index = 0; index < 40; index++) send(get(namespace))
  send(get('alice'))
  await until(() => arrived.length === connections)
  expect(arrived).not.toContain('alice')
  for (let index = 0; index < 3; index++) {
    answer()
    await until(() => arrived.length === connections + index + 1)
  }
  expect(arrived.slice(connections)).toContain('alice')
})

test('namespaces whose requests were slow leave a quarter of the connections to others', async () => {
  const { arrived, clock, send, answer } = await setUp()
  const slow = ['mallory', 'eve']
  for (const namespace of slow) send(get(namespace))
  await until(() => arrived.length === 2)
  await clock.advance(1000)
  for (const namespace of slow) for (let index = 0; index < 40; index++) send(get(namespace))
  for (const _ of slow) answer()
  await until(() => arrived.length >= 8)
  for (let index = 0; index < 2; index++) send(get('alice'))
  await until(() => arrived.length >= 10)
  expect(arrived.slice(8)).toEqual(['alice', 'alice'])
})

test('requests that wait for Retry-After leave all connections to others, and are sent again after that time', async () => {
  const server = await startFakeApiServer()
  const clock = fakeClock()
  const client = createKubeClient({ access: server.access, userAgent: 'test', connections, retries: false })
  opened.push(
    () => server.close(),
    () => client.close(),
  )
  server.fault = ({ path }: FakeRequest) =>
    path.includes('/alice/') ? undefined : { status: 429, headers: { 'retry-after': '7' } }
  const kube = fairClient(client, connections, clock)
  const flood = ['mallory', 'eve'].flatMap((namespace) => Array.from({ length: 10 }, () => get(namespace)(kube)))
  const outcomes = Promise.allSettled(flood)
  await expect(get('alice')(kube)).rejects.toMatchObject({ status: { code: 404 } })
  await until(() => server.requests.length === 21)
  for (let wait = 0; wait < 4; wait++) {
    await until(() => server.requests.length === 21 + wait * 20 && clock.nextMs() === 7000)
    await clock.advance(7000)
  }
  expect(new Set((await outcomes).map(({ status }) => status))).toEqual(new Set(['rejected']))
  expect(server.requests.length).toBe(101)
})
