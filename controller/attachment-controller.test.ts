import { afterEach, expect, test } from 'vitest'
import type { AttachmentPod } from '../api/attached-volume.ts'
import type { VirtualMachine, VirtualMachineStatus } from '../api/virtual-machine.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { creationsOfPasses } from '../test/creations-of-passes.ts'
import { startFakeApiServer, type FakeObject, type FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { startAttachmentController } from './attachment-controller.ts'
import { attachedToLabel, attachmentPodName } from './attachment-pod.ts'
import { claimKeysOf } from './claim-rival.ts'
import { vmUidLabel } from './launcher-pod.ts'
import { pods } from './pod.ts'
import type { Pod } from './pod.ts'

const vmsPath = '/apis/virtset.io/v1alpha1/virtualmachines'
const podsPath = '/api/v1/pods'
const claimsPath = '/api/v1/persistentvolumeclaims'
const podName = attachmentPodName(storedVm(), 'data')
const log = createLogger({ process: 'test', level: 'silent' })
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const ended = { phase: 'Failed', containerStatuses: [{ name: 'volume', state: { terminated: { exitCode: 1 } } }] }

/** A cluster with a running VM to which the claim `data` is attached, and the claim. */
async function setUp(ofClaim: object = {}, isScheduling = true) {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  closing.push(() => server.close())
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  closing.push(() => kube.close())
  const { metadata, ...rest } = storedVm({
    spec: { ...storedVm().spec, attachedVolumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] },
    status: { phase: 'Running', nodeName: 'n1', podUID: 'launcher' },
  })
  const { resourceVersion: _version, ...others } = metadata
  const put = (over: object = {}) =>
    server.put(vmsPath, JSON.parse(JSON.stringify({ ...rest, ...over, metadata: others })) as FakeObject)
  put()
  const storage = { resources: { requests: { storage: '1Gi' } } }
  server.put(claimsPath, { metadata: { namespace: 'default', name: 'data', ...ofClaim }, spec: storage })
  const vms = startReflector({
    kube,
    resource: virtualMachines,
    log,
    clock,
    indexers: { uid: ({ metadata: { uid } }: VirtualMachine) => [uid ?? ''], claim: claimKeysOf },
  })
  const launchers = startReflector({
    kube,
    resource: pods,
    log,
    clock,
    labelSelector: vmUidLabel,
    indexers: { vm: ({ metadata: { labels } }: Pod) => [labels?.[vmUidLabel] ?? ''] },
  })
  // A scheduler.
  const scheduled = startReflector({ kube, resource: pods, log, clock, labelSelector: attachedToLabel, indexers: {} })
  scheduled.onChange(({ kind, object }) => {
    const one = server.find(podsPath, 'default', object.metadata.name)
    const spec = one?.['spec'] as Pod['spec'] | undefined
    if (!isScheduling || kind === 'deleted' || one === undefined || spec?.nodeName !== undefined) return
    server.put(podsPath, { ...one, spec: { ...spec, nodeName: 'n1' } })
  })
  const events: string[] = []
  const controller = startAttachmentController({
    kube,
    vms,
    pods: launchers,
    image: 'launcher:1',
    log,
    clock,
    isLeader: () => true,
    events: { record: ({ reason }) => void events.push(reason) },
  })
  closing.push(() => Promise.all([controller.stop(), vms.stop(), launchers.stop(), scheduled.stop()]))
  await controller.lead()
  const vm = () => server.find(vmsPath, 'default', 'vm1')
  const status = () => (vm()?.['status'] ?? {}) as VirtualMachineStatus
  const entry = (): AttachmentPod | undefined => status().attachmentPods?.[0]
  const pod = () => server.find(podsPath, 'default', podName)
  const isDeleted = () => pod() === undefined || pod()?.metadata.deletionTimestamp !== undefined
  /** Its containers end, and it is removed. */
  const end = () => {
    server.put(podsPath, { ...pod()!, status: ended })
    server.remove(podsPath, 'default', podName)
  }
  const writes = () => server.requests.filter(({ method }) => method !== 'GET').length
  return { clock, server, put, vm, status, entry, pod, isDeleted, end, writes, events, vms, controller }
}

