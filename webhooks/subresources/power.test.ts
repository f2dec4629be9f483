import { afterEach, describe, expect, test } from 'vitest'
import type { ConfigStatus, VirtualMachineConfig } from '../../api/config.ts'
import type { MachineStatus } from '../../api/machine.ts'
import type { ObjectMeta } from '../../api/object.ts'
import { ownerReference } from '../../api/template.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { startFakeApiServer } from '../../test/fake-apiserver.ts'
import type { FakeApiServer } from '../../test/fake-apiserver.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { storedMachine } from '../../test/stored-machine.ts'
import { until } from '../../test/until.ts'
import { createPower, decide } from './power.ts'
import type { Verb, Wish } from './route.ts'

const wish = (verb: Verb, more: Partial<Wish> = {}): Wish => ({
  verb,
  namespace: 'default',
  name: 'web',
  isDryRun: false,
  isWaiting: false,
  ...more,
})

const template = { metadata: { labels: { app: 'web' } }, spec: storedMachine().spec }
const config = (status: ConfigStatus = {}, metadata: ObjectMeta = {}): Persisted<VirtualMachineConfig> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'default', name: 'web', uid: 'c-1', resourceVersion: '9', ...metadata },
  spec: { template },
  status,
})
const ours = [ownerReference({ kind: 'VirtualMachineConfig', metadata: { name: 'web', uid: 'c-1' } })]
const machine = (phase?: MachineStatus['phase'], metadata: ObjectMeta = {}) =>
  storedMachine({
    metadata: { name: 'web', uid: 'v-1', ownerReferences: ours, ...metadata },
    status: phase === undefined ? {} : { phase },
  })
