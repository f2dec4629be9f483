import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { apiVersion } from '../api/object.ts'
import type { SnapshotStatus } from '../api/snapshot.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { creationsOfPasses } from '../test/creations-of-passes.ts'
import { startFakeApiServer, type FakeApiServer, type FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { startSnapshotController } from './snapshot-controller.ts'

const snapshots = '/apis/virtset.io/v1alpha1/virtualmachinesnapshots'
const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
const volumeSnapshots = '/apis/snapshot.storage.k8s.io/v1/volumesnapshots'
const log = createLogger({ process: 'test', level: 'silent' })

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const claimVolumes = [
  { name: 'root', persistentVolumeClaim: { claimName: 'root-web' } },
  { name: 'scratch', emptyDisk: { capacity: '1Gi' } },
]

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  opened.push(() => server.close())
  let isSupported = true
  /** Refuses the creation of VolumeSnapshots. */
  let refusal: { readonly message: string; readonly code: number } | undefined
  /** The next write that begins like this is based on an object that was changed meanwhile. */
  let outdated: string | undefined
  server.fault = ({ method, path }: FakeRequest) => {
    if (path === '/apis/snapshot.storage.k8s.io/v1') return { status: isSupported ? 200 : 404, body: {} }
    if (outdated !== undefined && method !== 'GET' && path.includes(outdated)) {
      outdated = undefined
      return { status: 409, body: { code: 409, reason: 'Conflict', message: 'the object has been modified' } }
    }
    if (method !== 'POST' || !path.endsWith('/volumesnapshots') || refusal === undefined) return undefined
    return { status: refusal.code, body: { ...refusal, reason: refusal.code === 403 ? 'Forbidden' : 'InternalError' } }
  }
  const snapshot = (name: string, source: object, uid = `uid-${name}`) =>
    server.put(snapshots, { metadata: { namespace: 'default', name, uid, generation: 1 }, spec: { source } })
  const { metadata, ...vm } = storedVm()
  const run = (status: object) =>
    server.put(vms, {
      ...vm,
      metadata: { ...metadata, name: 'web', finalizers: [] },
      spec: { domain: {}, volumes: claimVolumes },
      status,
    } as never)
  const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
  const events = createEventRecorder({ kube, log, component: 'c', instance: 'c0', clock })
  const cachedVms = startReflector({ kube, resource: virtualMachines, log, clock })
  const controller = startSnapshotController({ kube, events, log, isLeader: () => true, clock, vms: cachedVms })
  controller.lead().catch(() => {})
  opened.push(async () => {
    await cachedVms.stop()
    await controller.stop()
    await events.stop()
    await kube.close()
  })
  const status = (name: string): SnapshotStatus =>
    (server.find(snapshots, 'default', name)?.['status'] as SnapshotStatus | undefined) ?? {}
  const condition = (name: string, type: string) => {
    const found = status(name).conditions?.find((one) => one.type === type)
    return found && `${found.status} ${found.reason}`
  }
  const awaits = (isTrue: () => boolean) => until(isTrue, () => clock.advance(500))
  const taken = (name: string) => {
    const found = server.find(volumeSnapshots, 'default', name)
    if (found !== undefined) {
      server.put(volumeSnapshots, {
        ...found,
        status: { creationTime: '2030-01-01T00:00:05Z', readyToUse: true },
      })
    }
  }
  const has = (name: string) => server.find(volumeSnapshots, 'default', name) !== undefined
  return {
    clock,
    server,
    snapshot,
    run,
    status,
    condition,
    awaits,
    taken,
    has,
    support: (value: boolean) => (isSupported = value),
    refuse: (how: typeof refusal) => (refusal = how),
    cached: (name: string) => controller.snapshots.store.get(`default/${name}`),
    outdate: (part: string) => (outdated = part),
    isOutdated: () => outdated === undefined,
  }
}

const agent = { type: 'AgentConnected', status: 'True', reason: 'AgentConnected', message: '', lastTransitionTime: '' }
const running = { phase: 'Running', conditions: [agent] }
const vmStatus = (server: { find: (...of: [string, string, string]) => object | undefined }) =>
  JSON.stringify(server.find(vms, 'default', 'web'))

