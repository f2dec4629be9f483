import { afterEach, expect, test } from 'vitest'
import type { ConfigStatus } from '../../api/config.ts'
import { startConfigController } from '../../controller/config-controller.ts'
import { createEventRecorder } from '../../runtime/events.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import { virtualMachines } from '../../runtime/resource.ts'
import { createPower } from '../../webhooks/subresources/power.ts'
import type { Verb, Wish } from '../../webhooks/subresources/route.ts'
import { startFakeApiServer } from '../fake-apiserver.ts'
import type { FakeRequest } from '../fake-apiserver.ts'
import { fakeClock } from '../fake-clock.ts'
import { storedMachine } from '../stored-machine.ts'
import { until } from '../until.ts'

/**
 * What `start`, `stop` and `restart` leave behind when they come in the very moment in which the controller carries a restart out: one of its requests is held
 * by the API server until the wish was answered. The last wish wins, whichever request that is.
 */
const machines = '/apis/virtset.io/v1alpha1/virtualmachines'
const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
const log = createLogger({ process: 'test', level: 'silent' })

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const wish = (verb: Verb): Wish => ({ verb, namespace: 'default', name: 'web', isDryRun: false, isWaiting: false })

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  const spec = JSON.parse(JSON.stringify({ template: { spec: storedMachine().spec } }))
  server.put(configs, { metadata: { namespace: 'default', name: 'web', uid: 'c-1', generation: 1 }, spec })
  const user = createKubeClient({ access: server.access, userAgent: 'virtset-webhooks', clock })
  const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
  const events = createEventRecorder({ kube, log, component: 'c', instance: 'c0', clock })
  const reflector = startReflector({ kube, resource: virtualMachines, log, clock })
  const controller = startConfigController({ kube, machines: reflector, events, log, isLeader: () => true, clock })
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
  const vm = () => server.find(machines, 'default', 'web')
  const status = (): ConfigStatus => server.find(configs, 'default', 'web')?.['status'] ?? {}
  /** A VM that is asked to end does so at once. */
  const meanwhile = async () => {
    if (vm()?.metadata.deletionTimestamp !== undefined) server.remove(machines, 'default', 'web')
    await clock.advance(10)
  }
  await power(wish('start'))
  await until(() => status().phase === 'Starting', meanwhile)
  return { server, power, vm, status, meanwhile }
}

type World = Awaited<ReturnType<typeof setUp>>

/** Holds the first request of the controller after a restart that `isMoment` picks, by its number, until `power` has answered `verb`. */
async function meet(
  { server, power, vm, status, meanwhile }: World,
  isMoment: (request: FakeRequest, count: number) => boolean,
  verb: Verb,
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
  await power(wish('restart'))
  const isOver = () => status().restart === undefined && vm() !== undefined && vm()?.metadata.uid !== first
  await until(() => isHeld || isOver(), meanwhile)
  const answer = isHeld ? await power(wish(verb)) : undefined
  held.resolve(undefined)
  await until(() => {
    const { phase, restart } = status()
    return restart === undefined && phase === (vm() === undefined ? 'Stopped' : 'Starting')
  }, meanwhile)
  return { answer, isHeld }
}

/** A restart is two reads and a deletion, two reads and a creation, two reads and a status, and statuses between. */
const moments = Array.from({ length: 12 }, (_, count) => count + 1)

test.each(moments)('stop, while request %i of the controller is under way: no VM in the end', async (moment) => {
  const world = await setUp()
  const { answer, isHeld } = await meet(world, (_, count) => count === moment, 'stop')
  expect(isHeld).toBe(answer !== undefined && 'code' in answer && answer.code === 202)
  expect(world.vm() === undefined).toBe(isHeld)
})

const isCreation = ({ method }: FakeRequest) => method === 'POST'

test('stop, while the other VM is being made: it is made, and goes', async () => {
  const world = await setUp()
  const before = world.server.requests.length
  expect(await meet(world, isCreation, 'stop')).toMatchObject({ isHeld: true, answer: { code: 202 } })
  const asked = world.server.requests.slice(before).filter(({ path }) => path.includes('/virtualmachines'))
  expect(asked.map(({ method }) => method).filter((method) => method !== 'GET')).toEqual(['DELETE', 'POST', 'DELETE'])
  expect(world.vm()).toBeUndefined()
})

test.each([
  ['start', { refused: { code: 409 } }],
  ['restart', { code: 202 }],
] as const)('%s, while the other VM is being made, is in vain: it comes anyway', async (verb, answer) => {
  const world = await setUp()
  expect(await meet(world, isCreation, verb)).toMatchObject({ isHeld: true, answer })
  expect(world.server.objects(machines).length).toBe(1)
})
