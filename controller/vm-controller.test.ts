import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { completedByAnnotation, launcherPodFinalizer } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer, FakeObject, FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { createCheckTime, type CheckTime } from './check-time.ts'
import { nodeEvents } from './node.ts'
import { startVmController } from './vm-controller.ts'
import type { Engine } from './engine.ts'
import type { Pod } from './pod.ts'

const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
const pods = '/api/v1/pods'
const log = createLogger({ process: 'test', level: 'silent' })
const podName = 'virt-launcher-vm1-a1b2c3d4'

const opened: (() => Promise<unknown>)[] = []
const closeAll = async () => {
  for (const close of opened.splice(0).reverse()) await close()
}
afterEach(closeAll)

/** Completes by setting a title, refuses what is called `bad`. */
const engine: Engine = {
  presetsOf: ({ metadata }) =>
    metadata.annotations?.[completedByAnnotation] ? new Map([['default/console', 'r1']]) : undefined,
  refusals: () => [],
  unfitNodes: () => [],
  forget() {},
  complete(vm) {
    if (vm.metadata.name === 'bad') {
      const field = 'spec.domain.memory'
      return { causes: [{ rule: 'memory', field, reason: 'FieldValueRequired', message: 'a VM needs memory' }] }
    }
    const annotations = { ...vm.metadata.annotations, [completedByAnnotation]: 'by the controller' }
    const spec = { ...vm.spec, domain: { ...vm.spec.domain, title: 'completed' } }
    return { vm: { ...vm, spec, metadata: { ...vm.metadata, annotations } } }
  },
}

interface StartOptions {
  readonly leads?: boolean
  readonly engine?: Engine
  readonly isLeader?: () => boolean
  readonly isAwaited?: () => boolean
  readonly checkTime?: CheckTime
}

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  opened.push(() => server.close())
  const start = ({ leads = true, ...over }: StartOptions = {}) => {
    const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
    const events = createEventRecorder({ kube, log, component: 'virtset-controller', instance: 'c0', clock })
    const controller = startVmController({
      kube,
      engine,
      events,
      log,
      image: 'launcher:1',
      concurrency: 10,
      isAwaited: () => false,
      isLeader: () => true,
      clock,
      ...over,
    })
    if (leads) controller.lead().catch(() => {})
    const stop = async () => {
      await controller.stop()
      await events.stop()
      await kube.close()
    }
    opened.push(stop)
    return { controller, stop }
  }
  return { clock, server, start }
}

const create = (server: FakeApiServer, over: Parameters<typeof storedVm>[0] = {}) => {
  const { metadata, ...rest } = storedVm(over)
  const { resourceVersion: _, ...others } = metadata
  return server.put(vms, JSON.parse(JSON.stringify({ ...rest, metadata: others })))
}

const vm = (server: FakeApiServer, name = 'vm1') =>
  server.find(vms, 'default', name) as unknown as VirtualMachine | undefined
const pod = (server: FakeApiServer, name = podName) => server.find(pods, 'default', name)

/** What scheduler and kubelet do to a pod. */
const change = (server: FakeApiServer, object: FakeObject, spec: object, status: object = {}) =>
  server.put(pods, {
    ...object,
    spec: { ...(object['spec'] as object), ...spec },
    status: { ...(object['status'] as object), ...status },
  })

const writes = (server: FakeApiServer) =>
  server.requests
    .filter(({ method, path }) => method !== 'GET' && !path.includes('/events'))
    .map(({ method, path }) => `${method} ${path}`)

const readsOfPod = (server: FakeApiServer) =>
  server.requests.filter(({ method, path }) => method === 'GET' && path.endsWith(podName))

/** Afterwards, a pod that no cache has is read in each round. */
const readsBeforeStatus = (server: FakeApiServer) => {
  const status = server.requests.findIndex(({ method, path }) => method === 'PATCH' && path.includes('/status'))
  return readsOfPod(server).filter((read) => server.requests.indexOf(read) < status)
}

const scheduled = async (server: FakeApiServer) => {
  await until(() => pod(server) !== undefined)
  change(server, pod(server)!, { nodeName: 'n1' })
  await until(() => vm(server)?.status?.phase === 'Scheduled')
}

const markDeleted = (server: FakeApiServer) => {
  const object = server.find(vms, 'default', 'vm1')!
  server.put(vms, { ...object, metadata: { ...object.metadata, deletionTimestamp: '2030-01-01T00:01:00Z' } })
}

const conditions = (server: FakeApiServer, name = 'vm1') =>
  Object.fromEntries(
    (vm(server, name)?.status?.conditions ?? []).map(({ type, status, reason, message }) => [
      type,
      `${status} ${reason}: ${message}`,
    ]),
  )