test('a guest is frozen before its claims are taken, and thawed afterwards', async () => {
  const { server, snapshot, run, status, condition, awaits, taken, has } = await setUp()
  run(running)
  snapshot('nightly', { name: 'web' })
  await awaits(() => vmStatus(server).includes('"freeze":{"id":"uid-nightly"}'))
  expect(has('nightly-root')).toBe(false)
  run({ ...running, freeze: { id: 'uid-nightly' }, frozen: { id: 'uid-nightly', state: 'Frozen' } })
  await awaits(() => has('nightly-root'))
  expect(server.find(volumeSnapshots, 'default', 'nightly-root')).toMatchObject({
    metadata: {
      labels: { 'virtset.io/snapshot': 'uid-nightly' },
      ownerReferences: [{ kind: 'VirtualMachineSnapshot', name: 'nightly', uid: 'uid-nightly' }],
    },
    spec: { source: { persistentVolumeClaimName: 'root-web' } },
  })
  taken('nightly-root')
  await awaits(() => vmStatus(server).includes('"freeze":{"id":"uid-nightly","thaw":true}'))
  expect(status('nightly').phase).toBe('InProgress')
  run({ ...running, freeze: { id: 'uid-nightly', thaw: true }, frozen: { id: 'uid-nightly', state: 'Thawed' } })
  await awaits(() => status('nightly').phase === 'Ready')
  expect([condition('nightly', 'Ready'), condition('nightly', 'Quiesced')]).toEqual([
    'True SnapshotReady',
    'True GuestFrozen',
  ])
  expect(status('nightly')).toMatchObject({ creationTime: '2030-01-01T00:00:05Z', excludedVolumes: ['scratch'] })
})

test('a snapshot includes the claims that were attached to the guest', async () => {
  const { server, snapshot, run, status, awaits } = await setUp()
  run({ phase: 'Succeeded' })
  const vm = server.find(vms, 'default', 'web')!
  const attachedVolumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data-web', readOnly: true } }]
  server.put(vms, { ...vm, spec: { ...(vm['spec'] as object), attachedVolumes } })
  snapshot('nightly', { name: 'web' })
  await awaits(() => status('nightly').volumes !== undefined)
  expect(status('nightly').volumes?.map(({ name, claimName }) => `${name} ${claimName}`)).toEqual([
    'root root-web',
    'data data-web',
  ])
})

test('the claims of a guest that has run are taken, also if the controller has not seen it run', async () => {
  const { server, snapshot, run, condition, awaits, has } = await setUp()
  server.put('/api/v1/persistentvolumeclaims', {
    metadata: { namespace: 'default', name: 'root-web', labels: { 'virtset.io/config': 'web' } },
  } as never)
  const phaseTransitionTimestamps = [{ phase: 'Running', time: '2030-01-01T00:00:00Z' }]
  run({ phase: 'Succeeded', phaseTransitionTimestamps })
  snapshot('nightly', { kind: 'VirtualMachineConfig', name: 'web' })
  await awaits(() => has('nightly-root') || condition('nightly', 'Ready') === 'False ClaimNotFilled')
  expect(has('nightly-root')).toBe(true)
})

test('is not looked at again at once if the API server keeps nothing of a change', async () => {
  const { server, snapshot, run, awaits } = await setUp()
  const { fault } = server
  let dropped = 0
  // With the CRD of the version before.
  server.fault = (request) => {
    if (request.method !== 'PATCH' || !JSON.stringify(request.body).includes('unfrozenVolumes')) return fault?.(request)
    dropped++
    return { status: 200, body: server.find(snapshots, 'default', 'nightly') }
  }
  run(running)
  const devices = { disks: [{ type: 'volume', source: { volume: 'root' }, shareable: {} }] }
  const spec = { domain: { devices }, volumes: claimVolumes }
  server.put(vms, { ...server.find(vms, 'default', 'web')!, spec })
  snapshot('nightly', { name: 'web' })
  await awaits(() => dropped > 0 && vmStatus(server).includes('"freeze":{"id":"uid-nightly"}'))
  await settle()
  const before = dropped
  await delay(200)
  expect(dropped - before).toBeLessThan(3)
})