test('a claim gets a pod, which is named in the status, and deleted once the disk is detached', async () => {
  const { server, put, status, entry, pod, isDeleted, writes } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  expect(pod()).toMatchObject({
    metadata: { labels: { 'virtset.io/attached-to': storedVm().metadata.uid } },
    spec: { containers: [{ image: 'launcher:1' }] },
  })
  expect(entry()?.podUID).toBe(pod()?.metadata.uid)
  const before = writes()
  // The controller writes nothing because the kubelet has written.
  server.put(podsPath, { ...pod()!, status: { phase: 'Running' } })
  put({ status: { ...status(), attachedVolumes: [{ name: 'data', claimName: 'data', phase: 'Attached' }] } })
  put({
    status: { ...status(), attachedVolumes: [{ name: 'data', claimName: 'data', phase: 'Attached' }] },
    spec: { domain: {} },
  })
  await settle()
  expect([writes(), isDeleted()]).toEqual([before, false])
  put({ status: { ...status(), attachedVolumes: undefined }, spec: { domain: {} } })
  await until(isDeleted)
})

test('a pod that is gone is replaced when the handler confirms that it has ended', async () => {
  const { server, put, status, entry, pod, events } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const first = entry()?.podUID
  server.put(podsPath, { ...pod()!, spec: { ...(pod()!['spec'] as object), nodeName: 'n1' } })
  server.remove(podsPath, 'default', podName)
  await until(() => entry()?.missing === true && events.length > 0)
  expect([pod(), events]).toEqual([undefined, ['PodMissing']])
  const confirmed = { name: 'data', claimName: 'data', phase: 'Attached', endedPodUID: first }
  put({ status: { ...status(), attachedVolumes: [confirmed] } })
  await until(() => entry()?.podUID !== undefined && entry()?.podUID !== first)
  expect(entry()?.missing).toBeUndefined()
})

test('a pod whose end was seen is replaced at once', async () => {
  const { server, entry, pod } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const first = entry()?.podUID
  server.put(podsPath, {
    ...pod()!,
    spec: { ...(pod()!['spec'] as object), nodeName: 'n1' },
    status: ended,
  })
  await until(() => entry()?.reason === 'PodTerminating')
  // The kubelet removes it once its containers have ended.
  server.remove(podsPath, 'default', podName)
  await until(() => entry()?.podUID !== undefined && entry()?.podUID !== first)
  expect(entry()?.missing).toBeUndefined()
})

test('a refused pod is reported, and created when it is accepted', async () => {
  const { clock, server, entry, end, events } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  let isRefused = true
  server.fault = ({ method, path }) =>
    isRefused && method === 'POST' && path.endsWith('/pods')
      ? { status: 403, body: { code: 403, reason: 'Forbidden', message: 'exceeded quota' } }
      : undefined
  end()
  await until(() => entry()?.reason === 'FailedCreate')
  expect([entry()?.message, events.at(-1)]).toEqual(['exceeded quota', 'FailedCreate'])
  isRefused = false
  await until(
    () => entry()?.podUID !== undefined,
    () => clock.advance(5000),
  )
  expect(entry()?.reason).toBeUndefined()
})

test('a claim of a config is attached once it is filled', async () => {
  const { clock, server, entry, pod } = await setUp({ labels: { 'virtset.io/config': 'x' } })
  await until(() => entry()?.reason === 'ClaimNotFilled')
  expect(pod()).toBe(undefined)
  const claim = server.find(claimsPath, 'default', 'data')!
  server.put(claimsPath, { ...claim, metadata: { ...claim.metadata, annotations: { 'virtset.io/filled': 'now' } } })
  await until(
    () => pod() !== undefined,
    () => clock.advance(10_000),
  )
})

test('a pod is named once it has a node, together with its claim', async () => {
  const { server, entry, pod } = await setUp({}, false)
  await until(() => pod() !== undefined && entry() !== undefined)
  await settle()
  expect(entry()?.podUID).toBeUndefined()
  server.put(podsPath, { ...pod()!, spec: { ...(pod()!['spec'] as object), nodeName: 'n1' } })
  await until(() => entry()?.podUID !== undefined)
  expect(entry()?.claimUID).toBe(server.find(claimsPath, 'default', 'data')?.metadata.uid)
})