describe('controller', () => {
  it('does not begin to lead when it is stopped in the same moment', async () => {
    const { start } = await setUp()
    const { controller } = start({ leads: false })
    await Promise.all([controller.vms, controller.pods, controller.nodes].map((cache) => cache.synced()))
    await Promise.all([expect(controller.lead()).rejects.toThrow('stopped'), controller.stop()])
    expect(controller.statistics()).toBeUndefined()
  })

  it('creates a pod again that is gone before the watch has shown it', async () => {
    const { clock, server, start } = await setUp()
    start()
    await settle()
    const watching = Promise.withResolvers<void>()
    server.fault = ({ path, query }) =>
      path === pods && query.get('watch') === 'true' ? { heldUntil: watching.promise } : undefined
    server.breakWatches('end')
    await settle()
    create(server)
    await until(() => pod(server) !== undefined)
    await settle()
    server.remove(pods, 'default', podName)
    // The pods are listed again, so no event tells of it.
    server.compact()
    server.breakWatches('expire')
    watching.resolve()
    await settle()
    expect(pod(server)).toBeUndefined()
    for (let count = 0; count < 4; count++) await clock.advance(10_000).then(() => settle())
    expect(pod(server)).toBeDefined()
  })

  it('checks VMs of a namespace that are expensive to check one after the other, and those of others meanwhile', async () => {
    const { clock, server, start } = await setUp()
    let cpuMs = 0
    const checked = new Set<string>()
    const refusals: Engine['refusals'] = ({ metadata: { namespace, name } }) => {
      if (namespace === 'default' && !checked.has(`default/${name}`)) cpuMs += 2000
      checked.add(`${namespace}/${name}`)
      return []
    }
    for (const index of [1, 2, 3])
      create(server, { metadata: { name: `large${index}`, uid: `a1b2c3d4-0000-4000-8000-00000000000${index}` } })
    start({
      engine: { ...engine, refusals },
      checkTime: createCheckTime({ cpuMs: () => cpuMs, availableMs: () => clock.monotonic() }),
    })
    const created = () => writes(server).filter((write) => /^POST .*\/pods$/.test(write)).length
    await until(() => created() === 1)
    create(server, { metadata: { namespace: 'other', name: 'small', uid: 'b1b2c3d4-0000-4000-8000-000000000001' } })
    await until(() => created() === 2)
    expect([...checked].map((key) => key.replace(/\d/, ''))).toEqual(['default/large', 'other/small'])
    await until(
      () => created() === 4,
      () => clock.advance(1000),
    )
    // After a second of CPU time, each check is paid for with four times its time.
    expect(clock.monotonic()).toBeGreaterThanOrEqual(4000 + 8000)
  })

  it('lets a VM not wait for those that were deleted before their check', async () => {
    const { clock, server, start } = await setUp()
    let cpuMs = 0
    const refusals: Engine['refusals'] = () => {
      cpuMs += 1000
      return []
    }
    const gone = Array.from({ length: 100 }, (_, index) => `gone${index}`)
    for (const [index, name] of gone.entries())
      create(server, { metadata: { name, uid: `a1b2c3d4-0000-4000-8000-${String(index).padStart(12, '0')}` } })
    const { controller } = start({
      engine: { ...engine, refusals },
      checkTime: createCheckTime({ cpuMs: () => cpuMs, availableMs: () => clock.monotonic() }),
    })
    const created = () => writes(server).filter((write) => /^POST .*\/pods$/.test(write)).length
    const isIdle = () =>
      created() > 0 && controller.statistics()?.waiting === 0 && controller.statistics()?.working === 0
    await until(isIdle)
    const before = created()
    for (const name of gone) server.remove(vms, 'default', name)
    create(server, { metadata: { name: 'last', uid: 'b1b2c3d4-0000-4000-8000-000000000001' } })
    await until(() => controller.vms.store.get('default/last') !== undefined && isIdle())
    const debtMs = 4 * (cpuMs - 1000)
    await until(
      () => created() > before,
      () => clock.advance(100),
    )
    expect(clock.monotonic() - debtMs).toBeLessThan(1000)
  })

  it('takes a VM from its creation to its end with four writes, and asks for its pod only before it lets the VM go', async () => {
    const { server, start } = await setUp()
    start()
    create(server)
    await scheduled(server)
    expect(readsOfPod(server)).toEqual([])
    expect(vm(server)!.status).toMatchObject({
      phase: 'Scheduled',
      nodeName: 'n1',
      podUID: pod(server)!.metadata.uid,
      presets: 'default/console',
      machine: 'pc-q35-10.0',
      memory: '64Mi',
      cpus: 1,
      observedGeneration: 1,
    })
    expect(vm(server)!.status?.phaseTransitionTimestamps).toEqual([
      { phase: 'Pending', time: '2030-01-01T00:00:00Z' },
      { phase: 'Scheduled', time: '2030-01-01T00:00:00Z' },
    ])
    markDeleted(server)
    await until(() => pod(server)?.metadata.deletionTimestamp !== undefined)
    expect(vm(server)).toBeDefined()
    server.remove(pods, 'default', podName)
    await until(() => vm(server) === undefined)
    expect(writes(server)).toEqual([
      'POST /api/v1/namespaces/default/pods',
      'PATCH /apis/virtset.io/v1alpha1/namespaces/default/virtualmachines/vm1/status',
      `DELETE /api/v1/namespaces/default/pods/${podName}`,
      'PATCH /apis/virtset.io/v1alpha1/namespaces/default/virtualmachines/vm1',
    ])
  })

  it('does not cache the live domain, and keeps it in the status that it writes', async () => {
    const { clock, server, start } = await setUp()
    const { controller } = start()
    create(server)
    await scheduled(server)
    const reported = { phase: 'Running', domain: { title: 'live' }, podIP: '10.0.0.1' }
    const stored = server.find(vms, 'default', 'vm1')!
    server.put(vms, { ...stored, status: { ...vm(server)!.status, ...reported } })
    change(server, pod(server)!, {}, { phase: 'Failed' })
    await until(
      () => vm(server)?.status?.phase === 'Failed',
      () => clock.advance(1000),
    )
    expect(vm(server)?.status).toMatchObject({ domain: { title: 'live' }, podIP: '10.0.0.1', cpus: 1 })
    expect(controller.vms.store.get('default/vm1')?.spec.domain.title).toBeUndefined()
    expect(controller.vms.store.get('default/vm1')?.status?.domain).toBeUndefined()
  })

  it('replaces a pod that an earlier version has created, but not named', async () => {
    const { clock, server, start } = await setUp()
    const first = start()
    create(server)
    await until(() => pod(server) !== undefined)
    await first.stop()
    const earlier = pod(server)!
    const containers = [{ ...(earlier['spec'] as Pod['spec']).containers[0], image: 'launcher:0' }]
    change(server, earlier, { nodeName: 'n1', containers })
    start()
    await until(() => pod(server)?.metadata.deletionTimestamp !== undefined)
    server.remove(pods, 'default', podName)
    await settle()
    expect([pod(server), vm(server)?.status?.reason]).toEqual([undefined, 'PodNotOwn'])
    await until(
      () => pod(server) !== undefined,
      () => clock.advance(1000),
    )
    await scheduled(server)
    expect(vm(server)?.status).toMatchObject({ podUID: pod(server)?.metadata.uid, phase: 'Scheduled' })
  })

  it('does not replace a pod that another leader has named, while the watch is late', async () => {
    const { clock, server, start } = await setUp()
    const first = start()
    create(server)
    await until(() => pod(server) !== undefined)
    await first.stop()
    const containers = [{ ...(pod(server)!['spec'] as Pod['spec']).containers[0], image: 'launcher:0' }]
    change(server, pod(server)!, { nodeName: 'n1', containers })
    server.fault = ({ method }) => (method === 'DELETE' ? { status: 403 } : undefined)
    const second = start()
    await until(() => vm(server)?.status?.reason === 'PodNotOwn')
    await second.stop()
    let leads = false
    const { controller } = start({ leads: false, isLeader: () => leads })
    await controller.vms.synced()
    const watching = Promise.withResolvers<void>()
    server.fault = ({ path, query }) =>
      path === vms && query.get('watch') === 'true' ? { heldUntil: watching.promise } : undefined
    server.breakWatches('end')
    await settle()
    const named = { phase: 'Running', nodeName: 'n1', podUID: pod(server)!.metadata.uid }
    server.put(vms, { ...server.find(vms, 'default', 'vm1')!, status: named })
    leads = true
    controller.lead().catch(() => {})
    for (let count = 0; count < 4; count++) await clock.advance(5000).then(() => settle())
    expect([pod(server)?.metadata.deletionTimestamp, vm(server)?.status]).toEqual([undefined, named])
    watching.resolve()
  })

  it.each<[string, string, string, object]>([
    ['hands over', 'its own', 'launcher:1', { phase: 'Scheduled' }],
    ['refuses', 'a foreign', 'other:1', { phase: 'Pending', reason: 'PodNotOwn' }],
  ])('%s %s pod that runs since an earlier leader ended, and reads it once', async (_does, _whose, image, expected) => {
    const { server, start } = await setUp()
    const first = start()
    create(server)
    await until(() => pod(server) !== undefined)
    await first.stop()
    const containers = [{ ...(pod(server)!['spec'] as Pod['spec']).containers[0], image }]
    change(server, pod(server)!, { nodeName: 'n1', containers }, { phase: 'Running' })
    // Its VM is cached last, so that nothing yet shows that the pod must be cached whole.
    const { promise, resolve } = Promise.withResolvers<void>()
    server.fault = ({ path }) => (path === vms ? { heldUntil: promise } : undefined)
    server.requests.length = 0
    const { controller } = start()
    await controller.pods.synced()
    resolve()
    await until(() => vm(server)?.status !== undefined)
    expect(vm(server)?.status).toMatchObject(expected)
    expect(readsBeforeStatus(server).length).toBe(1)
  })

  it('starts a VM that is too large for the cache', async () => {
    const { server, start } = await setUp()
    start()
    const volumes = [{ name: 'seed', cloudInit: { userData: 'x'.repeat(20_000) } }]
    const annotations = { [completedByAnnotation]: 'by the webhooks' }
    create(server, { metadata: { annotations }, spec: { domain: { type: 'qemu' }, volumes } })
    await scheduled(server)
    const { volumes: mounted } = pod(server)!['spec'] as { volumes: { name: string }[] }
    expect(vm(server)!.status).toMatchObject({ podUID: pod(server)!.metadata.uid, presets: 'default/console' })
    expect(vm(server)!.spec.volumes).toEqual(volumes)
    expect(mounted.length).toBeGreaterThan(0)
  })

  it('completes a VM that bypassed admission before anything starts', async () => {
    const { server, start } = await setUp()
    start()
    create(server, { metadata: { annotations: {}, finalizers: [] } })
    await until(() => pod(server) !== undefined)
    expect(vm(server)).toMatchObject({
      metadata: { annotations: { [completedByAnnotation]: 'by the controller' }, finalizers: [launcherPodFinalizer] },
      spec: { domain: { title: 'completed' } },
    })
    expect(writes(server).slice(0, 2)).toEqual([
      'PUT /apis/virtset.io/v1alpha1/namespaces/default/virtualmachines/vm1',
      'POST /api/v1/namespaces/default/pods',
    ])
  })

  it('does not start a VM that cannot be completed, reports why, and retries when presets change', async () => {
    const { clock, server, start } = await setUp()
    let isBad = true
    const moody: Engine = {
      ...engine,
      complete: (vm) => engine.complete(isBad ? vm : { ...vm, metadata: { ...vm.metadata, name: 'good' } }),
    }
    const { controller } = start({ engine: moody })
    create(server, { metadata: { name: 'bad', annotations: {} } })
    await until(() => vm(server, 'bad')?.status !== undefined)
    expect(vm(server, 'bad')!.status).toMatchObject({ phase: 'Pending', reason: 'CompletionRefused' })
    expect(conditions(server, 'bad')).toEqual({
      Completed: 'False CompletionRefused: spec.domain.memory: a VM needs memory',
      Ready: 'False NotCompleted: the VM does not start until its spec is complete',
    })
    expect(server.objects(pods)).toEqual([])
    isBad = false
    await until(() => controller.vms.store.get('default/bad')?.status?.reason === 'CompletionRefused')
    controller.reconsiderIncomplete('other')
    expect(controller.statistics()?.delayed).toBe(0)
    controller.reconsiderIncomplete('default')
    controller.reconsiderIncomplete(undefined)
    expect(controller.statistics()?.delayed).toBe(1)
    await until(
      () => server.objects(pods).length === 1,
      () => clock.advance(1000),
    )
  })

  it('makes one pass a second for a VM or pod whose labels change often, and one at once for its status', async () => {
    const { clock, server, start } = await setUp()
    const { controller } = start()
    create(server)
    await scheduled(server)
    const isIdle = () => controller.statistics()?.working === 0 && controller.statistics()?.waiting === 0
    await until(isIdle)
    await clock.advance(1000)
    await until(isIdle)
    const before = controller.statistics()?.done ?? 0
    const write = (labels: Record<string, string>, status: object = {}) => {
      const object = server.find(vms, 'default', 'vm1')!
      const { metadata } = object
      server.put(vms, {
        ...object,
        metadata: { ...metadata, labels },
        status: { ...(object['status'] as object), ...status },
      })
    }
    for (let count = 0; count < 30; count++) {
      write({ count: `${count}` })
      change(server, { ...pod(server)!, metadata: { ...pod(server)!.metadata, annotations: { count } } }, {})
    }
    await until(() => controller.vms.store.get('default/vm1')?.metadata.labels?.['count'] === '29')
    expect(controller.statistics()).toMatchObject({ done: before, waiting: 0, working: 0, delayed: 1 })
    await clock.advance(1000)
    await until(() => controller.statistics()?.done === before + 1)
    write({ count: '29' }, { phase: 'Running' })
    await until(() => (controller.statistics()?.done ?? 0) > before + 1)
  })

  it('handles other events between the checks of two VMs', async () => {
    const { server, start } = await setUp()
    const annotations = { [completedByAnnotation]: 'by the webhooks' }
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
      create(server, { metadata: { name, uid: `uid-${name}`, annotations } })
    let eventLoopTurn = 0
    let isOver = false
    const countTurns = () => {
      eventLoopTurn++
      if (!isOver) setImmediate(countTurns)
    }
    countTurns()
    const checks: { name: string; eventLoopTurn: number }[] = []
    const refusals: Engine['refusals'] = ({ metadata: { name = '' } }) => {
      checks.push({ name, eventLoopTurn })
      return [{ rule: 'reach', field: 'spec.domain', reason: 'FieldValueForbidden', message: 'not granted' }]
    }
    start({ engine: { ...engine, refusals } })
    await until(() => new Set(checks.map(({ name }) => name)).size === 7)
    isOver = true
    expect(new Set(checks.map((check) => check.eventLoopTurn)).size).toBe(checks.length)
  })

  it('copies the reason of the scheduler, and clears it when a node is found', async () => {
    const { server, start } = await setUp()
    start()
    create(server, { spec: { ...storedVm().spec, domain: { ...storedVm().spec.domain, type: 'kvm' } } })
    await until(() => pod(server) !== undefined)
    const message = '0/1 nodes are available: 1 Insufficient devices.virtset.io/kvm.'
    change(
      server,
      pod(server)!,
      {},
      { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }] },
    )
    await until(() => vm(server)?.status?.phase === 'Scheduling')
    expect(conditions(server)['PodScheduled']).toBe(
      `False Unschedulable: ${message} (type: kvm requires a node with /dev/kvm; type: qemu runs anywhere, more slowly)`,
    )
    change(server, pod(server)!, { nodeName: 'n1' })
    await until(() => vm(server)?.status?.phase === 'Scheduled')
    expect(vm(server)!.status?.reason).toBeUndefined()
    expect(conditions(server)['PodScheduled']).toBe('True Scheduled: on node n1')
    expect(vm(server)!.status?.phaseTransitionTimestamps?.map(({ phase }) => phase)).toEqual([
      'Pending',
      'Scheduling',
      'Scheduled',
    ])
  })

  it('waits for a claim, and then attaches a block claim as a device', async () => {
    const { server, clock, start } = await setUp()
    start()
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'claim1' } }]
    create(server, { spec: { ...storedVm().spec, volumes } })
    await until(() => vm(server)?.status !== undefined)
    expect(conditions(server)['PodScheduled']).toBe('False ClaimNotFound: persistentvolumeclaim "claim1" not found')
    server.put('/api/v1/persistentvolumeclaims', {
      metadata: { namespace: 'default', name: 'claim1' },
      spec: { volumeMode: 'Block' },
    })
    await until(
      () => pod(server) !== undefined,
      () => clock.advance(5000),
    )
    expect(JSON.stringify(pod(server))).toContain('"devicePath":"/var/run/virtset/block/data"')
  })

  it('names a VolumeSnapshot that is gone, and asks for none of a claim that has its volume', async () => {
    const { server, clock, start } = await setUp()
    const names = ['claim1', 'claim2', 'claim3', 'claim4']
    const putClaim = (name: string, snapshot: string, over: object, apiGroup = 'snapshot.storage.k8s.io') =>
      server.put('/api/v1/persistentvolumeclaims', {
        metadata: { namespace: 'default', name },
        spec: { dataSource: { apiGroup, kind: 'VolumeSnapshot', name: snapshot }, ...over },
      })
    putClaim('claim1', 'nightly', {})
    putClaim('claim2', 'weekly', { volumeName: 'pv1' })
    putClaim('claim3', '..', {})
    putClaim('claim4', 'monthly', {}, 'populators.example.com')
    start()
    const volumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
    create(server, { spec: { ...storedVm().spec, volumes } })
    await until(() => vm(server)?.status !== undefined)
    expect(conditions(server)['PodScheduled']).toContain(
      'False VolumeSnapshotNotFound: persistentvolumeclaim "claim1" is made from the VolumeSnapshot "nightly", which does not exist',
    )
    const snapshots = '/apis/snapshot.storage.k8s.io/v1/volumesnapshots'
    server.put(snapshots, { metadata: { namespace: 'default', name: 'nightly' } })
    await until(
      () => pod(server) !== undefined,
      () => clock.advance(5000),
    )
    const read = server.requests.filter(({ path }) => path.includes('/volumesnapshots'))
    expect(new Set(read.map(({ path }) => path.split('/').at(-1)))).toEqual(new Set(['nightly']))
  })

  it('starts a VM whose VolumeSnapshot it may not read', async () => {
    const { server, start } = await setUp()
    const dataSource = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'nightly' }
    server.put('/api/v1/persistentvolumeclaims', {
      metadata: { namespace: 'default', name: 'claim1' },
      spec: { dataSource },
    })
    server.fault = ({ path }) => {
      if (!path.includes('/volumesnapshots')) return undefined
      return { status: 403, body: { kind: 'Status', code: 403, reason: 'Forbidden', message: 'no' } }
    }
    start()
    const volumes = [{ name: 'claim1', persistentVolumeClaim: { claimName: 'claim1' } }]
    create(server, { spec: { ...storedVm().spec, volumes } })
    await until(() => pod(server) !== undefined)
    expect(server.requests.some(({ path }) => path.includes('/volumesnapshots'))).toBe(true)
  })

  it('does not use a claim of an earlier VM of its name, which is deleted with that', async () => {
    const { server, clock, start } = await setUp()
    const owner = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      name: storedVm().metadata.name,
      uid: 'old',
    }
    const claim = { namespace: 'default', name: 'claim1' }
    server.put('/api/v1/persistentvolumeclaims', { metadata: { ...claim, ownerReferences: [owner] }, spec: {} })
    start()
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'claim1' } }]
    create(server, { spec: { ...storedVm().spec, volumes } })
    await until(() => vm(server)?.status !== undefined)
    expect(conditions(server)['PodScheduled']).toContain('False ClaimTerminating: persistentvolumeclaim "claim1"')
    server.remove('/api/v1/persistentvolumeclaims', 'default', 'claim1')
    server.put('/api/v1/persistentvolumeclaims', { metadata: claim, spec: {} })
    await until(
      () => pod(server) !== undefined,
      () => clock.advance(5000),
    )
  })

  it('fails a VM whose pod disappeared after the hand-over, without a second pod', async () => {
    const { server, clock, start } = await setUp()
    start()
    create(server)
    await scheduled(server)
    server.put('/api/v1/nodes', {
      metadata: { name: 'n1' },
      status: { conditions: [{ type: 'Ready', status: 'True' }] },
    })
    server.remove(pods, 'default', podName)
    await until(() => conditions(server)['PodEnded']?.startsWith('Unknown AwaitingHandler'))
    await until(
      () => vm(server)?.status?.phase === 'Failed',
      () => clock.advance(10_000),
    )
    expect(vm(server)!.status).toMatchObject({
      reason: 'PodLost',
      message: `the launcher pod ${podName} no longer exists; a VM never gets a second one`,
    })
    await clock.advance(100_000)
    expect(server.objects(pods)).toEqual([])
  })

  it('awaits the handler also if its cache has the pod without a node', async () => {
    const { server, clock, start } = await setUp()
    server.put('/api/v1/nodes', {
      metadata: { name: 'n1' },
      status: { conditions: [{ type: 'Ready', status: 'True' }] },
    })
    const { controller } = start()
    create(server)
    await until(() => pod(server) !== undefined)
    // As an earlier leader has handed it over, whose cache was ahead of this one.
    const object = server.find(vms, 'default', 'vm1')!
    const handedOver = { phase: 'Running', nodeName: 'n1', podUID: pod(server)!.metadata.uid }
    server.put(vms, { ...object, status: { ...(object['status'] as object), ...handedOver } })
    await until(() => controller.vms.store.get('default/vm1')?.status?.nodeName === 'n1')
    server.remove(pods, 'default', podName)
    await until(
      () => vm(server)?.status?.phase === 'Failed' || conditions(server)['PodEnded'] !== undefined,
      () => clock.advance(100),
    )
    expect(conditions(server)['PodEnded']).toMatch(/^Unknown AwaitingHandler/)
    expect(vm(server)?.status?.phase).toBe('Running')
  })

  it('awaits the handler also if its cache does not have the node, because Nodes change more often than it reads', async () => {
    const { server, clock, start } = await setUp()
    const put = (name: string) =>
      server.put('/api/v1/nodes', { metadata: { name }, status: { conditions: [{ type: 'Ready', status: 'True' }] } })
    const { controller } = start()
    await controller.nodes.synced()
    for (let index = 0; index <= nodeEvents.burst; index++) put('flooding')
    put('n1')
    create(server)
    await scheduled(server)
    server.remove(pods, 'default', podName)
    await until(
      () => vm(server)?.status?.phase === 'Failed' || conditions(server)['PodEnded'] !== undefined,
      () => clock.advance(100),
    )
    expect(controller.nodes.store.get('n1')).toBeUndefined()
    expect(conditions(server)['PodEnded']).toMatch(/^Unknown AwaitingHandler/)
  })

  it('sets Unknown on VMs of a node that does not respond', async () => {
    const { server, start } = await setUp()
    const node = (status: string) =>
      server.put('/api/v1/nodes', { metadata: { name: 'n1' }, status: { conditions: [{ type: 'Ready', status }] } })
    node('True')
    start()
    create(server)
    await scheduled(server)
    const object = server.find(vms, 'default', 'vm1')!
    server.put(vms, { ...object, status: { ...(object['status'] as object), phase: 'Running' } })
    node('Unknown')
    await until(() => vm(server)?.status?.phase === 'Unknown')
    expect(conditions(server)['Ready']).toContain('Unknown NodeUnreachable: the node n1 does not respond')
  })

  it('reports that the node no longer exists', async () => {
    const { server, start } = await setUp()
    start()
    create(server)
    await scheduled(server)
    server.remove(pods, 'default', podName)
    await until(() => vm(server)?.status?.reason === 'NodeLost')
    expect(vm(server)!.status?.message).toBe(`the node n1 no longer exists, nor does the launcher pod ${podName} on it`)
  })

  it('reports why the API server refuses the pod, and retries', async () => {
    const { server, clock, start } = await setUp()
    const refusal = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota: pods' }
    server.fault = ({ method, path }) =>
      method === 'POST' && path.endsWith('/pods') ? { status: 403, body: refusal } : undefined
    start()
    create(server)
    await until(() => vm(server)?.status !== undefined)
    expect(conditions(server)['PodScheduled']).toBe('False FailedCreate: exceeded quota: pods')
    server.fault = undefined
    await until(
      () => pod(server) !== undefined,
      () => clock.advance(5000),
    )
    expect(server.objects('/api/v1/events').map((event) => event['reason'])).toContain('FailedCreate')
  })

  describe('a running VM', () => {
    async function labelled() {
      const { clock, server, start } = await setUp()
      start()
      create(server, { metadata: { labels: { app: 'old', tier: 'web' } } })
      await scheduled(server)
      const object = pod(server)!
      const labels = { ...object.metadata.labels, mesh: 'in' }
      change(server, { ...object, metadata: { ...object.metadata, labels } }, {}, { phase: 'Running' })
      const label = (labels: object) => {
        const stored = server.find(vms, 'default', 'vm1')!
        server.put(vms, { ...stored, metadata: { ...stored.metadata, labels: labels as Record<string, string> } })
      }
      const patches = () => writes(server).filter((one) => one === `PATCH /api/v1/namespaces/default/pods/${podName}`)
      const until1 = (isTrue: () => boolean) => until(isTrue, () => clock.advance(1000))
      return { server, label, patches, until: until1 }
    }
    const own = { 'virtset.io/vm-uid': storedVm().metadata.uid, 'virtset.io/vm-name': 'vm1' }

    it('passes its labels to its pod, in one write, and leaves those of others', async () => {
      const { server, label, patches, until: eventually } = await labelled()
      expect(patches()).toEqual([])
      label({ app: 'new', mesh: 'out', 'virtset.io/vm-uid': 'other' })
      await eventually(() => pod(server)?.metadata.labels?.['app'] === 'new')
      expect(pod(server)?.metadata.labels).toEqual({ ...own, app: 'new', mesh: 'in' })
      expect(pod(server)?.metadata.annotations).toEqual({ 'virtset.io/labels': '{"app":"new","mesh":null}' })
      label({})
      await eventually(() => pod(server)?.metadata.labels?.['app'] === undefined)
      expect(pod(server)?.metadata.labels).toEqual({ ...own, mesh: 'in' })
      expect(patches()).toHaveLength(2)
    })

    it('whose pod has too many labels of others reports that once, and reads it again only after a minute', async () => {
      const { server, label, patches, until: eventually } = await labelled()
      const object = pod(server)!
      const many = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`other-${index}`, 'x'.repeat(10)]))
      server.put(pods, { ...object, metadata: { ...object.metadata, labels: { ...object.metadata.labels, ...many } } })
      const before = patches().length
      for (let index = 1; index <= 5; index++) {
        label({ app: `${index}` })
        await eventually(() => vm(server)?.metadata.labels?.['app'] === `${index}`)
      }
      const events = () => server.requests.filter(({ path, method }) => method === 'POST' && path.includes('/events'))
      const failed = () => events().filter(({ body }) => JSON.stringify(body).includes('FailedRelabel'))
      await eventually(() => failed().length > 0)
      expect(failed()).toHaveLength(1)
      expect(JSON.stringify(failed()[0]?.body)).toContain('it has more than 65536 bytes of labels')
      expect(patches().length).toBe(before)
    })

    it('whose labels a policy refuses reports that, and tries again only after a minute', async () => {
      const { server, label, patches, until: eventually } = await labelled()
      const message = 'labels are fixed'
      server.fault = ({ method, path }) =>
        method === 'PATCH' && path.endsWith(podName)
          ? { status: 400, body: { status: 'Failure', code: 400, reason: '', message } }
          : undefined
      const isCounted = (count: number) => eventually(() => patches().length === count)
      label({ app: '1' })
      await isCounted(1)
      for (let index = 2; index < 6; index++) {
        label({ app: `${index}` })
        await eventually(() => vm(server)?.metadata.labels?.['app'] === `${index}`)
      }
      expect(patches()).toHaveLength(1)
      const events = () => server.requests.filter(({ body }) => JSON.stringify(body ?? '').includes(message))
      await eventually(() => events().length > 0)
      expect(JSON.stringify(events()[0]?.body)).toContain('FailedRelabel')
      server.fault = undefined
      await eventually(() => pod(server)?.metadata.labels?.['app'] === '5')
    })
  })

  it('waits to create a refused pod again, even if labels of the VM change each second, but not if its spec does', async () => {
    const { server, clock, start } = await setUp()
    let attempts = 0
    server.fault = ({ method, path }) => {
      if (method !== 'POST' || !path.endsWith('/pods')) return undefined
      attempts++
      const body = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota: pods' }
      return { status: 403, body }
    }
    const { controller } = start()
    const isIdle = () => controller.statistics()?.working === 0 && controller.statistics()?.waiting === 0
    create(server)
    await until(() => vm(server)?.status?.reason === 'FailedCreate')
    await until(() => controller.vms.store.get('default/vm1')?.status?.reason === 'FailedCreate')
    await until(isIdle)
    const write = async (label: string, generation: number) => {
      const object = server.find(vms, 'default', 'vm1')!
      server.put(vms, { ...object, metadata: { ...object.metadata, labels: { label }, generation } })
      await until(() => controller.vms.store.get('default/vm1')?.metadata.labels?.['label'] === label)
    }
    for (let second = 0; second < 20; second++) {
      await write(`${second}`, 1)
      await clock.advance(1000)
      await until(isIdle)
    }
    expect(attempts).toBeLessThanOrEqual(5)
    const before = attempts
    await write('spec', 2)
    await until(() => attempts > before)
  })

  it('retries to create a pod while its quota is being counted', async () => {
    const { server, clock, start } = await setUp()
    let conflicts = 3
    server.fault = ({ method, path }) =>
      method === 'POST' && path.endsWith('/pods') && conflicts-- > 0 ? { status: 409 } : undefined
    start()
    create(server)
    await until(
      () => pod(server) !== undefined,
      () => clock.advance(10),
    )
    expect(conflicts).toBe(-1)
  })

  it('does not touch a foreign pod with the name of the VM’s', async () => {
    const { server, start } = await setUp()
    server.put(pods, { metadata: { namespace: 'default', name: podName }, spec: { containers: [] } })
    start()
    create(server)
    await until(() => vm(server)?.status !== undefined)
    expect(conditions(server)['PodScheduled']).toBe(`False PodNameTaken: the pod ${podName} does not belong to this VM`)
    markDeleted(server)
    await until(() => vm(server) === undefined)
    expect(pod(server)).toBeDefined()
  })

  it('a VM whose pod the garbage collector orphaned keeps its name until the pod has ended', async () => {
    const { server, start } = await setUp()
    start()
    create(server)
    await scheduled(server)
    const running = pod(server)!
    markDeleted(server)
    server.put(pods, { ...running, metadata: { ...running.metadata, ownerReferences: [] } })
    await until(() => pod(server)?.metadata.deletionTimestamp !== undefined)
    expect(vm(server)).toBeDefined()
    server.remove(pods, 'default', podName)
    await until(() => vm(server) === undefined)
  })

  it('finds a pod without its label by name, and keeps its VM', async () => {
    const { server, start } = await setUp()
    start()
    create(server)
    await scheduled(server)
    const running = pod(server)!
    server.put(pods, { ...running, metadata: { ...running.metadata, ownerReferences: [], labels: {} } })
    markDeleted(server)
    await until(() => pod(server)?.metadata.deletionTimestamp !== undefined)
    expect(vm(server)).toBeDefined()
  })

  it.each([
    ['while a quota refuses another one', { status: 403, body: { kind: 'Status', code: 403, reason: 'Forbidden' } }],
    ['that its cache does not have', undefined],
  ])('hands over its pod %s', async (_how, refusal) => {
    const { server, start } = await setUp()
    const first = start()
    create(server)
    await until(() => pod(server) !== undefined)
    await first.stop()
    change(server, pod(server)!, { nodeName: 'n1' })
    const list = { kind: 'PodList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items: [] }
    server.fault = ({ method, path, query }) => {
      if (!path.endsWith('/pods')) return undefined
      if (method === 'POST') return refusal
      // An old list, and no event.
      return query.get('watch') === null ? { status: 200, body: list } : 'hang'
    }
    start()
    await until(() => vm(server)?.status !== undefined)
    expect(vm(server)?.status).toMatchObject({ phase: 'Scheduled', podUID: pod(server)!.metadata.uid })
    expect(readsBeforeStatus(server).length).toBe(1)
  })

  it('does not wait for the handler if it saw the containers of the pod end', async () => {
    const { server, start } = await setUp()
    server.put('/api/v1/nodes', { metadata: { name: 'n1' } })
    start()
    create(server)
    await scheduled(server)
    markDeleted(server)
    await until(() => pod(server)?.metadata.deletionTimestamp !== undefined)
    change(server, pod(server)!, {}, { phase: 'Failed' })
    server.remove(pods, 'default', podName)
    await until(() => vm(server) === undefined)
    expect(writes(server).filter((one) => one.endsWith('/status'))).toHaveLength(1)
  })

  it('a deleted VM stays while its owner must still observe it', async () => {
    const { server, clock, start } = await setUp()
    let isAwaited = true
    start({ isAwaited: () => isAwaited })
    create(server)
    await scheduled(server)
    markDeleted(server)
    await until(() => pod(server)?.metadata.deletionTimestamp !== undefined)
    server.remove(pods, 'default', podName)
    for (let turn = 0; turn < 5; turn++) await clock.advance(1000)
    expect(vm(server)?.metadata.deletionTimestamp).toBeDefined()
    isAwaited = false
    await until(
      () => vm(server) === undefined,
      () => clock.advance(1000),
    )
  })

  it('a VM created again while the pod of its predecessor exists waits for its end', async () => {
    const { server, clock, start } = await setUp()
    start()
    create(server)
    await scheduled(server)
    // The finalizer does not prevent this removal.
    server.remove(vms, 'default', 'vm1')
    create(server, { metadata: { uid: 'ffffffff-0000-4000-8000-000000000002' } })
    await until(() => vm(server)?.status !== undefined)
    expect(conditions(server)['PodScheduled']).toContain(`False PredecessorPodExists: the launcher pod ${podName}`)
    server.remove(pods, 'default', podName)
    await clock.advance(5000)
    await until(() => pod(server, 'virt-launcher-vm1-ffffffff') !== undefined)
    expect(vm(server)?.status?.podUID).toBeUndefined()
  })

  it('writes nothing while it does not lead', async () => {
    const { server, start } = await setUp()
    const { controller } = start({ isLeader: () => false })
    create(server)
    await until(() => (controller.statistics()?.failures ?? 0) > 0)
    expect(writes(server)).toEqual([])
  })

  const death = fc.integer({ min: 1, max: 3 })
  it('kill -9 anywhere: one pod, none after the hand-over, and the requested state in the end', async () => {
    await fc.assert(fc.asyncProperty(fc.array(death, { maxLength: 6 }), fc.boolean(), liveThrough), { numRuns: 40 })
  })
})