test('the volumes and conditions of a snapshot are not cached', async () => {
  const { snapshot, run, status, awaits, taken, has, cached } = await setUp()
  run({ phase: 'Running' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => has('nightly-root'))
  await awaits(() => cached('nightly')?.status?.phase === 'InProgress')
  expect(cached('nightly')?.status).toEqual({ phase: 'InProgress' })
  taken('nightly-root')
  await awaits(() => cached('nightly')?.status?.phase === 'Ready')
  expect(cached('nightly')?.status).toEqual({ phase: 'Ready', creationTime: '2030-01-01T00:00:05Z' })
  expect(status('nightly').volumes?.length).toBe(1)
})

/** A snapshot in progress that is being deleted, and that another client holds. */
function putTerminating(server: FakeApiServer, source: string): void {
  const finalizers = ['tests.virtset.io/hold']
  const deletionTimestamp = '2030-01-01T00:00:00Z'
  const metadata = { namespace: 'default', name: 'held', uid: 'h', finalizers, deletionTimestamp }
  server.put(snapshots, { metadata, spec: { source: { name: source } }, status: { phase: 'InProgress' } })
}

test('a snapshot that is being deleted is neither read nor continued', async () => {
  const { server, snapshot, run, status, awaits } = await setUp()
  putTerminating(server, 'other')
  run({ phase: 'Running' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => status('nightly').phase === 'InProgress')
  expect(server.requests.filter(({ path }) => path.includes('/virtualmachinesnapshots/held'))).toEqual([])
})

test('snapshots of one guest are taken one after the other', async () => {
  const { snapshot, run, condition, awaits, taken, status, has } = await setUp()
  run({ phase: 'Running' })
  snapshot('one', { name: 'web' })
  snapshot('two', { name: 'web' })
  await awaits(() => has('one-root') && condition('two', 'Ready') === 'False OtherSnapshot')
  expect(has('two-root')).toBe(false)
  taken('one-root')
  await awaits(() => status('one').phase === 'Ready' && has('two-root'))
  expect(condition('two', 'Ready')).toBe('False InProgress')
})

test('the next snapshot of a guest begins once it is known whether the one before was frozen', async () => {
  const { server, snapshot, run, condition, awaits, taken, status, has } = await setUp()
  const frozen = (state: string) =>
    run({ ...running, freeze: { id: 'uid-one', thaw: state !== 'Frozen' }, frozen: { id: 'uid-one', state } })
  frozen('Frozen')
  snapshot('one', { name: 'web' })
  snapshot('two', { name: 'web' })
  await awaits(() => has('one-root') && condition('two', 'Ready') === 'False OtherSnapshot')
  taken('one-root')
  await awaits(() => vmStatus(server).includes('"freeze":{"id":"uid-one","thaw":true}'))
  frozen('Thawing')
  const passes = () => server.requests.filter(({ path }) => path.endsWith('/virtualmachinesnapshots/two')).length
  const before = passes()
  await awaits(() => passes() > before + 1)
  expect(vmStatus(server)).toContain('"freeze":{"id":"uid-one","thaw":true}')
  frozen('Thawed')
  await awaits(() => vmStatus(server).includes('"freeze":{"id":"uid-two"}'))
  expect([status('one').phase, condition('one', 'Quiesced')]).toEqual(['Ready', 'True GuestFrozen'])
})

test('snapshots that wait name the oldest one of their guest', async () => {
  const { server, run, status, awaits } = await setUp()
  // Of a guest that starts, none is begun.
  run({ phase: 'Scheduled' })
  for (const second of [9, 8, 7, 6, 5, 4, 3, 2, 1]) {
    const creationTimestamp = `2030-01-01T00:00:0${second}Z`
    const metadata = { namespace: 'default', name: `s${second}`, uid: `s${second}`, creationTimestamp }
    server.put(snapshots, { metadata, spec: { source: { name: 'web' } } })
  }
  const waiting = [2, 3, 4, 5, 6, 7, 8, 9].map((second) => `s${second}`)
  const oldest = 'the older snapshot s1 is not taken yet: see its condition Ready, or delete it'
  const messages = () => waiting.map((name) => status(name).conditions?.[0]?.message)
  await awaits(() => messages().every((message) => message === oldest))
  expect(messages()).toEqual(waiting.map(() => oldest))
})

test('a snapshot of a config without a VM does not wait for one of that VM', async () => {
  const { server, snapshot, awaits, has, condition } = await setUp()
  snapshot('one', { name: 'web' })
  await awaits(() => condition('one', 'Ready') === 'False SourceNotFound')
  server.put(configs, {
    metadata: { namespace: 'default', name: 'web', uid: 'c-1' },
    spec: { claimTemplates: [{ name: 'root', spec: {} }], template: { spec: { domain: {} } } },
  })
  snapshot('two', { kind: 'VirtualMachineConfig', name: 'web' })
  await awaits(() => has('two-root'))
  expect(condition('one', 'Ready')).toBe('False SourceNotFound')
})

test('a snapshot does not wait for one that is being deleted', async () => {
  const { server, snapshot, run, status, awaits, has } = await setUp()
  putTerminating(server, 'web')
  run({ phase: 'Running' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => has('nightly-root'))
  expect(status('held').phase).toBe('InProgress')
})

test('a config without a VM is taken as it is, with the claims of its templates', async () => {
  const { server, snapshot, condition, awaits, taken, status, has } = await setUp()
  server.put(configs, {
    metadata: { namespace: 'default', name: 'web', uid: 'c-1' },
    spec: {
      template: { spec: { domain: {}, volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'shared' } }] } },
      claimTemplates: [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }],
    },
  })
  snapshot('nightly', { kind: 'VirtualMachineConfig', name: 'web' })
  await awaits(() => has('nightly-root') && has('nightly-data'))
  taken('nightly-root')
  taken('nightly-data')
  await awaits(() => status('nightly').phase === 'Ready')
  expect([status('nightly').sourceUID, condition('nightly', 'Quiesced')]).toEqual(['c-1', 'True NotRunning'])
  expect(status('nightly').volumes).toEqual([
    { name: 'data', claimName: 'shared', volumeSnapshotName: 'nightly-data' },
    { name: 'root', claimName: 'root-web', volumeSnapshotName: 'nightly-root' },
  ])
})

