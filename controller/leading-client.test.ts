import { afterEach, expect, test } from 'vitest'
import { fairClient } from '../runtime/fair-client.ts'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { leadingClient } from './leading-client.ts'

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** The clients of a controller that leads until `lose`, with one connection. */
async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer()
  const client = createKubeClient({ access: server.access, userAgent: 'test', clock, retries: false })
  let leads = true
  const kube = fairClient(
    leadingClient(client, () => leads),
    1,
    clock,
  )
  opened.push(
    () => server.close(),
    () => client.close(),
  )
  return { clock, server, kube, lose: () => (leads = false) }
}

const vm = storedVm()
const ref = { namespace: 'default', name: vm.metadata.name }
const merge = { type: 'merge', body: {} } as const
const outcomeOf = (response: Promise<unknown>) =>
  response.then(
    () => 'sent',
    (error: Error) => error.message,
  )

const writes: readonly [string, (kube: KubeClient) => Promise<unknown>][] = [
  ['POST virtualmachines', (kube) => kube.create(virtualMachines, vm)],
  ['POST virtualmachines', (kube) => kube.createUnread(virtualMachines, vm)],
  ['PUT virtualmachines', (kube) => kube.update(virtualMachines, vm)],
  ['PATCH virtualmachines', (kube) => kube.patch(virtualMachines, ref, merge)],
  ['DELETE virtualmachines', (kube) => kube.delete(virtualMachines, ref)],
  ['POST /version', (kube) => kube.request('POST', '/version', {})],
]

test.each(writes)('%s is not sent again after Retry-After if another process may lead', async (write, send) => {
  const { clock, server, kube, lose } = await setUp()
  server.fault = () => ({ status: 429, headers: { 'retry-after': '25' } })
  const outcome = outcomeOf(send(kube))
  await until(() => clock.nextMs() === 25_000)
  lose()
  await clock.advance(25_000)
  expect(await outcome).toBe(`no longer leading: ${write} is not sent`)
  expect(server.requests.length).toBe(1)
})

test.each(writes)('%s is not sent after it waited behind others if another process may lead', async (write, send) => {
  const { server, kube, lose } = await setUp()
  const { promise, resolve } = Promise.withResolvers<void>()
  server.fault = () => ({ heldUntil: promise, status: 500 })
  const first = outcomeOf(kube.list(virtualMachines, { namespace: 'default' }))
  await until(() => server.requests.length === 1)
  const outcome = outcomeOf(send(kube))
  lose()
  resolve()
  await first
  expect(await outcome).toBe(`no longer leading: ${write} is not sent`)
  expect(server.requests.length).toBe(1)
})

test('a process that does not lead reads', async () => {
  const { server, kube, lose } = await setUp()
  server.put('/apis/virtset.io/v1alpha1/virtualmachines', { metadata: ref })
  lose()
  expect((await kube.get(virtualMachines, ref)).metadata.name).toBe(ref.name)
  expect((await kube.list(virtualMachines)).items.length).toBe(1)
  expect(await kube.request('GET', '/apis/virtset.io/v1alpha1/virtualmachines')).toMatchObject({ items: [{}] })
})
