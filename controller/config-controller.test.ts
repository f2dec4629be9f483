import { afterEach, describe, expect, test } from 'vitest'
import type { ConfigStatus } from '../api/config.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { creationsOfPasses } from '../test/creations-of-passes.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer, FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { gracePeriodAnnotation, ownerReference } from '../api/template.ts'
import { startConfigController } from './config-controller.ts'

const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
const log = createLogger({ process: 'test', level: 'silent' })

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  opened.push(() => server.close())
  const spec = { template: { spec: JSON.parse(JSON.stringify(storedVm().spec)) } }
  server.put(configs, { metadata: { namespace: 'default', name: 'web', uid: 'c-1', generation: 1 }, spec })
  const owner = ownerReference({ kind: 'VirtualMachineConfig', metadata: { name: 'web', uid: 'c-1' } })
  /** As start makes it; held, as admission stores it. */
  const run = (uid: string, metadata: object = {}) =>
    server.put(vms, {
      metadata: {
        ...metadata,
        namespace: 'default',
        name: 'web',
        uid,
        ownerReferences: [owner],
        finalizers: ['virtset.io/launcher-pod'],
      },
      spec: {},
      status: { phase: 'Running', nodeName: 'n1' },
    })
  const requestRestart = (uid: string) => {
    const config = server.find(configs, 'default', 'web')
    if (config)
      server.put(configs, {
        ...config,
        status: { ...(config['status'] as object), restart: { uid, requestedAt: '2030-01-01T00:00:00Z' } },
      })
  }
  const start = () => {
    const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
    const events = createEventRecorder({ kube, log, component: 'c', instance: 'c0', clock })
    const reflector = startReflector({ kube, resource: virtualMachines, log, clock })
    const controller = startConfigController({
      kube,
      vms: reflector,
      events,
      log,
      isLeader: () => true,
      clock,
      random: () => 0,
    })
    const led = controller.lead()
    led.catch(() => {})
    const stop = async () => {
      await controller.stop()
      await reflector.stop()
      await events.stop()
      await kube.close()
    }
    opened.push(stop)
    const crash = async () => {
      opened.splice(opened.indexOf(stop), 1)
      await stop()
    }
    return { led, crash, controller }
  }
  return { clock, server, run, requestRestart, start }
}

const status = (server: FakeApiServer): ConfigStatus =>
  (server.find(configs, 'default', 'web')?.['status'] as ConfigStatus | undefined) ?? {}
const vm = (server: FakeApiServer) => server.find(vms, 'default', 'web')
/** The VM of a restart, as the controller of VMs asks for it. */
const asked = (over: object = {}, owner = 'c-1') => {
  const ownerReferences = [ownerReference({ kind: 'VirtualMachineConfig', metadata: { name: 'web', uid: owner } })]
  return { metadata: { namespace: 'default', name: 'web', uid: 'v-2', resourceVersion: '1', ownerReferences, ...over } }
}
const creations = (server: FakeApiServer) =>
  server.requests.filter(({ method, path }) => method === 'POST' && path.endsWith('/virtualmachines')).length

describe('a config', () => {
  test('follows its VM, and writes only what changes', async () => {
    const { clock, server, run, start } = await setUp()
    start()
    await until(
      () => status(server).phase === 'Stopped',
      () => clock.advance(10),
    )
    run('v-1')
    await until(
      () => status(server).phase === 'Running',
      () => clock.advance(10),
    )
    expect(status(server)).toMatchObject({ instance: { name: 'web', uid: 'v-1', nodeName: 'n1' }, outdated: true })
    const writes = server.requests.filter(({ method }) => method === 'PATCH').length
    expect(writes).toBe(2)
  })
})