const attached = [{ name: 'data', claimName: 'data', phase: 'Attached' as const }]

/** The guest of the VM has a disk, whose claim is deleted, and created again under its name. */
async function setUpReplaced() {
  const own = await setUp()
  const { clock, server, put, status, entry, end } = own
  await until(() => entry()?.podUID !== undefined)
  put({ status: { ...status(), attachedVolumes: attached } })
  await settle()
  const { metadata, ...claim } = server.find(claimsPath, 'default', 'data')!
  server.remove(claimsPath, 'default', 'data')
  end()
  await until(() => entry()?.reason === 'ClaimNotFound')
  server.put(claimsPath, { ...claim, metadata: { namespace: 'default', name: 'data' } })
  await until(
    () => entry()?.reason === 'ClaimReplaced',
    () => clock.advance(5000),
  )
  return { ...own, replaced: metadata }
}

test('a guest that has a disk gets no pod of another claim with the name', async () => {
  const { entry, pod, events, replaced } = await setUpReplaced()
  // It is recorded after the status is written.
  await until(() => events.at(-1) === 'ClaimReplaced')
  expect([entry()?.claimUID, pod()]).toEqual([replaced.uid, undefined])
})

/** Another VM of the cluster that is to get the claim, too. */
function addRival(
  server: Awaited<ReturnType<typeof setUp>>['server'],
  creationTimestamp: string,
  more: VirtualMachineStatus = {},
) {
  const { metadata, ...rest } = storedVm({
    metadata: { name: 'vm2', uid: 'a1b2c3d4-0000-4000-8000-000000000002', creationTimestamp },
    spec: { ...storedVm().spec, attachedVolumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] },
    status: { phase: 'Running', nodeName: 'n2', podUID: 'launcher2', ...more },
  })
  const { resourceVersion: _version, ...others } = metadata
  server.put(vmsPath, JSON.parse(JSON.stringify({ ...rest, metadata: others })) as FakeObject)
  const status = () => (server.find(vmsPath, 'default', 'vm2')?.['status'] ?? {}) as VirtualMachineStatus
  return {
    entry: (): AttachmentPod | undefined => status().attachmentPods?.[0],
    pod: () => server.find(podsPath, 'default', attachmentPodName({ metadata, ...rest }, 'data')),
  }
}

test('a claim that a guest has is not attached to another VM, also while its pod is replaced', async () => {
  const { clock, server, put, status, entry, pod, end } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  put({ status: { ...status(), attachedVolumes: attached } })
  // An older VM does not take it away.
  const rival = addRival(server, '2029-01-01T00:00:00Z')
  await until(() => rival.entry()?.reason === 'ClaimInUse')
  const first = entry()?.podUID
  let isRefused = true
  server.fault = ({ method, path }) =>
    isRefused && method === 'POST' && path.endsWith('/pods')
      ? { status: 403, body: { code: 403, reason: 'Forbidden', message: 'exceeded quota' } }
      : undefined
  end()
  await until(() => entry()?.reason === 'FailedCreate')
  for (let count = 0; count < 4; count++) await clock.advance(10_000).then(() => settle())
  expect([rival.entry()?.reason, rival.pod(), pod()]).toEqual(['ClaimInUse', undefined, undefined])
  isRefused = false
  await until(
    () => entry()?.podUID !== undefined && entry()?.podUID !== first,
    () => clock.advance(5000),
  )
  expect(rival.pod()).toBeUndefined()
  put({ status: { ...status(), attachedVolumes: undefined }, spec: { domain: {} } })
  await until(() => pod()?.metadata.deletionTimestamp !== undefined || pod() === undefined)
  end()
  await until(
    () => rival.entry()?.podUID !== undefined,
    () => clock.advance(5000),
  )
  expect(rival.entry()?.reason).toBeUndefined()
})

test('a claim that was created again is attached to another VM, while a guest has the disk of the one before', async () => {
  const { clock, server } = await setUpReplaced()
  const rival = addRival(server, '2031-01-01T00:00:00Z')
  await until(() => rival.entry()?.podUID !== undefined)
  const named = rival.entry()
  for (let count = 0; count < 4; count++) await clock.advance(5000).then(() => settle())
  expect([rival.entry(), rival.pod()?.metadata.deletionTimestamp]).toEqual([named, undefined])
})

