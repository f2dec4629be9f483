import { afterEach, expect, test } from 'vitest'
import { capabilitySetName } from '../api/node-capability-set.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { watchInventory } from '../inventory/watched.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { nodeProfile } from '../test/node-profile.ts'
import { until } from '../test/until.ts'
import { startCapabilitySetController } from './capability-set-controller.ts'

const profilesPath = '/apis/virtset.io/v1alpha1/nodeprofiles'
const setsPath = '/apis/virtset.io/v1alpha1/nodecapabilitysets'
const name = capabilitySetName(bundledCapabilities)
const log = createLogger({ process: 'test', level: 'silent' })
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function setUp(isSharing: boolean) {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  closing.push(() => server.close())
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  closing.push(() => kube.close())
  const { capabilities, ...own } = nodeProfile('any').spec
  const publish = (node: string, shares = false) => {
    const spec = shares ? { ...own, capabilitySetName: name } : { ...own, capabilities }
    server.put(profilesPath, { kind: 'NodeProfile', metadata: { name: node }, spec })
  }
  const putSet = () => server.put(setsPath, { kind: 'NodeCapabilitySet', metadata: { name }, spec: { capabilities } })
  const start = async () => {
    const inventory = watchInventory({ kube, log, clock, findWithMac: () => undefined })
    closing.push(() => inventory.stop())
    const events = { record: () => {} }
    const context = { kube, log, clock, events, isLeader: () => true }
    const controller = startCapabilitySetController({ ...context, inventory, isSharing })
    closing.push(() => controller.stop())
    await controller.lead()
  }
  const sets = () =>
    server.objects(setsPath).map(({ metadata, ...set }) => ({ name: metadata.name, spec: set['spec'] }))
  const writes = () =>
    server.requests.filter(({ method, path }) => method !== 'GET' && path.startsWith(setsPath)).length
  const pass = async (minutes: number) => {
    for (let passed = 0; passed < minutes; passed++) await clock.advance(60_000)
  }
  return { clock, server, publish, putSet, start, sets, writes, pass }
}

test('creates a set for equal nodes, and deletes it when it has not been named for an hour', async () => {
  const { publish, start, sets, writes, pass, clock, server } = await setUp(true)
  publish('a')
  publish('b')
  await start()
  await pass(9)
  expect(sets()).toEqual([])
  await until(
    () => sets().length === 1,
    () => clock.advance(60_000),
  )
  expect(sets()).toEqual([{ name, spec: { capabilities: bundledCapabilities } }])
  publish('a', true)
  publish('b', true)
  await pass(120)
  expect(writes()).toBe(1)
  for (const node of ['a', 'b']) server.remove(profilesPath, undefined, node)
  await until(
    () => sets().length === 0,
    () => clock.advance(60_000),
  )
  expect(writes()).toBe(2)
})

test('writes nothing while sharing is off', async () => {
  const { publish, start, sets, writes, pass } = await setUp(false)
  publish('a')
  publish('b')
  await start()
  await pass(120)
  expect([sets(), writes()]).toEqual([[], 0])
})

test('retires sets when sharing is turned off', async () => {
  const { publish, putSet, start, sets, clock } = await setUp(false)
  putSet()
  publish('a', true)
  await start()
  await until(
    () => JSON.stringify(sets()).includes('"retired":true'),
    () => clock.advance(1000),
  )
  expect(sets()).toEqual([{ name, spec: { capabilities: bundledCapabilities, retired: true } }])
})

test('goes on if the API server refuses a set', async () => {
  const { publish, start, sets, clock, server } = await setUp(true)
  let refusals = 0
  server.fault = ({ method, path }) => {
    if (method !== 'POST' || path !== setsPath || refusals === 3) return undefined
    refusals += 1
    return { status: 422, body: { kind: 'Status', code: 422, reason: 'Invalid', message: 'too long' } }
  }
  publish('a')
  publish('b')
  await start()
  await until(
    () => sets().length === 1,
    () => clock.advance(60_000),
  )
  expect(refusals).toBe(3)
})
