import { afterEach, describe, expect, test } from 'vitest'
import type { ConfigStatus, VirtualMachineConfig } from '../../api/config.ts'
import type { VirtualMachineStatus } from '../../api/virtual-machine.ts'
import type { ObjectMeta } from '../../api/object.ts'
import { gracePeriodAnnotation, ownerReference } from '../../api/template.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { startFakeApiServer } from '../../test/fake-apiserver.ts'
import type { FakeApiServer } from '../../test/fake-apiserver.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { storedVm } from '../../test/stored-vm.ts'
import { until } from '../../test/until.ts'
import { createPower, decide } from './power.ts'
import type { PowerRequest } from './route.ts'
import type { PowerVerb } from './user-api.ts'

const request = (verb: PowerVerb, more: Partial<PowerRequest> = {}): PowerRequest => ({
  verb,
  namespace: 'default',
  name: 'web',
  isDryRun: false,
  isWaiting: false,
  ...more,
})

const template = { metadata: { labels: { app: 'web' } }, spec: storedVm().spec }
const config = (status: ConfigStatus = {}, metadata: ObjectMeta = {}): Persisted<VirtualMachineConfig> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'default', name: 'web', uid: 'c-1', resourceVersion: '9', ...metadata },
  spec: { template },
  status,
})
const ours = [ownerReference({ kind: 'VirtualMachineConfig', metadata: { name: 'web', uid: 'c-1' } })]
const vm = (phase?: VirtualMachineStatus['phase'], metadata: ObjectMeta = {}) =>
  storedVm({
    metadata: { name: 'web', uid: 'v-1', ownerReferences: ours, ...metadata },
    status: phase === undefined ? {} : { phase },
  })