test('a claim that no VM has filled yet is not taken', async () => {
  const { server, snapshot, run, condition, awaits, has } = await setUp()
  const claim = (annotations: object) =>
    server.put('/api/v1/persistentvolumeclaims', {
      metadata: { namespace: 'default', name: 'root-web', labels: { 'virtset.io/config': 'web' }, annotations },
    } as never)
  claim({})
  // Its launcher failed before the claim was filled.
  run({ phase: 'Failed' })
  snapshot('nightly', { kind: 'VirtualMachineConfig', name: 'web' })
  await awaits(() => condition('nightly', 'Ready') === 'False ClaimNotFilled')
  expect(has('nightly-root')).toBe(false)
  claim({ 'virtset.io/filled': '2030-01-01T00:00:00Z' })
  await awaits(() => has('nightly-root'))
})

test('a guest that runs only between two looks at its config is noticed', async () => {
  const { server, snapshot, run, condition, awaits, has } = await setUp()
  server.put(configs, {
    metadata: { namespace: 'default', name: 'web', uid: 'c-1' },
    spec: { template: { spec: { domain: {}, volumes: claimVolumes } } },
  })
  snapshot('nightly', { kind: 'VirtualMachineConfig', name: 'web' })
  await awaits(() => has('nightly-root'))
  // The clock stands still: once no request follows, nothing but the event of the VM causes a look.
  let [known, unchanged] = [0, 0]
  await until(() => {
    unchanged = server.requests.length === known ? unchanged + 1 : 0
    known = server.requests.length
    return unchanged > 10
  })
  run({ phase: 'Scheduled' })
  await until(() => condition('nightly', 'Quiesced') !== 'True NotRunning')
  expect(condition('nightly', 'Quiesced')).toBe('False GuestStarted')
})