test.each([
  ['older', '2029-01-01T00:00:00Z'],
  ['younger', '2031-01-01T00:00:00Z'],
])('of two VMs that ask at the same time, one gets the claim, also if the other is %s', async (_, created) => {
  const { clock, server, entry, pod } = await setUp({}, false)
  await until(() => pod() !== undefined && entry() !== undefined)
  const rival = addRival(server, created)
  await until(() => rival.entry() !== undefined)
  const schedule = () => {
    for (const one of [pod(), rival.pod()])
      if (one !== undefined && (one['spec'] as Pod['spec']).nodeName === undefined)
        server.put(podsPath, { ...one, spec: { ...(one['spec'] as object), nodeName: 'n1' } })
  }
  const states = () => [entry(), rival.entry()].map((one) => one?.reason ?? typeof one?.podUID).toSorted()
  await until(
    () => states().join() === 'ClaimInUse,string',
    () => {
      schedule()
      return clock.advance(1000)
    },
    { deadlineMs: 20_000, describe: () => states().join() },
  )
  await clock.advance(10_000)
  await settle()
  expect(states()).toEqual(['ClaimInUse', 'string'])
})

/** The watches of a collection deliver nothing until the result is called. */
function delayWatches(server: Awaited<ReturnType<typeof setUp>>['server'], collection: string) {
  const { promise, resolve } = Promise.withResolvers<void>()
  const others = server.fault
  server.fault = (request) =>
    request.path === collection && request.query.get('watch') === 'true' ? { heldUntil: promise } : others?.(request)
  server.breakWatches('end')
  return resolve
}

test('a pod is not named while the watch may not have delivered that of another VM', async () => {
  const { clock, server, entry, pod, end, isDeleted } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const first = entry()?.podUID
  let isRefused = true
  server.fault = ({ method, path }) =>
    isRefused && method === 'POST' && path.endsWith('/pods')
      ? { status: 403, body: { code: 403, reason: 'Forbidden', message: 'exceeded quota' } }
      : undefined
  end()
  await until(() => entry()?.reason === 'FailedCreate')
  await settle()
  const deliver = delayWatches(server, vmsPath)
  // An earlier leader has named a pod of it.
  const other = { name: 'data', claimName: 'data', podName: 'p2', podUID: 'p2', claimUID: 'x' }
  addRival(server, '2031-01-01T00:00:00Z', { attachmentPods: [other] })
  isRefused = false
  await until(
    () => pod() !== undefined && pod()?.metadata.uid !== first && entry()?.reason === undefined,
    () => clock.advance(5000),
  )
  for (let count = 0; count < 4; count++) await clock.advance(1000).then(() => settle())
  expect(entry()?.podUID).toBeUndefined()
  deliver()
  await until(
    () => entry()?.reason === 'ClaimInUse',
    () => clock.advance(1000),
  )
  await until(isDeleted)
  expect(entry()?.podUID).toBeUndefined()
})

test('the pod of a VM that has ended is deleted before the watch has delivered it', async () => {
  const { clock, server, entry } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const deliver = delayWatches(server, podsPath)
  const labels = { [attachedToLabel]: 'a1b2c3d4-0000-4000-8000-000000000002' }
  const spec = { nodeName: 'n2', containers: [] }
  const { metadata } = server.put(podsPath, { metadata: { namespace: 'default', name: 'p2', labels }, spec })
  const named = { name: 'data', claimName: 'other', podName: 'p2', podUID: metadata.uid!, claimUID: 'x' }
  const rival = addRival(server, '2031-01-01T00:00:00Z', { phase: 'Succeeded', attachmentPods: [named] })
  await until(
    () => server.find(podsPath, 'default', 'p2')?.metadata.deletionTimestamp !== undefined,
    () => clock.advance(100),
  )
  expect(rival.entry()?.podUID).toBe(metadata.uid)
  deliver()
  server.remove(podsPath, 'default', 'p2')
  await until(
    () => rival.entry() === undefined,
    () => clock.advance(1000),
  )
})