const ending = { deletionTimestamp: '2030-01-02T00:00:00Z' }
const restarting = { restart: { uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z' } }
const cancelled = { restart: { ...restarting.restart, cancelled: true } }
const isStopping = 'it is stopping; start it when it has stopped, or with wait=true'

describe('what to do', () => {
  type Found = ReturnType<typeof machine> | undefined
  test.each<[Verb, string, ConfigStatus, Found, string]>([
    ['start', 'nothing is there', {}, undefined, 'create'],
    ['start', 'it runs', {}, machine('Running'), 'it is running already'],
    ['start', 'it was made a moment ago', {}, machine(), 'it is running already'],
    ['start', 'it is finished', {}, machine('Succeeded'), 'clear'],
    ['start', 'it has failed and goes', {}, machine('Failed', ending), 'clear'],
    ['start', 'it is stopping', {}, machine('Running', ending), isStopping],
    ['start', 'a restart was called off, and nothing is there', cancelled, undefined, isStopping],
    ['start', 'a restart was called off, and its VM was made', cancelled, machine('Running'), isStopping],
    ['start', 'it is restarting', restarting, undefined, 'it is restarting'],
    ['start', 'it has been restarted', restarting, machine('Running', { uid: 'v-2' }), 'it is running already'],
    ['start', 'the name is taken', {}, machine('Running', { ownerReferences: [] }), 'the VM web is not of this config'],
    ['stop', 'nothing is there', {}, undefined, 'it is not running'],
    ['stop', 'it runs', {}, machine('Running'), 'delete'],
    ['stop', 'it is stopping already', {}, machine('Running', ending), 'delete'],
    ['stop', 'it is finished', {}, machine('Failed'), 'it is not running'],
    ['stop', 'it is restarting', restarting, undefined, 'call off'],
    ['stop', 'it has been restarted', restarting, machine('Running', { uid: 'v-2' }), 'call off'],
    ['stop', 'a restart was called off', cancelled, undefined, 'done'],
    ['stop', 'a restart was called off, and a VM lives', cancelled, machine('Running'), 'delete'],
    ['stop', 'a restart was called off, and its VM is finished', cancelled, machine('Failed'), 'done'],
    ['restart', 'it runs', {}, machine('Running'), 'record'],
    ['restart', 'nothing is there', {}, undefined, 'it is not running'],
    ['restart', 'it is stopping', {}, machine('Running', ending), 'it is stopping'],
    ['restart', 'a restart was called off', cancelled, undefined, 'it is stopping'],
    ['restart', 'it is finished', {}, machine('Succeeded'), 'it is not running'],
    ['restart', 'it is restarting', restarting, machine('Running', ending), 'done'],
    ['restart', 'it has been restarted, and once more', restarting, machine('Running', { uid: 'v-2' }), 'record'],
  ])('%s, when %s', (verb, _, status, found, expected) => {
    const step = decide(wish(verb), config(status), found)
    expect(step.do === 'refuse' ? step.message : step.do).toBe(expected)
  })

  test.each<[string, ConfigStatus, Found]>([
    ['a VM', {}, machine('Running', ending)],
    ['a restart that was called off', cancelled, undefined],
  ])('start waits for the end of %s if it is told to', (_, status, found) => {
    expect(decide(wish('start', { isWaiting: true }), config(status), found).do).toBe('clear')
  })

  test.each<Verb>(['start', 'stop', 'restart'])('%s of a config that is being deleted is refused', (verb) => {
    expect(decide(wish(verb), config({}, ending), machine('Running')).do).toBe('refuse')
  })
})

const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
const machines = '/apis/virtset.io/v1alpha1/virtualmachines'
const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  const kube = createKubeClient({ access: server.access, userAgent: 'virtset-webhooks', clock })
  opened.push(
    () => server.close(),
    () => kube.close(),
  )
  put(server, configs, config())
  return { clock, server, power: createPower(kube, clock) }
}
const put = (server: FakeApiServer, collection: string, object: object) =>
  server.put(collection, JSON.parse(JSON.stringify(object)))
const writes = (server: FakeApiServer) =>
  server.requests
    .filter(({ method }) => method !== 'GET')
    .map(({ method, path }) => `${method} ${path.split('/').slice(6).join('/')}`)

describe('against an API server', () => {
  test('start creates the VM, with owner and the revision of the template', async () => {
    const { server, power } = await setUp()
    const answer = await power(wish('start'))
    expect(answer).toMatchObject({
      code: 201,
      object: {
        metadata: {
          name: 'web',
          labels: { app: 'web' },
          annotations: { 'virtset.io/template-revision': expect.stringMatching(/^[0-9a-f]{16}$/) },
          ownerReferences: ours,
        },
      },
    })
    expect(writes(server)).toEqual(['POST virtualmachines'])
  })

  test('fifty starts at once make one VM, and 49 are told', async () => {
    const { server, power } = await setUp()
    const answers = await Promise.all(Array.from({ length: 50 }, () => power(wish('start'))))
    expect(answers.filter((answer) => 'code' in answer && answer.code === 201).length).toBe(1)
    expect(answers.filter((answer) => 'refused' in answer && answer.refused.code === 409).length).toBe(49)
    expect(server.objects(machines).length).toBe(1)
  })

  test('a finished instance is cleared away before', async () => {
    const { clock, server, power } = await setUp()
    put(server, machines, machine('Failed'))
    const answer = power(wish('start'))
    await until(() => server.find(machines, 'default', 'web')?.metadata.deletionTimestamp !== undefined)
    expect(server.objects(machines).length).toBe(1)
    server.remove(machines, 'default', 'web')
    await until(
      () => server.objects(machines).length === 1,
      () => clock.advance(200),
    )
    expect(await answer).toMatchObject({ code: 201 })
    expect(server.find(machines, 'default', 'web')?.metadata.uid).not.toBe('v-1')
  })

  test('a finished instance that does not go is told after most of a minute', async () => {
    const { clock, server, power } = await setUp()
    put(server, machines, machine('Failed'))
    let answered: unknown
    void power(wish('start')).then((answer) => (answered = answer))
    await until(
      () => answered !== undefined,
      () => clock.advance(1000),
    )
    expect(answered).toMatchObject({ refused: { code: 409 } })
  })

  test('what is only tried writes nothing', async () => {
    const { server, power } = await setUp()
    put(server, machines, machine('Failed'))
    expect(await power(wish('start', { isDryRun: true }))).toMatchObject({ code: 201 })
    expect(
      server.requests
        .filter(({ method }) => method !== 'GET')
        .map(({ method, query }) => [method, query.get('dryRun')]),
    ).toEqual([['POST', 'All']])
  })

  test('a refusal is thrown as it came', async () => {
    const { server, power } = await setUp()
    const body = {
      kind: 'Status',
      code: 422,
      reason: 'Invalid',
      message: 'no',
      details: { causes: [{ field: 'spec.domain.memory' }] },
    }
    server.fault = ({ method }) => (method === 'POST' ? { status: 422, body } : undefined)
    const error = await power(wish('start')).catch((thrown: unknown) => thrown)
    expect(error instanceof ApiError && error.status.details).toEqual(body.details)
  })

  test('stop says the grace period first, and deletes by uid', async () => {
    const { server, power } = await setUp()
    put(server, machines, machine('Running'))
    expect(await power(wish('stop', { gracePeriodSeconds: 3 }))).toEqual({
      code: 202,
      uid: 'v-1',
      message: 'it is asked to power off',
    })
    expect(writes(server)).toEqual(['PATCH virtualmachines/web', 'DELETE virtualmachines/web'])
    expect(server.requests.at(-1)?.body).toMatchObject({ preconditions: { uid: 'v-1' } })
    expect(server.find(machines, 'default', 'web')?.metadata['annotations']).toMatchObject({
      'virtset.io/grace-period-seconds': '3',
    })
  })

  test('restart writes a wish, and touches nothing else', async () => {
    const { server, power } = await setUp()
    put(server, machines, machine('Running'))
    expect(await power(wish('restart', { gracePeriodSeconds: 0 }))).toMatchObject({ code: 202, uid: 'v-1' })
    expect(writes(server)).toEqual(['PATCH virtualmachineconfigs/web/status'])
    expect(server.find(configs, 'default', 'web')?.['status']).toMatchObject({
      restart: { uid: 'v-1', gracePeriodSeconds: 0 },
    })
  })

  test('stop calls a restart off, wherever it is', async () => {
    const { server, power } = await setUp()
    put(server, configs, config(restarting))
    put(server, machines, machine('Running'))
    expect(await power(wish('stop', { gracePeriodSeconds: 3 }))).toMatchObject({ code: 202 })
    expect(writes(server)).toEqual([
      'PATCH virtualmachineconfigs/web/status',
      'PATCH virtualmachines/web',
      'DELETE virtualmachines/web',
    ])
    const restart = { ...restarting.restart, gracePeriodSeconds: 3, cancelled: true }
    expect(server.find(configs, 'default', 'web')?.['status']).toEqual({ restart })
  })

  test('who was overtaken looks again', async () => {
    const { server, power } = await setUp()
    put(server, machines, machine('Running'))
    let isFirst = true
    server.fault = ({ method }) => {
      if (method !== 'PATCH' || !isFirst) return undefined
      isFirst = false
      return { status: 409, body: { kind: 'Status', code: 409, reason: 'Conflict', message: 'modified' } }
    }
    expect(await power(wish('restart'))).toMatchObject({ code: 202 })
  })
})