test('a cluster without VolumeSnapshots gets them later', async () => {
  const { snapshot, run, condition, awaits, has, support } = await setUp()
  support(false)
  run({ phase: 'Running' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => condition('nightly', 'Ready') === 'False VolumeSnapshotsUnsupported')
  expect(has('nightly-root')).toBe(false)
  support(true)
  await awaits(() => has('nightly-root'))
})

test.each([
  [403, 'exceeded quota: snapshots'],
  [500, 'failed calling webhook "validation.example.com"'],
])('a VolumeSnapshot refused with %d is reported, and created once it is accepted', async (code, message) => {
  const { snapshot, run, status, condition, awaits, has, refuse } = await setUp()
  refuse({ code, message })
  run({ phase: 'Running' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => condition('nightly', 'Ready') === 'False FailedCreate')
  expect(status('nightly').conditions?.find(({ type }) => type === 'Ready')?.message).toBe(
    `the VolumeSnapshot nightly-root could not be created: ${message}`,
  )
  refuse(undefined)
  await awaits(() => has('nightly-root'))
})

test('a VolumeSnapshot of another client is not used', async () => {
  const { server, snapshot, run, status, condition, awaits } = await setUp()
  server.put(volumeSnapshots, { metadata: { namespace: 'default', name: 'nightly-root' }, spec: { source: {} } })
  run({ phase: 'Running' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => status('nightly').phase === 'Failed')
  expect(condition('nightly', 'Ready')).toBe('False NameTaken')
})

test.each([
  [
    'belongs to a deleted snapshot of its name',
    { ownerReferences: [{ apiVersion, kind: 'VirtualMachineSnapshot', name: 'nightly', uid: 'uid-old' }] },
  ],
  ['is being deleted', { deletionTimestamp: '2030-01-01T00:00:00Z', finalizers: ['a/b'] }],
])('the guest is frozen only after a VolumeSnapshot that %s is gone', async (_, metadata) => {
  const { clock, server, snapshot, run, condition, awaits } = await setUp()
  server.put(volumeSnapshots, {
    metadata: { namespace: 'default', name: 'nightly-root', ...metadata },
    spec: { source: { persistentVolumeClaimName: 'root-web' } },
  })
  run(running)
  snapshot('nightly', { name: 'web' })
  await awaits(() => condition('nightly', 'Ready') === 'False OldVolumeSnapshot')
  // Longer than a guest has time to be frozen.
  for (let seconds = 0; seconds < 60; seconds++) await clock.advance(1000)
  expect(vmStatus(server)).not.toContain('freeze')
  server.remove(volumeSnapshots, 'default', 'nightly-root')
  await awaits(() => vmStatus(server).includes('"freeze":{"id":"uid-nightly"}'))
  expect(condition('nightly', 'Quiesced')).toBe(undefined)
})

test('the VolumeSnapshots of a snapshot are read only when nothing else makes it wait', async () => {
  const { clock, server, snapshot, run, condition, awaits } = await setUp()
  const paths = () => server.requests.map(({ method, path }) => `${method} ${path}`)
  run({ ...running, phase: 'Scheduled' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => condition('nightly', 'Ready') === 'False SourceStarting')
  const looks = () => paths().filter((path) => path.endsWith('/virtualmachinesnapshots/nightly')).length
  const before = looks()
  await until(
    () => looks() > before + 2,
    () => clock.advance(5000),
  )
  expect(paths().filter((path) => path.includes('/volumesnapshots/'))).toEqual([])
  run(running)
  await until(
    () => vmStatus(server).includes('"freeze":{"id":"uid-nightly"}'),
    () => clock.advance(5000),
  )
  expect(paths().some((path) => path.startsWith('GET') && path.endsWith('/volumesnapshots/nightly-root'))).toBe(true)
})

test('a VolumeSnapshot that is never gone does not hold up the later snapshots of the VM', async () => {
  const { clock, server, snapshot, run, status, condition, awaits } = await setUp()
  server.put(volumeSnapshots, {
    metadata: {
      namespace: 'default',
      name: 'nightly-root',
      deletionTimestamp: '2030-01-01T00:00:00Z',
      finalizers: ['a', 'b', 'c', 'd', 'e'].map((name) => `storage/${name}`),
    },
    spec: { source: { persistentVolumeClaimName: 'root-web' } },
  })
  snapshot('nightly', { name: 'web' })
  await awaits(() => condition('nightly', 'Ready') === 'False SourceNotFound')
  // That it has waited for its VM does not count.
  for (let minutes = 0; minutes < 15; minutes++) await clock.advance(60_000)
  run(running)
  await until(
    () => condition('nightly', 'Ready') !== 'False SourceNotFound',
    () => clock.advance(5000),
  )
  expect(condition('nightly', 'Ready')).toBe('False OldVolumeSnapshot')
  snapshot('weekly', { name: 'web' })
  await until(
    () => vmStatus(server).includes('"freeze":{"id":"uid-weekly"}'),
    () => clock.advance(5000),
  )
  const ready = status('nightly').conditions?.find(({ type }) => type === 'Ready')
  expect(ready).toMatchObject({
    reason: 'NameTaken',
    message: expect.stringContaining('(held by storage/a, storage/b, storage/c, storage/d)'),
  })
})

test('a guest is thawed although its VM is changed while that is requested', async () => {
  const { server, snapshot, run, status, awaits, taken, has, outdate, isOutdated } = await setUp()
  run({ ...running, freeze: { id: 'uid-nightly' }, frozen: { id: 'uid-nightly', state: 'Frozen' } })
  snapshot('nightly', { name: 'web' })
  await awaits(() => has('nightly-root'))
  outdate('/virtualmachines/web/')
  taken('nightly-root')
  await awaits(isOutdated)
  await awaits(() => vmStatus(server).includes('"thaw":true'))
  expect(status('nightly').phase).toBe('InProgress')
})

test('is looked at once, however often labels of it change', async () => {
  const { server, snapshot, run, status, awaits } = await setUp()
  run({ ...running, phase: 'Scheduled' })
  snapshot('nightly', { name: 'web' })
  await awaits(() => status('nightly').phase !== undefined)
  const reads = () => server.requests.filter(({ path }) => path.endsWith('/virtualmachinesnapshots/nightly')).length
  const before = reads()
  const stored = server.find(snapshots, 'default', 'nightly')!
  for (let count = 0; count < 20; count++) {
    server.put(snapshots, { ...stored, metadata: { ...stored.metadata, labels: { count: String(count) } } })
    await settle()
  }
  await awaits(() => reads() > before)
  expect(reads()).toBe(before + 1)
})

test.each([
  ['2 s', { phase: 'Running' }, [2, 2, 2, 2]],
  [
    '5 s of a frozen guest',
    { ...running, freeze: { id: 'uid-nightly' }, frozen: { id: 'uid-nightly', state: 'Frozen' } },
    [5, 3],
  ],
])('slow creations are left to the next pass after %s', async (_, vmState, expected) => {
  const { clock, server, snapshot, run, status, awaits, taken, has } = await setUp()
  run(vmState)
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  const volumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
  server.put(vms, { ...server.find(vms, 'default', 'web')!, spec: { domain: {}, volumes } })
  const { fault } = server
  server.fault = (request) =>
    request.method === 'POST' && request.path.endsWith('/volumesnapshots')
      ? { heldUntil: clock.advance(1000) }
      : fault?.(request)
  snapshot('nightly', { name: 'web' })
  // The clock moves only with creations: no pass waits for it.
  await until(() => names.every((name) => has(`nightly-${name}`)))
  const isPass = ({ method, path }: FakeRequest) =>
    method === 'GET' && path.endsWith('/virtualmachinesnapshots/nightly')
  expect(creationsOfPasses(server, isPass, '/volumesnapshots')).toEqual(expected)
  expect(vmStatus(server)).not.toContain('"thaw":true')
  for (const name of names) taken(`nightly-${name}`)
  await awaits(() => status('nightly').phase === 'Ready' || vmStatus(server).includes('"thaw":true'))
})

test('the VolumeSnapshots of a snapshot are read four at a time', async () => {
  const { server, snapshot, run, status, awaits, taken, has } = await setUp()
  run({ phase: 'Running' })
  const names = Array.from({ length: 10 }, (_, index) => `claim-${index}`)
  const volumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
  server.put(vms, { ...server.find(vms, 'default', 'web')!, spec: { domain: {}, volumes } })
  const { fault } = server
  let reading = 0
  let most = 0
  server.fault = (request) => {
    if (request.method !== 'GET' || !request.path.includes('/volumesnapshots/')) return fault?.(request)
    reading++
    most = Math.max(most, reading)
    return { heldUntil: delay(20).then(() => void reading--) }
  }
  snapshot('nightly', { name: 'web' })
  await awaits(() => names.every((name) => has(`nightly-${name}`)))
  for (const name of names) taken(`nightly-${name}`)
  await awaits(() => status('nightly').phase === 'Ready')
  expect(most).toBe(4)
})