test('the claim of a pod that an earlier version has named is noted', async () => {
  const { put, server, status, entry } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const { claimUID: _, ...before } = entry()!
  put({ status: { ...status(), attachmentPods: [before] } })
  await until(() => entry()?.claimUID !== undefined)
  expect(entry()?.claimUID).toBe(server.find(claimsPath, 'default', 'data')?.metadata.uid)
})

test('a pod that was never scheduled is replaced at once only if its deletion was observed', async () => {
  const { server, clock, put, status, entry, pod, vms, controller } = await setUp({}, false)
  await until(() => pod() !== undefined && entry() !== undefined)
  // As earlier versions did.
  const name = async () => {
    put({ status: { ...status(), attachmentPods: [{ ...entry()!, podUID: pod()!.metadata.uid }] } })
    // A pass that does not know it yet would forget that the pod has ended.
    await until(() => {
      const { waiting = 0, working = 0 } = controller.statistics() ?? {}
      const named = vms.store.get('default/vm1')?.status?.attachmentPods?.[0]?.podUID
      return waiting + working === 0 && named === pod()?.metadata.uid
    })
  }
  await name()
  const first = pod()?.metadata.uid
  server.remove(podsPath, 'default', podName)
  await until(() => pod() !== undefined && pod()?.metadata.uid !== first)
  // Meanwhile it can have been scheduled.
  await name()
  server.breakWatches('expire')
  server.remove(podsPath, 'default', podName)
  server.compact()
  await until(
    () => entry()?.missing === true,
    () => clock.advance(800),
  )
  expect(pod()).toBeUndefined()
})

test('a refused pod does not keep the pod of another volume from being deleted', async () => {
  const { server, put, status, entry, isDeleted, end } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  server.put(claimsPath, {
    metadata: { namespace: 'default', name: 'other' },
    spec: { resources: { requests: { storage: '1Gi' } } },
  })
  server.fault = ({ method, path }) =>
    method === 'POST' && path.endsWith('/pods')
      ? { status: 403, body: { code: 403, reason: 'Forbidden', message: 'exceeded quota' } }
      : undefined
  const attachedVolumes = [{ name: 'other', persistentVolumeClaim: { claimName: 'other' } }]
  put({ spec: { ...storedVm().spec, attachedVolumes }, status: status() })
  await until(isDeleted)
  await until(() => status().attachmentPods?.some(({ reason }) => reason === 'FailedCreate') === true)
  end()
  await until(() => status().attachmentPods?.length === 1)
  expect(status().attachmentPods?.map(({ name }) => name)).toEqual(['other'])
})

test('a refused pod is not created again before its time, however often labels of the VM change', async () => {
  const { clock, server, entry, end, put, status } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  server.fault = ({ method, path }) =>
    method === 'POST' && path.endsWith('/pods')
      ? { status: 403, body: { code: 403, reason: 'Forbidden', message: 'exceeded quota' } }
      : undefined
  const creations = () =>
    server.requests.filter(({ method, path }) => method === 'POST' && path.endsWith('/pods')).length
  end()
  await until(() => entry()?.reason === 'FailedCreate')
  const before = creations()
  for (let count = 0; count < 5; count++) {
    put({ status: status() })
    await settle()
    await clock.advance(1000)
  }
  expect(creations()).toBe(before)
  await until(
    () => creations() > before,
    () => clock.advance(5000),
  )
})

test('a pod that differs each time is not created again at once', async () => {
  const { clock, server, entry, isDeleted, end } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const creations = () =>
    server.requests.filter(({ method, path }) => method === 'POST' && path.endsWith('/pods')).length
  const before = creations()
  const foreign = { namespace: 'default', name: podName, labels: { [attachedToLabel]: storedVm().metadata.uid } }
  end()
  server.put(podsPath, { metadata: foreign, spec: { containers: [] } })
  // It is deleted in the same pass.
  await until(() => ['PodNotOwn', 'PodTerminating'].includes(entry()?.reason ?? ''))
  await until(isDeleted)
  server.remove(podsPath, 'default', podName)
  await settle()
  await clock.advance(1000)
  expect(creations()).toBe(before)
  await until(
    () => entry()?.podUID !== undefined,
    () => clock.advance(5000),
  )
})