/**
 * Kills the controller at the given writes, counted from the last death; the request on its way takes effect or does
 * not.
 */
async function liveThrough(deaths: readonly number[], isLostAnswer: boolean): Promise<void> {
  const { server, clock, start } = await setUp()
  const left = [...deaths]
  let untilDeath = left.shift()
  let burials: Promise<unknown> = Promise.resolve()
  const created: string[] = []
  const bear = () => {
    const life = { isAlive: true }
    // Nothing comes from a dead process: it loses its leadership at once, and what it has begun ends at its next write.
    return { life, ...start({ isLeader: () => life.isAlive }) }
  }
  let current = bear()
  server.fault = ({ method, path }: FakeRequest) => {
    if (method === 'POST' && path.endsWith('/pods')) created.push(vm(server)?.status?.podUID ?? 'before hand-over')
    if (method === 'GET' || path.includes('/events') || untilDeath === undefined) return undefined
    untilDeath--
    if (untilDeath > 0) return undefined
    untilDeath = left.shift()
    const dying = current
    dying.life.isAlive = false
    burials = burials.then(dying.stop).then(() => (current = bear()))
    return isLostAnswer ? 'reset-after' : 'reset'
  }
  create(server)
  const meanwhile = () => clock.advance(1000)
  await until(() => pod(server) !== undefined, meanwhile)
  change(server, pod(server)!, { nodeName: 'n1' })
  await until(() => vm(server)?.status?.phase === 'Scheduled', meanwhile)
  markDeleted(server)
  await until(() => pod(server)?.metadata.deletionTimestamp !== undefined, meanwhile)
  expect(vm(server)).toBeDefined()
  server.remove(pods, 'default', podName)
  await until(() => vm(server) === undefined, meanwhile)
  expect(created.filter((uid) => uid !== 'before hand-over')).toEqual([])
  expect(server.objects(pods)).toEqual([])
  server.fault = undefined
  await burials
  await closeAll()
}