describe('a restart', () => {
  test('deletes the old VM by uid, waits for its end, and creates another', async () => {
    const { clock, server, run, requestRestart, start } = await setUp()
    run('v-1')
    requestRestart('v-1')
    start()
    await until(
      () => vm(server)?.metadata.deletionTimestamp !== undefined,
      () => clock.advance(10),
    )
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    expect(creations(server)).toBe(0)
    server.remove(vms, 'default', 'web')
    await until(
      () => vm(server) !== undefined && status(server).restart === undefined,
      () => clock.advance(10),
    )
    expect([creations(server), vm(server)?.metadata.uid === 'v-1']).toEqual([1, false])
  })

  test('does not give the guest the grace period of a stop whose deletion failed', async () => {
    const { clock, server, run, requestRestart, start } = await setUp()
    run('v-1', { annotations: { [gracePeriodAnnotation]: '0', note: 'x' } })
    requestRestart('v-1')
    start()
    await until(
      () => vm(server)?.metadata.deletionTimestamp !== undefined,
      () => clock.advance(10),
    )
    expect(vm(server)?.metadata['annotations']).toEqual({ note: 'x' })
  })

  const steps = ['before anything', 'after the deletion', 'after the end of the old one', 'after the creation'] as const
  test.each(steps)('happens once, although the controller dies %s', async (when) => {
    const { clock, server, run, requestRestart, start } = await setUp()
    run('v-1')
    requestRestart('v-1')
    /** The creation, or the write after it, is the last that the first controller does. */
    const isLast = ({ method, path }: FakeRequest) =>
      when === 'after the creation'
        ? method === 'PATCH' && creations(server) > 0
        : method === 'POST' && path.endsWith('/virtualmachines')
    if (when !== 'before anything') {
      const { crash } = start()
      await until(
        () => vm(server)?.metadata.deletionTimestamp !== undefined,
        () => clock.advance(10),
      )
      if (when !== 'after the deletion') {
        server.fault = (request) => (isLast(request) ? 'reset' : undefined)
        server.remove(vms, 'default', 'web')
        await until(
          () => server.requests.some(isLast),
          () => clock.advance(10),
        )
      }
      await crash()
      server.fault = undefined
    }
    if (when === 'after the deletion') server.remove(vms, 'default', 'web')
    const before = creations(server)
    start()
    await until(
      () => status(server).restart === undefined,
      async () => {
        if (vm(server)?.metadata.uid === 'v-1' && vm(server)?.metadata.deletionTimestamp !== undefined)
          server.remove(vms, 'default', 'web')
        await clock.advance(10)
      },
    )
    for (let turn = 0; turn < 5; turn++) await clock.advance(1000)
    expect(server.objects(vms).length).toBe(1)
    expect(creations(server) - before).toBe(when === 'after the creation' ? 0 : 1)
  })

  test('awaits the VM that it has created until the config has recorded that', async () => {
    const { clock, server, run, requestRestart, start } = await setUp()
    run('v-2')
    requestRestart('v-1')
    const recording = Promise.withResolvers<void>()
    server.fault = ({ method, path }) =>
      method === 'PATCH' && path.endsWith('/web/status') ? { heldUntil: recording.promise } : undefined
    const { led, controller } = start()
    await led
    expect(controller.awaits(asked())).toBe(true)
    for (const other of [asked({ uid: 'v-1' }), asked({ name: 'other' }), asked({}, 'c-0')])
      expect(controller.awaits(other)).toBe(false)
    recording.resolve()
    await until(
      () => !controller.awaits(asked()),
      () => clock.advance(10),
    )
    expect(status(server).restart).toBeUndefined()
  })

  test('awaits nothing once it is cancelled or its config is being deleted', async () => {
    const { server, run, requestRestart, start } = await setUp()
    run('v-2')
    requestRestart('v-1')
    const recording = Promise.withResolvers<void>()
    server.fault = ({ path }) => (path.endsWith('/web/status') ? { heldUntil: recording.promise } : undefined)
    const { led, controller } = start()
    await led
    const change = async (over: { metadata?: object; status?: object }) => {
      const config = server.find(configs, 'default', 'web')!
      server.put(configs, { ...config, ...over, metadata: { ...config.metadata, ...over.metadata } })
      await until(() => !controller.awaits(asked()))
    }
    expect(controller.awaits(asked())).toBe(true)
    const cancelled = { restart: { uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z', cancelled: true } }
    await change({ status: cancelled })
    requestRestart('v-1')
    await until(() => controller.awaits(asked()))
    await change({ metadata: { deletionTimestamp: '2030-01-01T00:00:00Z' } })
    recording.resolve()
  })

  test('is one of many, of which a new leader continues a few at a time', async () => {
    const { clock, server, requestRestart, start } = await setUp()
    requestRestart('v-1')
    const config = server.find(configs, 'default', 'web')!
    const names = Array.from({ length: 30 }, (_, index) => `web-${index}`)
    for (const name of names) {
      const { resourceVersion: _, ...metadata } = config.metadata
      server.put(configs, { ...config, metadata: { ...metadata, name, uid: `c-${name}` } })
    }
    const reads = () =>
      server.requests.filter(({ method, path }) => method === 'GET' && /configs\/web/.test(path)).length
    const released = Promise.withResolvers<void>()
    server.fault = ({ method, path }) =>
      method === 'GET' && /configs\/web/.test(path) ? { heldUntil: released.promise } : undefined
    start()
    await until(
      () => reads() > 0,
      () => clock.advance(10),
    )
    for (let turn = 0; turn < 5; turn++) await clock.advance(1000)
    expect(reads()).toBeLessThanOrEqual(4)
    released.resolve()
    server.fault = undefined
    await until(
      () => creations(server) === 31,
      () => clock.advance(10),
    )
  })

  test('retries while a quota is being counted', async () => {
    const { clock, server, requestRestart, start } = await setUp()
    let conflicts = 3
    server.fault = ({ method, path }) =>
      method === 'POST' && path.endsWith('/virtualmachines') && conflicts-- > 0 ? { status: 409 } : undefined
    requestRestart('v-1')
    start()
    await until(
      () => vm(server) !== undefined,
      () => clock.advance(10),
    )
    expect(creations(server)).toBe(4)
  })

  test('creates claims, also after a quota was being counted', async () => {
    const { clock, server, start } = await setUp()
    const found = server.find(configs, 'default', 'web')
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    server.put(configs, {
      ...found,
      metadata: found!.metadata,
      spec: { ...(found!['spec'] as object), claimTemplates },
    })
    let conflicts = 3
    server.fault = ({ method, path }) =>
      method === 'POST' && path.endsWith('/persistentvolumeclaims') && conflicts-- > 0 ? { status: 409 } : undefined
    start()
    await until(
      () => server.find('/api/v1/persistentvolumeclaims', 'default', 'root-web') !== undefined,
      () => clock.advance(10),
    )
    expect(conflicts).toBe(-1)
  })

  test('creates claims that are gone when an annotation of a stopped config changes', async () => {
    const { clock, server, start } = await setUp()
    const found = server.find(configs, 'default', 'web')!
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    server.put(configs, { ...found, spec: { ...(found['spec'] as object), claimTemplates } })
    start()
    const claims = '/api/v1/persistentvolumeclaims'
    const untilCreated = () =>
      until(
        () => server.find(claims, 'default', 'root-web') !== undefined,
        () => clock.advance(10),
      )
    await untilCreated()
    await until(() => status(server).phase === 'Stopped')
    server.remove(claims, 'default', 'root-web')
    const config = server.find(configs, 'default', 'web')!
    server.put(configs, { ...config, metadata: { ...config.metadata, annotations: { 'virtset.io/restored-at': 'a' } } })
    await untilCreated()
    expect(server.find(claims, 'default', 'root-web')).toMatchObject({ spec: claimTemplates[0]?.spec })
  })

  test.each(['claims', 'a restart'])('%s that were refused are not tried again when labels change', async (what) => {
    const { clock, server, requestRestart, start } = await setUp()
    const found = server.find(configs, 'default', 'web')!
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    if (what === 'a restart') requestRestart('v-1')
    else server.put(configs, { ...found, spec: { ...(found['spec'] as object), claimTemplates } })
    const refusal = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota' }
    const isCreation = ({ method, path }: FakeRequest) => method === 'POST' && !path.endsWith('/events')
    server.fault = (request) => (isCreation(request) ? { status: 403, body: refusal } : undefined)
    start()
    const tries = () => server.requests.filter(isCreation).length
    await until(
      () => tries() > 0,
      () => clock.advance(10),
    )
    for (let change = 0; change < 5; change++) {
      const config = server.find(configs, 'default', 'web')!
      server.put(configs, { ...config, metadata: { ...config.metadata, labels: { change: `${change}` } } })
      await settle()
      await clock.advance(1000)
    }
    expect(tries()).toBe(1)
    await until(
      () => tries() > 1,
      () => clock.advance(1000),
    )
  })

  test('leaves slow claims to the next pass, and tries those that are refused again once all were tried', async () => {
    const { clock, server, start } = await setUp()
    const found = server.find(configs, 'default', 'web')!
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
    const claimTemplates = names.map((name) => ({ name, spec: { resources: { requests: { storage: '1Gi' } } } }))
    server.put(configs, { ...found, spec: { ...(found['spec'] as object), claimTemplates } })
    const refusal = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota' }
    const claims = '/persistentvolumeclaims'
    const tries = () =>
      server.requests.flatMap(({ method, path, body }) =>
        method === 'POST' && path.endsWith(claims) ? [(body as VirtualMachine).metadata.name] : [],
      )
    let isRefused = true
    server.fault = ({ method, path, body }) => {
      if (method !== 'POST' || !path.endsWith(claims)) return undefined
      const heldUntil = clock.advance(1000)
      return isRefused && /^[abf]-/.test((body as VirtualMachine).metadata.name ?? '')
        ? { heldUntil, status: 403, body: refusal }
        : { heldUntil }
    }
    start()
    // The clock moves only with creations: no pass waits for it.
    await until(() => status(server).phase === 'Stopped')
    const isPass = ({ method, path }: FakeRequest) => method === 'GET' && path.endsWith('/virtualmachineconfigs/web')
    expect(creationsOfPasses(server, isPass, claims)).toEqual([2, 2, 2, 1])
    expect(tries()).toEqual(names.map((name) => `${name}-web`))
    isRefused = false
    await until(
      () => names.every((name) => server.find('/api/v1/persistentvolumeclaims', 'default', `${name}-web`)),
      () => clock.advance(1000),
    )
    expect(tries().slice(names.length)).toEqual(['a-web', 'b-web', 'f-web'])
  })

  test('creates its VM, and reports why, although a claim is refused', async () => {
    const { server, requestRestart, start } = await setUp()
    const found = server.find(configs, 'default', 'web')!
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    server.put(configs, { ...found, spec: { ...(found['spec'] as object), claimTemplates } })
    requestRestart('v-1')
    const refusal = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota' }
    server.fault = ({ method, path }) =>
      method === 'POST' && path.endsWith('/persistentvolumeclaims') ? { status: 403, body: refusal } : undefined
    start()
    await until(() => server.find(vms, 'default', 'web') !== undefined)
    const reasons = () => server.objects('/api/v1/events').map((event) => event['reason'])
    await until(() => reasons().length > 0)
    // Those of the VM follow.
    expect(reasons()[0]).toBe('FailedCreateClaim')
  })

  test.each<[string, number, string]>([
    ['a webhook for claims does not answer', 500, 'POST'],
    ['claims cannot be read', 503, 'GET'],
  ])('drops a cancelled restart and follows its VM while %s', async (_, code, failing) => {
    const { clock, server, requestRestart, start } = await setUp()
    const found = server.find(configs, 'default', 'web')!
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    server.put(configs, { ...found, spec: { ...(found['spec'] as object), claimTemplates } })
    requestRestart('v-1')
    const config = server.find(configs, 'default', 'web')!
    const { restart } = status(server)
    server.put(configs, { ...config, status: { phase: 'Stopping', restart: { ...restart, cancelled: true } } })
    let isFailing = true
    const body = { kind: 'Status', code, reason: 'InternalError', message: 'failed calling webhook "storage"' }
    server.fault = ({ method, path }) =>
      isFailing && method === failing && path.includes('/persistentvolumeclaims') ? { status: code, body } : undefined
    start()
    await until(
      () => status(server).phase === 'Stopped' && status(server).restart === undefined,
      () => clock.advance(10),
    )
    const claim = () => server.find('/api/v1/persistentvolumeclaims', 'default', 'root-web')
    expect(claim()).toBeUndefined()
    isFailing = false
    await until(
      () => claim() !== undefined,
      () => clock.advance(100),
    )
  })

  test('that is refused reports why, and continues when it is accepted', async () => {
    const { clock, server, requestRestart, start } = await setUp()
    requestRestart('v-1')
    const refusal = { kind: 'Status', code: 422, reason: 'Invalid', message: 'needs memory' }
    server.fault = ({ method }) => (method === 'POST' ? { status: 422, body: refusal } : undefined)
    start()
    await until(
      () => status(server).phase === 'Failed',
      () => clock.advance(10),
    )
    expect(status(server)).toMatchObject({
      restart: { uid: 'v-1' },
      conditions: [{ type: 'Ready', status: 'False', reason: 'FailedCreate', message: 'needs memory' }],
    })
    const tried = creations(server)
    for (let turn = 0; turn < 10; turn++) await clock.advance(1000)
    expect(creations(server) - tried).toBeLessThan(3)
    server.fault = undefined
    await until(
      () => vm(server) !== undefined && status(server).restart === undefined,
      () => clock.advance(1000),
    )
  })

  test('that is refused when its config is deleted does not delay those of the next config of this name', async () => {
    const { clock, server, requestRestart, start } = await setUp()
    const {
      metadata: { uid: _uid, resourceVersion: _version, ...metadata },
      ...config
    } = server.find(configs, 'default', 'web')!
    requestRestart('v-1')
    const refusal = { kind: 'Status', code: 422, reason: 'Invalid', message: 'needs memory' }
    const held = Promise.withResolvers<undefined>()
    server.fault = ({ method, path }) => {
      if (method === 'POST') return { status: 422, body: refusal }
      return path.endsWith('/virtualmachines/web') ? { heldUntil: held.promise } : undefined
    }
    const { controller } = start()
    await until(() => server.requests.some(({ path }) => path.endsWith('/virtualmachines/web')))
    server.remove(configs, 'default', 'web')
    await until(() => controller.configs.store.get('default/web') === undefined)
    held.resolve(undefined)
    await until(() => creations(server) === 1 && controller.statistics()?.working === 0)
    server.put(configs, { ...config, metadata: { ...metadata, uid: 'c-2' } })
    requestRestart('v-1')
    await until(
      () => controller.configs.store.get('default/web')?.status?.phase === 'Failed',
      () => clock.advance(10),
    )
    await until(() => controller.statistics()?.working === 0)
    const tried = creations(server)
    for (let turn = 0; turn < 12; turn++) await clock.advance(1000)
    await until(() => creations(server) > tried)
    expect(status(server).restart).toEqual({ uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z' })
  })

  test('that stays refused is tried less often', async () => {
    const { clock, server, requestRestart, start } = await setUp()
    requestRestart('v-1')
    const refusal = { kind: 'Status', code: 422, reason: 'Invalid', message: 'needs memory' }
    server.fault = ({ method }) => (method === 'POST' ? { status: 422, body: refusal } : undefined)
    start()
    await until(
      () => status(server).phase === 'Failed',
      () => clock.advance(10),
    )
    const tried = creations(server)
    for (let turn = 0; turn < 100; turn++) await clock.advance(10_000)
    // Every 15 s, there would be 66.
    expect(creations(server) - tried).toBeLessThan(12)
    expect(creations(server) - tried).toBeGreaterThan(2)
  })
})