test('a pod of another client with its name is reported', async () => {
  const { server, entry, end } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  end()
  server.put(podsPath, { metadata: { namespace: 'default', name: podName }, spec: { containers: [] } })
  await until(() => entry()?.reason === 'PodNameTaken')
  expect(entry()?.message).toBe(`the pod ${podName} does not belong to this VM`)
})

test('the pods of a VM that has ended are deleted, and forgotten', async () => {
  const { server, put, status, entry, isDeleted } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  put({ status: { ...status(), phase: 'Succeeded' } })
  await until(isDeleted)
  server.remove(podsPath, 'default', podName)
  await until(() => status().attachmentPods === undefined)
  expect(status().phase).toBe('Succeeded')
})

test('slow creations are left to the next pass, also if pods are refused', async () => {
  const { clock, server, put, status, entry, isDeleted, end } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  for (const name of names) {
    const metadata = { namespace: 'default', name }
    server.put(claimsPath, { metadata, spec: { resources: { requests: { storage: '1Gi' } } } })
  }
  const refusal = { code: 403, reason: 'Forbidden', message: 'exceeded quota' }
  const refused = ['a', 'b', 'c'].map((name) => attachmentPodName(storedVm(), name))
  server.fault = ({ method, path, body }) => {
    if (method !== 'POST' || !path.endsWith('/pods')) return undefined
    const heldUntil = clock.advance(1000)
    return refused.includes((body as Pod).metadata.name ?? '')
      ? { heldUntil, status: 403, body: refusal }
      : { heldUntil }
  }
  const before = server.requests.length
  const attachedVolumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
  put({ spec: { ...storedVm().spec, attachedVolumes }, status: status() })
  await until(isDeleted)
  end()
  const entries = () =>
    (status().attachmentPods ?? []).map(({ name, podUID, reason }) => [name, reason ?? typeof podUID])
  const outcomes = names.map((name) => [name, ['a', 'b', 'c'].includes(name) ? 'FailedCreate' : 'string'])
  // The clock moves only with creations: no pass waits for it.
  await until(
    () => entries().length === names.length && entries().every(([, state]) => state !== 'undefined'),
    undefined,
    { describe: () => JSON.stringify(entries()) },
  )
  expect(entries()).toEqual(outcomes)
  const requests = server.requests.slice(before)
  const isPass = ({ method, path }: FakeRequest) => method === 'GET' && path.endsWith('/virtualmachines/vm1')
  const counts = creationsOfPasses({ requests }, isPass, '/pods')
  expect(counts.filter((count) => count > 2)).toEqual([])
  expect(server.objects(podsPath).filter(({ metadata }) => metadata.name !== podName).length).toBe(4)
})

test('volumes behind others that are refused slowly are tried before those are tried again', async () => {
  const { clock, server, put, status, entry } = await setUp()
  await until(() => entry()?.podUID !== undefined)
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  for (const name of names) {
    const metadata = { namespace: 'default', name }
    server.put(claimsPath, { metadata, spec: { resources: { requests: { storage: '1Gi' } } } })
  }
  const tried: string[] = []
  server.fault = ({ method, path, body }) => {
    if (method !== 'POST' || !path.endsWith('/pods')) return undefined
    const name = names.find((one) => attachmentPodName(storedVm(), one) === (body as Pod).metadata.name) ?? ''
    tried.push(name)
    const refusal = { code: 403, reason: 'Forbidden', message: 'exceeded quota' }
    return name === 'g' ? undefined : { heldUntil: clock.advance(10_000), status: 403, body: refusal }
  }
  const attachedVolumes = names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } }))
  put({ spec: { ...storedVm().spec, attachedVolumes }, status: status() })
  await until(() => tried.length > 30 || tried.includes('g'))
  // The first is tried until the status has its entry: only then its refusal is remembered.
  const others = tried.filter((name) => name !== 'a')
  expect(others.slice(0, others.indexOf('g') + 1)).toEqual(['b', 'c', 'd', 'e', 'f', 'g'])
  expect(tried.slice(tried.indexOf('b'), tried.indexOf('g'))).not.toContain('a')
})
