import { afterEach, expect, test } from 'vitest'
import type { ConfigStatus } from '../../api/config.ts'
import { startConfigController } from '../../controller/config-controller.ts'
import { createEventRecorder } from '../../runtime/events.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import { virtualMachines } from '../../runtime/resource.ts'
import { createPower } from '../../webhooks/subresources/power.ts'
import type { PowerRequest } from '../../webhooks/subresources/route.ts'
import type { PowerVerb } from '../../webhooks/subresources/user-api.ts'
import { startFakeApiServer } from '../fake-apiserver.ts'
import type { FakeRequest } from '../fake-apiserver.ts'
import { fakeClock } from '../fake-clock.ts'
import { storedVm } from '../stored-vm.ts'
import { until } from '../until.ts'

/**
 * The result of `start`, `stop` and `restart` while the controller performs a restart: the API server holds one of the
 * controller's requests until the user's request has been answered. The last request of the user wins, whichever
 * request is held.
 */
const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
const log = createLogger({ process: 'test', level: 'silent' })

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const request = (verb: PowerVerb): PowerRequest => ({
  verb,
  namespace: 'default',
  name: 'web',
  isDryRun: false,
  isWaiting: false,
})

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  const spec = JSON.parse(JSON.stringify({ template: { spec: storedVm().spec } }))
  server.put(configs, { metadata: { namespace: 'default', name: 'web', uid: 'c-1', generation: 1 }, spec })
  const user = createKubeClient({ access: server.access, userAgent: 'virtset-webhooks', clock })
  const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
  const events = createEventRecorder({ kube, log, component: 'c', instance: 'c0', clock })
  const reflector = startReflector({ kube, resource: virtualMachines, log, clock })
  const controller = startConfigController({ kube, vms: reflector, events, log, isLeader: () => true, clock })
  opened.push(
    () => server.close(),
    () => user.close(),
    () => kube.close(),
    () => events.stop(),
    () => reflector.stop(),
    () => controller.stop(),
  )
  const power = createPower(user, clock)
  await controller.lead()
  const vm = () => server.find(vms, 'default', 'web')
  const status = (): ConfigStatus => server.find(configs, 'default', 'web')?.['status'] ?? {}
  /** A deleted VM ends at once. */
  const meanwhile = async () => {
    if (vm()?.metadata.deletionTimestamp !== undefined) server.remove(vms, 'default', 'web')
    await clock.advance(10)
  }
  await power(request('start'))
  await until(() => status().phase === 'Starting', meanwhile)
  return { server, power, vm, status, meanwhile }
}

type World = Awaited<ReturnType<typeof setUp>>

/**
 * Holds the first request of the controller after a restart for which `isMoment`, until `power` has answered `verb`.
 */
async function meet(
  { server, power, vm, status, meanwhile }: World,
  isMoment: (request: FakeRequest, count: number) => boolean,
  verb: PowerVerb,
) {
  const held = Promise.withResolvers<undefined>()
  let seen = 0
  let isHeld = false
  server.fault = (request) => {
    const isControllers = request.headers['user-agent']?.startsWith('virtset-controller') === true
    if (!isControllers || request.query.get('watch') === 'true' || request.path.includes('/events')) return undefined
    if (!isMoment(request, ++seen) || isHeld) return undefined
    isHeld = true
    return { heldUntil: held.promise }
  }
  const first = vm()?.metadata.uid
  await power(request('restart'))
  const isOver = () => status().restart === undefined && vm() !== undefined && vm()?.metadata.uid !== first
  await until(() => isHeld || isOver(), meanwhile)
  const response = isHeld ? await power(request(verb)) : undefined
  held.resolve(undefined)
  await until(() => {
    const { phase, restart } = status()
    return restart === undefined && phase === (vm() === undefined ? 'Stopped' : 'Starting')
  }, meanwhile)
  return { response, isHeld }
}

/**
 * A restart consists of two reads and a delete, two reads and a create, two reads and a status, with status updates in
 * between.
 */
const moments = Array.from({ length: 12 }, (_, count) => count + 1)

test.each(moments)('stop while request %i of the controller is in progress leaves no VM', async (moment) => {
  const world = await setUp()
  const { response, isHeld } = await meet(world, (_, count) => count === moment, 'stop')
  expect(isHeld).toBe(response !== undefined && 'code' in response && response.code === 202)
  expect(world.vm() === undefined).toBe(isHeld)
})

const isCreation = ({ method }: FakeRequest) => method === 'POST'

test('stop while the new VM is being created deletes it afterwards', async () => {
  const world = await setUp()
  const before = world.server.requests.length
  expect(await meet(world, isCreation, 'stop')).toMatchObject({ isHeld: true, response: { code: 202 } })
  const sent = world.server.requests.slice(before).filter(({ path }) => path.includes('/virtualmachines'))
  expect(sent.map(({ method }) => method).filter((method) => method !== 'GET')).toEqual(['DELETE', 'POST', 'DELETE'])
  expect(world.vm()).toBeUndefined()
})

test.each([
  ['start', { refused: { code: 409 } }],
  ['restart', { code: 202 }],
] as const)('%s while the new VM is being created changes nothing', async (verb, response) => {
  const world = await setUp()
  expect(await meet(world, isCreation, verb)).toMatchObject({ isHeld: true, response })
  expect(world.server.objects(vms).length).toBe(1)
})