const ending = { deletionTimestamp: '2030-01-02T00:00:00Z' }
const restarting = { restart: { uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z' } }
const cancelled = { restart: { ...restarting.restart, cancelled: true } }
const isStopping = 'it is stopping; start it after it has stopped, or add wait=true'

describe('decide', () => {
  type Found = ReturnType<typeof vm> | undefined
  test.each<[PowerVerb, string, ConfigStatus, Found, string]>([
    ['start', 'no VM exists', {}, undefined, 'create'],
    ['start', 'it is running', {}, vm('Running'), 'it is already running'],
    ['start', 'its VM has no phase yet', {}, vm(), 'it is already running'],
    ['start', 'it is finished', {}, vm('Succeeded'), 'clear'],
    ['start', 'it has failed and is being deleted', {}, vm('Failed', ending), 'clear'],
    ['start', 'it is stopping', {}, vm('Running', ending), isStopping],
    ['start', 'a restart was cancelled and no VM exists', cancelled, undefined, isStopping],
    ['start', 'a restart was cancelled and the new VM was created', cancelled, vm('Running'), isStopping],
    ['start', 'it is restarting', restarting, undefined, 'it is restarting'],
    ['start', 'it has been replaced', restarting, vm('Running', { uid: 'v-2' }), 'it is already running'],
    [
      'start',
      'another VM has the name',
      {},
      vm('Running', { ownerReferences: [] }),
      'the VM web is not controlled by this config',
    ],
    ['stop', 'no VM exists', {}, undefined, 'it is not running'],
    ['stop', 'it is running', {}, vm('Running'), 'delete'],
    ['stop', 'it is already stopping', {}, vm('Running', ending), 'delete'],
    ['stop', 'it is finished', {}, vm('Failed'), 'it is not running'],
    ['stop', 'it is restarting', restarting, undefined, 'cancel restart'],
    ['stop', 'it has been replaced', restarting, vm('Running', { uid: 'v-2' }), 'cancel restart'],
    ['stop', 'a restart was cancelled', cancelled, undefined, 'done'],
    ['stop', 'a restart was cancelled and a VM is running', cancelled, vm('Running'), 'delete'],
    ['stop', 'a restart was cancelled and its VM is finished', cancelled, vm('Failed'), 'done'],
    ['restart', 'it is running', {}, vm('Running'), 'request restart'],
    ['restart', 'no VM exists', {}, undefined, 'it is not running'],
    ['restart', 'it is stopping', {}, vm('Running', ending), 'it is stopping'],
    ['restart', 'a restart was cancelled', cancelled, undefined, 'it is stopping'],
    ['restart', 'it is finished', {}, vm('Succeeded'), 'it is not running'],
    ['restart', 'it is restarting', restarting, vm('Running', ending), 'done'],
    [
      'restart',
      'a restart is done but still in the status',
      restarting,
      vm('Running', { uid: 'v-2' }),
      'request restart',
    ],
  ])('%s, when %s', (verb, _, status, found, expected) => {
    const step = decide(request(verb), config(status), found)
    expect(step.do === 'refuse' ? step.message : step.do).toBe(expected)
  })

  test.each<[string, ConfigStatus, Found]>([
    ['a VM', {}, vm('Running', ending)],
    ['a cancelled restart', cancelled, undefined],
  ])('start with wait=true waits for the end of %s', (_, status, found) => {
    expect(decide(request('start', { isWaiting: true }), config(status), found).do).toBe('clear')
  })

  test.each<PowerVerb>(['start', 'stop', 'restart'])('refuses %s of a config that is being deleted', (verb) => {
    expect(decide(request(verb), config({}, ending), vm('Running')).do).toBe('refuse')
  })
})

const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
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
  test('start creates the VM with its owner and the revision of the template', async () => {
    const { server, power } = await setUp()
    const response = await power(request('start'))
    expect(response).toMatchObject({
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

  test('of fifty starts at once, one creates the VM and 49 are refused', async () => {
    const { server, power } = await setUp()
    const responses = await Promise.all(Array.from({ length: 50 }, () => power(request('start'))))
    expect(responses.filter((response) => 'code' in response && response.code === 201).length).toBe(1)
    expect(responses.filter((response) => 'refused' in response && response.refused.code === 409).length).toBe(49)
    expect(server.objects(vms).length).toBe(1)
  })

  test('start first deletes a finished VM and waits until it is gone', async () => {
    const { clock, server, power } = await setUp()
    put(server, vms, vm('Failed'))
    const response = power(request('start'))
    await until(() => server.find(vms, 'default', 'web')?.metadata.deletionTimestamp !== undefined)
    expect(server.objects(vms).length).toBe(1)
    server.remove(vms, 'default', 'web')
    await until(
      () => server.objects(vms).length === 1,
      () => clock.advance(200),
    )
    expect(await response).toMatchObject({ code: 201 })
    expect(writes(server).filter((write) => write.startsWith('DELETE'))).toEqual(['DELETE virtualmachines/web'])
    expect(server.find(vms, 'default', 'web')?.metadata.uid).not.toBe('v-1')
  })

  test('start does not delete a finished VM that is already being deleted', async () => {
    const { clock, server, power } = await setUp()
    put(server, vms, vm('Failed', ending))
    const response = power(request('start'))
    await until(() => clock.pending() > 0)
    server.remove(vms, 'default', 'web')
    await until(
      () => server.objects(vms).length === 1,
      () => clock.advance(200),
    )
    expect(await response).toMatchObject({ code: 201 })
    expect(writes(server)).toEqual(['POST virtualmachines'])
  })

  test('start is refused after 45 s if the finished VM still exists', async () => {
    const { clock, server, power } = await setUp()
    put(server, vms, vm('Failed'))
    let received: unknown
    void power(request('start')).then((response) => (received = response))
    await until(
      () => received !== undefined,
      () => clock.advance(1000),
    )
    expect(received).toMatchObject({ refused: { code: 409 } })
  })

  test('a start that waits looks less and less often', async () => {
    const { clock, server, power } = await setUp()
    put(server, vms, vm('Running', ending))
    const looks = () =>
      server.requests.filter(({ method, path }) => method === 'GET' && path.includes('machines/')).length
    let received: unknown
    void power(request('start', { isWaiting: true })).then((response) => (received = response))
    await until(
      () => received !== undefined,
      () => (clock.pending() > 0 ? clock.advance(200) : undefined),
    )
    expect(received).toMatchObject({ refused: { code: 409 } })
    expect(looks()).toBeLessThan(40)
  })

  test('sixteen starts of a namespace wait, and another one is refused before it deletes its VM', async () => {
    const { clock, server, power } = await setUp()
    const start = (name: string, namespace = 'default') => {
      put(server, configs, config({}, { name, namespace }))
      const owner = ownerReference({ kind: 'VirtualMachineConfig', metadata: { name, uid: 'c-1' } })
      put(server, vms, vm('Failed', { name, namespace, ownerReferences: [owner] }))
      return power(request('start', { name, namespace }))
    }
    const first = Array.from({ length: 16 }, (_, index) => start(`web-${index}`))
    await until(() => clock.pending() === 16)
    expect(await start('one-more')).toMatchObject({ refused: { code: 429, reason: 'TooManyRequests' } })
    expect(server.find(vms, 'default', 'one-more')?.metadata.deletionTimestamp).toBeUndefined()
    const other = start('web', 'other')
    await until(() => clock.pending() === 17)

    server.remove(vms, 'default', 'web-0')
    await Promise.all([
      until(
        () => server.find(vms, 'default', 'web-0') !== undefined,
        () => clock.advance(200),
      ),
      first[0],
    ])
    const again = start('again')
    await until(() => server.find(vms, 'default', 'again')?.metadata.deletionTimestamp !== undefined)
    for (const vmName of ['again', ...first.map((_, index) => `web-${index}`)]) server.remove(vms, 'default', vmName)
    server.remove(vms, 'other', 'web')
    let isDone = false
    const all = Promise.all([...first, other, again]).finally(() => (isDone = true))
    await until(
      () => isDone,
      () => clock.advance(200),
    )
    expect((await all).map((response) => 'code' in response && response.code)).toEqual(Array(18).fill(201))
  })

  test('starts of a namespace whose requests hang leave lanes for those of others', async () => {
    const { server, power } = await setUp()
    server.fault = ({ path }) => (path.includes('/namespaces/slow/') ? 'hang' : undefined)
    const clients = Array.from({ length: 20 }, () => new AbortController())
    const hanging = clients.map(({ signal }) => power(request('start', { namespace: 'slow' }), signal))
    await until(() => server.requests.length === 4)
    expect(await power(request('start'))).toMatchObject({ code: 201 })
    expect(server.requests.filter(({ path }) => path.includes('/namespaces/slow/')).length).toBe(4)
    for (const client of clients) client.abort(new Error('disconnected'))
    expect(await Promise.all(hanging.map((response) => response.catch(String)))).toEqual(
      clients.map(() => 'Error: disconnected'),
    )
  })

  test.each<[PowerVerb, string, ReturnType<typeof vm> | undefined, ConfigStatus, string]>([
    ['start', 'creation of the VM', undefined, {}, 'POST virtualmachines'],
    ['start', 'deletion of the finished VM', vm('Failed'), {}, 'DELETE virtualmachines/web'],
    ['stop', 'deletion of the VM', vm('Running'), {}, 'DELETE virtualmachines/web'],
    ['stop', 'cancellation of a restart', vm('Running'), restarting, 'PATCH virtualmachineconfigs/web/status'],
    ['restart', 'request in the status', vm('Running'), {}, 'PATCH virtualmachineconfigs/web/status'],
  ])('%s is aborted while the %s waits to be sent again', async (verb, _, found, status, write) => {
    const { clock, server, power } = await setUp()
    put(server, configs, config(status))
    if (found !== undefined) put(server, vms, found)
    server.fault = ({ method }) => (method === 'GET' ? undefined : { status: 429, headers: { 'retry-after': '25' } })
    const client = new AbortController()
    const response = power(request(verb), client.signal).catch(String)
    await until(() => clock.pending() > 0)
    client.abort(new Error('disconnected'))
    server.fault = undefined
    await clock.advance(30_000)
    expect(await response).toBe('Error: disconnected')
    expect(writes(server)).toEqual([write])
  })

  test.each([
    ['written', 'DELETE', ['PATCH', 'DELETE', 'DELETE']],
    ['being written', 'PATCH', ['PATCH', 'PATCH', 'DELETE']],
  ])('stop with a grace period deletes the VM even if the client leaves when it is %s', async (_, late, expected) => {
    const { clock, server, power } = await setUp()
    put(server, vms, vm('Running'))
    server.fault = ({ method }) => (method === late ? { status: 429, headers: { 'retry-after': '25' } } : undefined)
    const client = new AbortController()
    const response = power(request('stop', { gracePeriodSeconds: 0 }), client.signal)
    await until(() => clock.pending() > 0)
    client.abort(new Error('disconnected'))
    server.fault = undefined
    await clock.advance(30_000)
    expect(await response).toMatchObject({ code: 202, uid: 'v-1' })
    expect(writes(server)).toEqual(expected.map((method) => `${method} virtualmachines/web`))
  })

  test('a dry run writes nothing', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Failed'))
    expect(await power(request('start', { isDryRun: true }))).toMatchObject({ code: 201 })
    expect(
      server.requests
        .filter(({ method }) => method !== 'GET')
        .map(({ method, query }) => [method, query.get('dryRun')]),
    ).toEqual([['POST', 'All']])
  })

  test('an error of the API server is thrown unchanged', async () => {
    const { server, power } = await setUp()
    const body = {
      kind: 'Status',
      code: 422,
      reason: 'Invalid',
      message: 'no',
      details: { causes: [{ field: 'spec.domain.memory' }] },
    }
    server.fault = ({ method }) => (method === 'POST' ? { status: 422, body } : undefined)
    const error = await power(request('start')).catch((thrown: unknown) => thrown)
    expect(error instanceof ApiError && error.status.details).toEqual(body.details)
    expect(writes(server)).toEqual(['POST virtualmachines'])
  })

  test('stop sets the grace period, then deletes the VM by its UID', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    expect(await power(request('stop', { gracePeriodSeconds: 3 }))).toEqual({
      code: 202,
      uid: 'v-1',
      message: 'the guest is shutting down',
    })
    expect(writes(server)).toEqual(['PATCH virtualmachines/web', 'DELETE virtualmachines/web'])
    const deletion = server.requests.find(({ method }) => method === 'DELETE')
    expect(deletion?.body).toMatchObject({ preconditions: { uid: 'v-1' } })
    expect(server.find(vms, 'default', 'web')?.metadata['annotations']).toMatchObject({
      'virtset.io/grace-period-seconds': '3',
    })
  })

  const graceOf = (server: FakeApiServer) => {
    const { annotations = {} } = (server.find(vms, 'default', 'web')?.metadata ?? {}) as ObjectMeta
    return annotations[gracePeriodAnnotation]
  }

  test.each<[string, number, boolean, string | undefined, string[]]>([
    ['is removed again if a policy refuses the deletion', 422, false, undefined, ['PATCH', 'DELETE', 'PATCH']],
    ['is removed again if a policy fails', 500, false, undefined, ['PATCH', 'DELETE', 'PATCH']],
    ['remains if the VM is being deleted all the same', 500, true, '0', ['PATCH', 'DELETE']],
  ])('a grace period %s', async (_, code, isDeleted, left, expected) => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running', { finalizers: ['a/b'] }))
    const body = { kind: 'Status', code, reason: 'Invalid', message: 'no' }
    server.fault = ({ method }) => {
      if (method !== 'DELETE') return undefined
      if (isDeleted) put(server, vms, vm('Running', { ...ending, annotations: { [gracePeriodAnnotation]: '0' } }))
      return { status: code, body }
    }
    const error = await power(request('stop', { gracePeriodSeconds: 0 })).catch((thrown: unknown) => thrown)
    expect(error instanceof ApiError && error.status.code).toBe(code)
    expect(graceOf(server)).toBe(left)
    expect(writes(server)).toEqual(expected.map((method) => `${method} virtualmachines/web`))
  })

  test.each<[string, number | undefined]>([
    ['fails', 0],
    ['has no grace period', undefined],
  ])('a stop that %s does not remove the grace period of another one meanwhile', async (_, gracePeriodSeconds) => {
    const { server, power } = await setUp()
    const finalizers = ['a/b']
    put(server, vms, vm('Running', { finalizers, annotations: { [gracePeriodAnnotation]: '0' } }))
    let isFailing = gracePeriodSeconds === undefined
    server.fault = ({ method, body }) => {
      if (method === 'PATCH' && isFailing && JSON.stringify(body).includes('null')) {
        isFailing = false
        put(server, vms, vm('Running', { ...ending, annotations: { [gracePeriodAnnotation]: '600' } }))
      }
      if (method !== 'DELETE' || gracePeriodSeconds === undefined) return undefined
      isFailing = true
      return { status: 500, body: { kind: 'Status', code: 500, reason: 'InternalError', message: 'no' } }
    }
    await power(request('stop', gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds })).catch(() => undefined)
    expect(graceOf(server)).toBe('600')
  })

  test('a stop that fails removes its grace period although the status of the VM changes meanwhile', async () => {
    const { server, power } = await setUp()
    const finalizers = ['a/b']
    put(server, vms, vm('Running', { finalizers }))
    let changes = 0
    server.fault = ({ method, body }) => {
      if (method === 'DELETE') {
        return { status: 500, body: { kind: 'Status', code: 500, reason: 'InternalError', message: 'no' } }
      }
      if (method === 'PATCH' && JSON.stringify(body).includes('null') && (changes += 1) < 3) {
        put(server, vms, vm('Running', { finalizers, annotations: { [gracePeriodAnnotation]: '0' } }))
      }
      return undefined
    }
    await expect(power(request('stop', { gracePeriodSeconds: 0 }))).rejects.toThrow('no')
    expect([graceOf(server), changes]).toEqual([undefined, 3])
  })

  test('the refusal of a deletion is the answer even if the grace period cannot be removed', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running', { finalizers: ['a/b'] }))
    let isRefused = false
    server.fault = ({ method }) => {
      isRefused ||= method === 'DELETE'
      const code = method === 'DELETE' ? 422 : 403
      const isFault = isRefused && ['DELETE', 'PATCH'].includes(method)
      return isFault ? { status: code, body: { kind: 'Status', code, reason: 'Invalid', message: 'no' } } : undefined
    }
    const error = await power(request('stop', { gracePeriodSeconds: 0 })).catch((thrown: unknown) => thrown)
    expect(error instanceof ApiError && error.status.code).toBe(422)
  })

  test.each<[string, ObjectMeta, string | undefined, string[]]>([
    ['removes the grace period of a stop that failed', {}, undefined, ['PATCH', 'DELETE']],
    ['keeps that of a VM that is being deleted', ending, '0', ['DELETE']],
  ])('stop without a grace period %s', async (_, metadata, left, expected) => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running', { finalizers: ['a/b'], ...metadata, annotations: { [gracePeriodAnnotation]: '0' } }))
    expect(await power(request('stop'))).toMatchObject({ code: 202 })
    expect(graceOf(server)).toBe(left)
    expect(writes(server)).toEqual(expected.map((method) => `${method} virtualmachines/web`))
  })

  test('stop without a grace period only deletes the VM', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    await power(request('stop'))
    expect(writes(server)).toEqual(['DELETE virtualmachines/web'])
  })

  test('a second restart writes nothing and returns the UID of the VM that is replaced', async () => {
    const { server, power } = await setUp()
    put(server, configs, config(restarting))
    put(server, vms, vm('Running', ending))
    expect(await power(request('restart'))).toEqual({ code: 202, uid: 'v-1', message: 'it is already restarting' })
    expect(writes(server)).toEqual([])
  })

  test('restart only writes the request to the status of the config', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    expect(await power(request('restart', { gracePeriodSeconds: 0 }))).toMatchObject({ code: 202, uid: 'v-1' })
    expect(writes(server)).toEqual(['PATCH virtualmachineconfigs/web/status'])
    expect(server.find(configs, 'default', 'web')?.['status']).toMatchObject({
      restart: { uid: 'v-1', gracePeriodSeconds: 0 },
    })
  })

  test.each<[PowerVerb, object]>([
    ['restart', { uid: 'v-2' }],
    ['stop', { uid: 'v-1', cancelled: true }],
  ])('%s does not take the grace period of a restart that is done but still in the status', async (verb, expected) => {
    const { server, power } = await setUp()
    put(server, configs, config({ restart: { ...restarting.restart, gracePeriodSeconds: 0 } }))
    put(server, vms, vm('Running', { uid: 'v-2' }))
    expect(await power(request(verb))).toMatchObject({ code: 202 })
    expect(server.find(configs, 'default', 'web')?.['status']).toEqual({
      restart: { requestedAt: expect.any(String), ...expected },
    })
  })

  test('stop cancels a restart and deletes the VM', async () => {
    const { server, power } = await setUp()
    put(server, configs, config(restarting))
    put(server, vms, vm('Running'))
    expect(await power(request('stop', { gracePeriodSeconds: 3 }))).toMatchObject({ code: 202 })
    expect(writes(server)).toEqual([
      'PATCH virtualmachineconfigs/web/status',
      'PATCH virtualmachines/web',
      'DELETE virtualmachines/web',
    ])
    const restart = { ...restarting.restart, gracePeriodSeconds: 3, cancelled: true }
    expect(server.find(configs, 'default', 'web')?.['status']).toEqual({ restart })
  })

  test.each<[string, ConfigStatus, Partial<PowerRequest>, string, string[]]>([
    [
      'cancels a restart that is requested before the VM is deleted',
      restarting,
      {},
      'the restart is cancelled',
      ['DELETE virtualmachines/web', 'PATCH virtualmachineconfigs/web/status', 'DELETE virtualmachines/web'],
    ],
    [
      'leaves one of another VM',
      { restart: { ...restarting.restart, uid: 'v-2' } },
      {},
      'the guest is shutting down',
      ['DELETE virtualmachines/web'],
    ],
    ['leaves one that is cancelled', cancelled, {}, 'the guest is shutting down', ['DELETE virtualmachines/web']],
    [
      'cancels none in a dry run',
      restarting,
      { isDryRun: true },
      'the guest is shutting down',
      ['DELETE virtualmachines/web'],
    ],
  ])('stop %s', async (_, meanwhile, more, message, expected) => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    server.fault = ({ method }) => {
      if (method !== 'DELETE') return undefined
      put(server, configs, config(meanwhile))
      server.fault = undefined
      return undefined
    }
    expect(await power(request('stop', more))).toMatchObject({ code: 202, message })
    expect(writes(server)).toEqual(expected)
    const isCancelled = expected.length > 1
    expect(server.find(configs, 'default', 'web')?.['status']).toEqual(isCancelled ? cancelled : meanwhile)
  })

  test('stop with a grace period cancels a restart that has just deleted the VM', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    server.fault = ({ method, path }) => {
      if (method !== 'PATCH' || !path.startsWith(vms.replace(/virtualmachines$/, ''))) return undefined
      server.remove(vms, 'default', 'web')
      put(server, configs, config(restarting))
      server.fault = undefined
      return undefined
    }
    const response = await power(request('stop', { gracePeriodSeconds: 0 }))
    expect(response).toMatchObject({ code: 202, message: 'the restart is cancelled' })
    expect(writes(server)).toEqual([
      'PATCH virtualmachines/web',
      'DELETE virtualmachines/web',
      'PATCH virtualmachineconfigs/web/status',
    ])
  })

  test('stop succeeds although the config is deleted with its VM', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    server.fault = ({ method }) => {
      if (method === 'DELETE') server.remove(configs, 'default', 'web')
      return undefined
    }
    expect(await power(request('stop'))).toMatchObject({ code: 202, message: 'the guest is shutting down' })
  })

  test.each([
    ['a finished VM', vm('Failed')],
    ['the VM of another owner', vm('Running', { ownerReferences: [] })],
  ])('a cancelled restart does not delete %s that appears meanwhile', async (_, found) => {
    const { server, power } = await setUp()
    put(server, configs, config(restarting))
    server.fault = ({ method }) => {
      if (method === 'PATCH') put(server, vms, found)
      return undefined
    }
    expect(await power(request('stop'))).toMatchObject({ code: 202 })
    expect(writes(server)).toEqual(['PATCH virtualmachineconfigs/web/status'])
  })

  test('gives up after twenty conflicts', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    const body = { kind: 'Status', code: 409, reason: 'Conflict', message: 'modified' }
    server.fault = ({ method }) => (method === 'PATCH' ? { status: 409, body } : undefined)
    await expect(power(request('restart'))).rejects.toThrow('modified')
    expect(writes(server).length).toBe(20)
  })

  test('retries after a conflict', async () => {
    const { server, power } = await setUp()
    put(server, vms, vm('Running'))
    let isFirst = true
    server.fault = ({ method }) => {
      if (method !== 'PATCH' || !isFirst) return undefined
      isFirst = false
      return { status: 409, body: { kind: 'Status', code: 409, reason: 'Conflict', message: 'modified' } }
    }
    expect(await power(request('restart'))).toMatchObject({ code: 202 })
  })
})
