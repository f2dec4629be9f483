import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import { startFakeApiServer, type FakeApiServer, type FakeObject } from '../test/fake-apiserver.ts'
import { listenAsLauncher, startFakeLauncher, type FakeLauncher } from '../test/fake-launcher.ts'
import { startHostileLauncher, type HostileLauncher } from '../test/hostile-launcher.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { systemClock, type Clock } from '../runtime/clock.ts'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { type DomainReport, launcherVersion } from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import { networkSocketName } from '../runtime/network-api.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { startHandler, type Handler } from './handler.ts'
import { launcherOf, type LauncherLimits } from './launcher.ts'
import { createNetworkClient } from './network-client.ts'
import { readPodAddresses } from './pod-address.ts'

const collection = '/apis/virtset.io/v1alpha1/virtualmachines'
const podUID = '0f0e0d0c-0b0a-4908-8706-050403020100'

let root: string
let api: FakeApiServer
let kube: KubeClient
let handler: Handler
let launcher: FakeLauncher | undefined
/** Of the launcher of the last round. */
let budget: LauncherLimits | undefined
let recorded: string[]
/** The uids of pods whose sockets are there. */
let sockets: Set<string>
let logged: string[]

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
  api = await startFakeApiServer()
  kube = createKubeClient({ access: api.access, userAgent: 'virtset-handler' })
  recorded = []
  sockets = new Set()
  logged = []
  handler = start()
})

afterEach(async () => {
  await handler.stop()
  await launcher?.close()
  launcher = undefined
  await kube.close()
  await api.close()
  await rm(root, { recursive: true, force: true })
})

/** @param deadlines the clock of the deadlines of launchers' responses */
function start(
  clock: Clock = systemClock,
  deadlines: Clock = systemClock,
  client: KubeClient = kube,
  onReport: (report: DomainReport) => void = () => {},
): Handler {
  return startHandler({
    kube: client,
    nodeName: 'node1',
    launcherOf: (uid, limits) => {
      budget = limits
      const one = launcherOf(root, uid, limits, deadlines)
      const report = async () => {
        const value = await one.report()
        onReport(value)
        return value
      }
      return { ...one, report }
    },
    addressesOf: (uid) => readPodAddresses(root, uid),
    readCapabilities: async (type) => `{"name":"${type}"}`,
    network: createNetworkClient(root),
    attachments: {
      place: async ({ podUID: uid }) => sockets.has(uid),
      hasEnded: async (uid) => !sockets.has(uid),
    },
    recordEvent: (_, type, reason) => recorded.push(`${type} ${reason}`),
    log: createLogger({ process: 'handler', to: { write: (line) => logged.push(line) } }),
    clock,
  })
}

function schedule(more: Partial<FakeObject['metadata']> = {}, status: object = {}): void {
  api.put(collection, {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'default', finalizers: ['virtset.io/launcher-pod'], ...more },
    spec: { domain: {}, terminationGracePeriodSeconds: 0 },
    status: { phase: 'Scheduled', nodeName: 'node1', podUID, ...status },
  })
}

const stored = () => api.find(collection, 'default', 'vm')
const phase = () => (stored()?.['status'] as { phase?: string } | undefined)?.phase
const conditions = () => {
  const status = stored()?.['status'] as VirtualMachineStatus | undefined
  return (status?.conditions ?? []).map((one) => `${one.type}=${one.status}:${one.reason}`)
}
/** Requests for a single VM. */
const readsOfOne = () =>
  api.requests.filter(({ query }) => query.get('fieldSelector')?.startsWith('metadata.name=')).length
const writes = () => api.requests.filter(({ method }) => method === 'PATCH' || method === 'PUT').length

test('hands a VM over when its launcher listens, and reports it Running with one update', async () => {
  schedule()
  launcher = await startFakeLauncher(root, podUID)
  await until(() => phase() === 'Running')

  expect(launcher.asked).toEqual(['PUT /vm'])
  expect(stored()?.['status']).toMatchObject({ podIP: '10.244.0.9', nodeName: 'node1' })
  await until(() => recorded.length > 0)
  expect(recorded).toEqual(['Normal Started'])
  expect(writes()).toBe(1)
})

test.each<[number, string | undefined, string[]]>([
  [2, 'kvm', ['PUT /capabilities {"name":"kvm"}', 'PUT /vm']],
  [2, 'qemu', ['PUT /capabilities {"name":"qemu"}', 'PUT /vm']],
  [2, undefined, ['PUT /capabilities {"name":"qemu"}', 'PUT /vm']],
  [1, 'kvm', ['PUT /vm']],
])('sends a launcher of version %d the capabilities for type %s before the VM', async (version, type, asked) => {
  schedule()
  api.put(collection, { ...stored()!, spec: { domain: type === undefined ? {} : { type } } })
  launcher = await startFakeLauncher(root, podUID)
  launcher.become({ version })
  await until(() => phase() === 'Running')
  expect(launcher.asked).toEqual(asked)
})

test('hands over a VM that is too large for its cache', async () => {
  const spec = { domain: { description: 'x'.repeat(20_000) } }
  schedule()
  api.put(collection, { ...stored()!, spec })
  launcher = await startFakeLauncher(root, podUID)
  await until(() => phase() === 'Running')
  expect(launcher.accepted?.spec).toEqual(spec)
})

test.each<[string, number, number]>([
  ['/capabilities', 5, 0],
  ['/vm', 2, 2],
])(
  'while launchers of a namespace withhold the response to PUT %s, %d are asked, and %d large VMs are in memory',
  async (withheld, asked, read) => {
    await handler.stop()
    // No deadline passes.
    handler = start(fakeClock(), fakeClock())
    const report = {
      version: launcherVersion,
      vmUID: '',
      phase: 'Waiting',
      reason: '',
      observedAt: '2026-01-02T03:04:05Z',
    }
    let requests = 0
    const silent = createServer((request, response) => {
      if (request.url === withheld) requests++
      else response.end(request.url === '/capabilities' ? '' : JSON.stringify(report))
    })
    const servers = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        const uid = podUID.replace(/0$/, String(index))
        const server = createServer((...exchange) => silent.emit('request', ...exchange))
        await listenAsLauncher(root, uid, server)
        api.put(collection, {
          apiVersion: 'virtset.io/v1alpha1',
          kind: 'VirtualMachine',
          metadata: { name: `vm-${index}`, namespace: 'default' },
          spec: { domain: { description: 'x'.repeat(20_000) } },
          status: { phase: 'Scheduled', nodeName: 'node1', podUID: uid },
        })
        return server
      }),
    )
    await until(() => requests >= asked)
    await delay(200)
    const seen = [requests, readsOfOne()]
    // Otherwise, the handler would wait for them when it stops.
    for (const server of servers) server.close()
    for (const server of servers) server.closeAllConnections()
    expect(seen).toEqual([asked, read])
  },
)

test('of a large VM whose status it updates, the handler parses no more than its cache keeps', async () => {
  const labels = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`label-${index}`, '']))
  launcher = await startFakeLauncher(root, podUID)
  launcher.become({ vmUID: 'vm-1', phase: 'Running' })
  schedule({ uid: 'vm-1', labels })
  api.put(collection, { ...stored()!, spec: { domain: { description: 'x'.repeat(900_000) } } })
  await until(() => phase() === 'Running')
  const parsed = vi.spyOn(JSON, 'parse')
  const before = writes()
  for (let count = 1; count <= 3; count++) {
    launcher.become({ phase: 'Paused', message: String(count) })
    await until(() => writes() === before + count)
  }
  await until(() => parsed.mock.calls.filter(([text]) => text.includes('"MODIFIED"')).length >= 3)
  const longest = Math.max(...parsed.mock.calls.map(([text]) => text.length))
  parsed.mockRestore()
  expect(longest).toBeLessThan(10_000)
})

test('the status of a large VM is updated when the watch has delivered the update before, its end and others at once', async () => {
  await handler.stop()
  const clock = fakeClock()
  let gate = Promise.resolve()
  handler = start(clock, systemClock, {
    ...kube,
    async *watch(of, options) {
      for await (const event of kube.watch(of, options)) {
        await gate
        yield event
      }
    },
  })
  const labels = { text: 'x'.repeat(900_000) }
  const names = ['a', 'b', 'c', 'small', 'ending']
  const launchers = await Promise.all(
    names.map(async (name, index) => {
      const uid = podUID.replace(/0$/, String(index))
      const one = await startFakeLauncher(root, uid)
      one.become({ vmUID: name, phase: 'Running' })
      schedule({ name, namespace: name, uid: name, ...(name === 'small' ? {} : { labels }) }, { podUID: uid })
      return one
    }),
  )
  const messages = (message: string) =>
    names.filter((name) => JSON.stringify(api.find(collection, name, name)).includes(message))
  const isCached = () =>
    handler.vms.store.list().filter(({ status }) => status?.phase === 'Running').length === names.length
  await until(isCached)
  const open = Promise.withResolvers<void>()
  gate = open.promise
  const before = writes()
  const [end, ...others] = launchers.toReversed()
  for (const one of others) one.become({ phase: 'Paused', message: 'another' })
  await until(() => writes() >= before + 2)
  await delay(200)
  expect([writes() - before, messages('another').includes('small')]).toEqual([2, true])
  const isSucceeded = () => JSON.stringify(api.find(collection, 'ending', 'ending')).includes('Succeeded')
  end!.become({ phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' })
  await until(isSucceeded)
  const ended = writes()
  // A watch that delivers nothing for long does not hold them up for ever.
  await clock.advance(10_000)
  await until(() => writes() > ended)
  await delay(200)
  expect(writes() - ended).toBe(1)
  open.resolve()
  await until(() => messages('another').length === others.length)
  for (const one of launchers) await one.close()
})

test('no report is in memory while its update waits for the API server', async () => {
  await handler.stop()
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const reports: WeakRef<object>[] = []
  const held = Promise.withResolvers<void>()
  const bodies: unknown[] = []
  const client: KubeClient = {
    ...kube,
    async patch(of, ref, patch, options) {
      bodies.push(patch.body)
      await held.promise
      return kube.patch(of, ref, patch, options)
    },
  }
  launcher = await startFakeLauncher(root, podUID)
  launcher.become({ vmUID: 'vm-1', phase: 'Running', domain: { title: 'a' }, message: 'x'.repeat(10_000) })
  handler = start(systemClock, systemClock, client, (report) => {
    reports.push(new WeakRef(report), new WeakRef(report.domain!))
  })
  schedule({ uid: 'vm-1' })
  await until(() => bodies.length > 0)
  const isCollected = () => {
    collect()
    return reports.every((one) => one.deref() === undefined)
  }
  await until(isCollected)
  expect([reports.length, bodies.length, bodies[0] instanceof Buffer]).toEqual([2, 1, true])
  held.resolve()
  await until(() => phase() === 'Running')
})

test('8 MiB of large starts are sent at once, and a small one beside them', async () => {
  await handler.stop()
  const held = Promise.withResolvers<void>()
  const sent = new Map<string, number>()
  handler = start(systemClock, systemClock, {
    ...kube,
    async patch(of, ref, patch, options) {
      sent.set(ref.name, patch.body instanceof Buffer ? patch.body.length : 0)
      await held.promise
      return kube.patch(of, ref, patch, options)
    },
  })
  const names = ['small', ...Array.from({ length: 45 }, (_, index) => `vm-${index}`)]
  const launchers = await Promise.all(
    names.toReversed().map(async (name, index) => {
      const uid = `0f0e0d0c-0b0a-4908-8706-${String(index).padStart(12, '0')}`
      const one = await startFakeLauncher(root, uid)
      const domain = name === 'small' ? {} : { domain: { title: 'x'.repeat(240_000) } }
      one.become({ vmUID: name, phase: 'Running', ...domain })
      schedule({ name, namespace: `namespace-${index % 9}`, uid: name }, { podUID: uid })
      return one
    }),
  )
  await until(() => sent.size >= 35)
  await until(() => launchers.every(({ reads }) => reads > 0))
  await delay(200)
  expect([sent.size, sent.has('small')]).toEqual([35, true])
  held.resolve()
  const isRunning = (object: FakeObject) => (object['status'] as { phase?: string } | undefined)?.phase === 'Running'
  await until(() => api.objects(collection).filter(isRunning).length === names.length)
  for (const one of launchers) await one.close()
})

test('does not touch the VMs of other nodes', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule({ name: 'other' }, { nodeName: 'node2' })
  schedule()
  await until(() => phase() === 'Running')
  expect(api.find(collection, 'default', 'other')?.['status']).toEqual({
    phase: 'Scheduled',
    nodeName: 'node2',
    podUID,
  })
})

test('the pods of its VMs are known once the VMs are', async () => {
  expect(handler.podsOfVms()).toBeUndefined()
  schedule()
  schedule({ name: 'other' }, { nodeName: 'node2', podUID: 'another' })
  await until(() => handler.podsOfVms()?.size === 1)
  expect(handler.podsOfVms()).toEqual(new Set([podUID]))
})

test('stores the end, then releases the launcher', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  launcher.become({ phase: 'Gone', reason: 'shutdown', exit: 'Succeeded' })
  await until(() => launcher?.asked.includes('POST /final') ?? false)

  expect(phase()).toBe('Succeeded')
  expect(recorded).toEqual(['Normal Started', 'Normal Stopped'])
})

test('a refused VM fails with libvirt’s own message', async () => {
  launcher = await startFakeLauncher(root, podUID)
  launcher.refuse = { reason: 'StartFailed', message: 'iscsi: no such target' }
  schedule()
  await until(() => launcher?.asked.includes('POST /final') ?? false)
  expect(stored()?.['status']).toMatchObject({
    phase: 'Failed',
    reason: 'StartFailed',
    message: 'iscsi: no such target',
  })
})

test('a guest is frozen and thawed on request, and the outcome is stored', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  launcher.become({ version: 3 })
  const request = (freeze: object) =>
    kube.patch(
      virtualMachines,
      { namespace: 'default', name: 'vm' },
      { type: 'merge', body: { status: { freeze } } },
      { subresource: 'status' },
    )
  const frozen = () => stored()?.['status']
  await request({ id: 's-1' })
  await until(() => JSON.stringify(frozen()).includes('"state":"Frozen"'))
  await request({ id: 's-1', thaw: true })
  await until(() => JSON.stringify(frozen()).includes('"state":"Thawed"'))
  expect(frozen()).toMatchObject({ phase: 'Running', frozen: { id: 's-1', state: 'Thawed' } })
  expect(launcher.asked).toEqual(['PUT /vm', 'POST /freeze', 'POST /thaw'])
})

test('a later generation of a VM is handed to its launcher until the launcher reports it', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  launcher.become({ version: launcherVersion, generation: 1 })
  const disks = [{ type: 'volume', device: 'cdrom', source: { volume: 'tools' }, target: { dev: 'sda' } }]
  const body = { spec: { domain: { devices: { disks } } } }
  await kube.patch(virtualMachines, { namespace: 'default', name: 'vm' }, { type: 'merge', body })
  await until(() => launcher?.accepted?.metadata.generation === 2)
  expect(launcher.accepted?.spec.domain.devices?.disks).toEqual(disks)
  await until(() => conditions().includes('Synchronized=False:ChangingMedia'))
  launcher.become({ generation: 2, mediaFailure: 'sda: the tray is locked' })
  await until(() => conditions().includes('Synchronized=False:MediumRefused'))
  const asked = launcher.asked.length
  launcher.become({ mediaFailure: undefined } as unknown as Partial<DomainReport>)
  await until(() => conditions().includes('Synchronized=True:DomainDefined'))
  expect(launcher.asked).toHaveLength(asked)
})

test('attached volumes are requested once their pods serve them, and reported', async () => {
  launcher = await startFakeLauncher(root, podUID)
  launcher.become({ version: launcherVersion })
  const helper = '0f0e0d0c-0b0a-4908-8706-050403020111'
  const entry = { name: 'a', claimName: 'c', podName: 'p', podUID: helper }
  const patch = (body: object, options: object = {}) =>
    kube.patch(virtualMachines, { namespace: 'default', name: 'vm' }, { type: 'merge', body }, options)
  schedule()
  await until(() => phase() === 'Running')
  const item = { name: 'a', persistentVolumeClaim: { claimName: 'c' }, target: { dev: 'vdb', bus: 'virtio' } }
  await patch({ spec: { attachedVolumes: [item] } })
  const shown = () => (stored()?.['status'] as VirtualMachineStatus | undefined)?.attachedVolumes
  await until(() => shown()?.[0]?.phase === 'Attaching')
  sockets.add(helper)
  await patch({ status: { attachmentPods: [entry] } }, { subresource: 'status' })
  await until(() => shown()?.[0]?.phase === 'Attached')
  expect(launcher.volumes).toEqual([{ name: 'a', claimName: 'c', podUID: helper, dev: 'vdb', bus: 'virtio' }])
  await patch({ spec: { attachedVolumes: [] } })
  await until(() => shown() === undefined)
  expect(launcher.volumes).toEqual([])
  await patch({ status: { attachmentPods: [{ ...entry, missing: true }] } }, { subresource: 'status' })
  sockets.delete(helper)
  await until(() => shown()?.[0]?.endedPodUID === helper)
  expect(recorded).toEqual(expect.arrayContaining(['Normal VolumeAttached']))
})

test('a deleted VM is shut down by its launcher, which ends it after the grace period', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
  await until(() => launcher?.asked.includes('POST /final') ?? false)
  // The launcher is released until it has ended, which may take a second request.
  expect([...new Set(launcher.asked)]).toEqual(['PUT /vm', 'POST /shutdown', 'POST /final'])
  expect(launcher.asked.filter((line) => line !== 'POST /final')).toHaveLength(2)
  expect(phase()).toBe('Succeeded')
})

test('a restarted handler continues where the old one was killed', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  await handler.stop()
  await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
  handler = start()
  await until(() => launcher?.asked.includes('POST /final') ?? false)
  expect(launcher.asked.filter((line) => line === 'PUT /vm')).toHaveLength(1)
})

test('concludes nothing from a killed launcher', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  const before = writes()
  launcher.kill()
  await until(() => logged.some((line) => line.includes('event stream of the launcher ended')))
  expect(phase()).toBe('Running')
  expect(writes()).toBe(before)
})

test('of the failures of the launchers of a namespace, few are logged', async () => {
  await handler.stop()
  const clock = fakeClock()
  handler = start(clock)
  const uids = Array.from({ length: 20 }, (_, index) => `${podUID.slice(0, -2)}${10 + index}`)
  const launchers = await Promise.all(uids.map((uid) => startFakeLauncher(root, uid)))
  for (const one of launchers) one.hangsUp = true
  for (const [index, uid] of uids.entries()) schedule({ name: `vm-${index}` }, { podUID: uid })
  const ends = () => logged.filter((line) => line.includes('event stream of the launcher ended'))
  await until(
    () => ends().some((line) => line.includes('"omitted":')),
    () => clock.advance(100),
  )
  for (const one of launchers) await one.close()
  expect(ends().length).toBeLessThanOrEqual(16 + clock.monotonic() / 10_000)
})

test('an update that conflicts with one of a user is planned again, and not logged', async () => {
  let conflicts = 2
  api.fault = ({ method }) => {
    if (method !== 'PATCH' || conflicts-- <= 0) return undefined
    const { metadata, ...rest } = stored()!
    api.put(collection, { ...rest, metadata: { ...metadata, labels: { changes: `${conflicts}` } } })
    return { status: 409 }
  }
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  expect(launcher.asked).toEqual(['PUT /vm'])
  expect(logged.filter((line) => line.includes('reconcile failed'))).toEqual([])
})

describe('a controller that awaits the end of a launcher', () => {
  const clock = fakeClock()
  const awaiting = {
    type: 'PodEnded',
    status: 'Unknown',
    reason: 'AwaitingHandler',
    message: '',
    lastTransitionTime: '',
  }

  /** As after a forced deletion of the pod. */
  const ask = () => {
    const { status: before, ...rest } = stored()!
    const status = before as VirtualMachineStatus
    api.put(collection, { ...rest, status: { ...status, conditions: [...(status.conditions ?? []), awaiting] } })
  }
  const answered = (answer: string) =>
    until(
      () => conditions().includes(`PodEnded=${answer}`),
      () => clock.advance(1000),
    )
  const removeVolume = () => rm(join(root, 'pods', podUID), { recursive: true })

  beforeEach(async () => {
    await handler.stop()
    handler = start(clock)
    launcher = await startFakeLauncher(root, podUID)
    schedule()
    await until(() => phase() === 'Running')
  })

  test('learns that it is present, and later that it has ended', async () => {
    ask()
    await answered('False:LauncherPresent')
    await removeVolume()
    await answered('True:LauncherAbsent')
    expect(phase()).toBe('Running')
  })

  test('learns that also of one that claims that its guest has ended', async () => {
    ask()
    await answered('False:LauncherPresent')
    launcher!.become({ phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' })
    await until(
      () => phase() === 'Succeeded',
      () => clock.advance(1000),
    )
    expect(conditions()).toContain('PodEnded=False:LauncherPresent')
    await removeVolume()
    await answered('True:LauncherAbsent')
    expect(stored()?.['status']).toMatchObject({ phase: 'Succeeded', reason: 'Shutdown' })
  })

  test('learns that of a finished VM from a handler that has restarted, too', async () => {
    launcher!.become({ phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' })
    await until(() => phase() === 'Succeeded')
    const before = conditions()
    ask()
    await answered('False:LauncherPresent')
    await handler.stop()
    await removeVolume()
    handler = start(clock)
    await answered('True:LauncherAbsent')
    expect(phase()).toBe('Succeeded')
    expect(conditions()).toEqual([...before, 'PodEnded=True:LauncherAbsent'])
  })

  test('at once, even if the launcher has sent so much that it is not asked for minutes', async () => {
    budget!.responses.take(2 ** 24)
    ask()
    // The clock stands still.
    await until(() => conditions().includes('PodEnded=False:LauncherPresent'))
    expect(budget!.responses.take(0)).toBeGreaterThan(180_000)
  })
})

describe('a launcher that violates the contract', () => {
  const clock = fakeClock()

  beforeEach(async () => {
    await handler.stop()
    handler = start(clock)
    launcher = await startFakeLauncher(root, podUID)
  })

  const given = () => launcher?.asked.filter((line) => line === 'PUT /vm').length ?? 0
  const reads = () => launcher?.reads ?? 0
  const ends = () => logged.filter((line) => line.includes('event stream of the launcher ended')).length

  test('accepts the VM but still waits for one: it is handed the VM once a second', async () => {
    launcher!.isForgetful = true
    schedule()
    await until(
      () => given() === 1,
      () => clock.advance(10),
    )
    await clock.advance(900)
    expect(given()).toBe(1)
    await until(
      () => given() === 2,
      () => clock.advance(1000),
    )
    expect(phase()).toBe('Scheduled')
  })

  test('waits for the VM and cannot accept it for half a minute: its condition reports that', async () => {
    launcher!.refuse = { reason: 'LibvirtUnavailable', message: 'no libvirtd' }
    schedule()
    await until(
      () => conditions().includes('Ready=Unknown:LibvirtUnavailable'),
      () => clock.advance(1000),
    )
    launcher!.refuse = undefined
    await until(
      () => phase() === 'Running',
      () => clock.advance(1000),
    )
    expect(conditions()).toEqual(['Synchronized=True:DomainDefined', 'Ready=True:GuestRunning'])
  })

  test.each([
    ['reports no generation of the VM that it accepted', { generation: 0 }],
    ['waits for the VM that it accepted', { phase: 'Waiting', vmUID: '' }],
  ] as const)('%s: it is handed the VM with a back-off', async (_, later) => {
    launcher!.isSlow = true
    schedule()
    await until(
      () => given() === 1,
      () => clock.advance(10),
    )
    for (const waitMs of [1000, 2000, 4000]) {
      const [givenBefore, atMs] = [given(), clock.monotonic()]
      launcher!.become({ phase: 'Running', reason: 'booted', ...later, message: String(waitMs) })
      await until(
        () => given() > givenBefore,
        () => clock.advance(100),
      )
      expect(clock.monotonic() - atMs).toBeGreaterThan(waitMs / 2)
    }
  })

  test('is handed a large VM again and again: what it receives counts like what it sends', async () => {
    launcher!.refuse = { reason: 'LibvirtUnavailable', message: 'no libvirtd' }
    schedule()
    api.put(collection, { ...stored()!, spec: { domain: { description: 'x'.repeat(900_000) } } })
    await until(
      () => given() >= 7,
      () => clock.advance(1000),
    )
    const atMs = clock.monotonic()
    await until(
      () => given() >= 11,
      () => clock.advance(1000),
    )
    // 900,000 bytes at 64 KiB/s take 13 s; the clock can advance by some seconds before the launcher receives them.
    expect(clock.monotonic() - atMs).toBeGreaterThan(35_000)
  })

  test('closes its event stream at once: it is reopened after a second', async () => {
    launcher!.hangsUp = true
    schedule()
    await until(() => phase() === 'Running' && ends() === 1)
    const endedMs = clock.monotonic()
    await until(
      () => ends() === 2,
      () => clock.advance(100),
    )
    expect(clock.monotonic() - endedMs).toBeGreaterThanOrEqual(1000)
  })

  /** Whether the handler has delayed a round: one in progress has a timer as well, but ends. */
  const isDelayed = async () => {
    const hasTimer = () => (clock.nextMs() ?? Infinity) <= 1000
    const before = api.requests.length + reads()
    if (hasTimer()) await delay(200)
    return hasTimer() && api.requests.length + reads() === before
  }

  test('reports something different each time: after twenty updates there is one a second', async () => {
    launcher!.isFickle = true
    schedule()
    await until(isDelayed)
    expect(writes()).toBe(20)
    await until(
      () => writes() === 21,
      () => clock.advance(1000),
    )
  })

  test('reports something different each time about a large VM: its updates wait for their weight, and those of others do not', async () => {
    schedule()
    await until(() => phase() === 'Running')
    const labels = { text: 'x'.repeat(4 * 1024 * 1024) }
    api.put(collection, { ...stored()!, metadata: { ...stored()!.metadata, labels } })
    await until(() => 'weight' in (handler.vms.store.get('default/vm') ?? {}))
    const [before, atMs] = [writes(), clock.monotonic()]
    launcher!.isFickle = true
    launcher!.become({ message: 'another' })
    await until(() => writes() - before >= 8)
    await delay(200)
    // 32 MiB, and one of a round that began before the VM was large.
    expect(writes() - before).toBeLessThan(10)
    const metadata = { name: 'small', namespace: 'other' }
    const uid = podUID.replace(/0$/, '1')
    const small = await startFakeLauncher(root, uid)
    schedule(metadata, { podUID: uid })
    const isRunning = () =>
      (api.find(collection, 'other', 'small')?.['status'] as { phase?: string } | undefined)?.phase === 'Running'
    await until(isRunning)
    await small.close()
    expect(clock.monotonic()).toBe(atMs)
    await until(
      () => writes() - before > 12,
      () => clock.advance(1000),
    )
    expect(clock.monotonic() - atMs).toBeGreaterThan(8000)
  })

  test('sends events without end: after twenty rounds there is one a second', async () => {
    schedule()
    await until(() => phase() === 'Running')
    let rounds = 0
    for (; !(await isDelayed()) && rounds < 50; rounds++) {
      const before = reads()
      launcher!.become({ message: String(rounds) })
      await until(() => reads() > before || isDelayed())
    }
    expect(rounds).toBeLessThan(22)
    launcher!.become({ phase: 'Paused', reason: 'user' })
    await until(
      () => JSON.stringify(stored()?.['status']).includes('GuestPaused'),
      () => clock.advance(1000),
    )
  })
})

describe.each([10, 20_000])('a VM with %d characters whose launcher withholds a response until', (size) => {
  const ended = { type: 'PodEnded', status: 'True', reason: 'LauncherAbsent', message: '', lastTransitionTime: '' }
  test.each<[string, object, number]>([
    ['later is started', {}, 1],
    ['its end is confirmed, is not started', { conditions: [ended] }, 0],
    ['it has failed, is not started', { phase: 'Failed' }, 0],
    ['it has another pod, is not started', { podUID: podUID.replace(/0$/, '1') }, 0],
  ])('%s', async (_, change, expected) => {
    await handler.stop()
    handler = start(fakeClock(), fakeClock())
    const observedAt = '2026-01-02T03:04:05Z'
    const report = { version: launcherVersion, vmUID: '', phase: 'Waiting', reason: '', observedAt }
    let puts = 0
    let respond: (() => void) | undefined
    const server = createServer((request, response) => {
      if (request.url === '/vm') puts++
      if (request.url === '/capabilities') respond = () => response.end('')
      else response.end(JSON.stringify(report))
    })
    await listenAsLauncher(root, podUID, server)
    const before = { phase: 'Scheduled', nodeName: 'node1', podUID }
    const vm = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'vm', namespace: 'default' },
      spec: { domain: { description: 'x'.repeat(size) } },
    }
    api.put(collection, { ...vm, status: before })
    await until(() => respond !== undefined)
    api.put(collection, { ...vm, status: { ...before, ...change } })
    // Until the watch has delivered that.
    const { resourceVersion } = stored()!.metadata
    await until(() => handler.vms.store.get('default/vm')?.metadata.resourceVersion === resourceVersion)
    respond!()
    await (expected > 0 ? until(() => puts > 0) : delay(200))
    server.closeAllConnections()
    server.close()
    expect(puts > 0 ? 1 : 0).toBe(expected)
  })
})

describe('while its updates have no turn, a large VM', () => {
  const clock = fakeClock()

  beforeEach(async () => {
    await handler.stop()
    handler = start(clock)
    launcher = await startFakeLauncher(root, podUID)
    schedule()
    await until(() => phase() === 'Running')
    const labels = { text: 'x'.repeat(4 * 1024 * 1024) }
    api.put(collection, { ...stored()!, metadata: { ...stored()!.metadata, labels } })
    await until(() => 'weight' in (handler.vms.store.get('default/vm') ?? {}))
    const first = writes()
    launcher.isFickle = true
    launcher.become({ message: 'another' })
    // 32 MiB.
    await until(() => writes() - first >= 8)
    let before = -1
    while (before < writes()) {
      before = writes()
      const { reads } = launcher
      launcher.become({ message: 'another' })
      await until(() => launcher!.reads > reads)
      await delay(500)
    }
    launcher.isFickle = false
    launcher.become({ version: launcherVersion, phase: 'Running', message: 'last' })
    await delay(200)
    if (writes() > before) throw new Error('an update had a turn')
  })

  test('is shut down', async () => {
    const before = writes()
    await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
    await until(() => launcher!.asked.includes('POST /shutdown'))
    await until(() => phase() === 'Succeeded')
    expect(writes()).toBe(before + 1)
    await until(() => recorded.length === 4)
    expect(recorded.slice(1)).toEqual(['Normal ShuttingDown', 'Warning GracePeriodExceeded', 'Normal Stopped'])
  })

  test('is frozen and thawed, and its controller learns that', async () => {
    const before = writes()
    const status = () => stored()?.['status'] as VirtualMachineStatus
    const ask = (freeze: object) => api.put(collection, { ...stored()!, status: { ...status(), freeze } })
    ask({ id: 'one' })
    await until(() => status().frozen?.state === 'Frozen')
    ask({ id: 'one', thaw: true })
    await until(() => status().frozen?.state === 'Thawed')
    expect(writes()).toBe(before + 2)
  })

  test('has its events recorded once, with the update', async () => {
    const reads = launcher!.reads
    const events = () => recorded.filter((line) => line.endsWith('LauncherMisbehaving')).length
    launcher!.become({ vmUID: 'another' })
    for (let round = 1; round < 4; round++) {
      await until(
        () => launcher!.reads > reads + round,
        () => clock.advance(100),
      )
      const isStored = conditions().includes('Ready=Unknown:LauncherMisbehaving')
      if (isStored) break
      expect(events()).toBe(0)
    }
    await until(
      () => conditions().includes('Ready=Unknown:LauncherMisbehaving'),
      () => clock.advance(1000),
    )
    await until(() => events() > 0)
    await clock.advance(10_000)
    await delay(200)
    expect(events()).toBe(1)
  })
})

describe('a start', () => {
  test('that is slow is reported, and keeps no request open', async () => {
    const clock = fakeClock()
    await handler.stop()
    handler = start(clock)
    launcher = await startFakeLauncher(root, podUID)
    launcher.isSlow = true
    schedule()
    await until(
      () => conditions().includes('Ready=False:GuestStarting'),
      () => clock.advance(1000),
    )
    expect(phase()).toBe('Scheduled')
    launcher.become({ phase: 'Running', reason: 'booted' })
    await until(() => phase() === 'Running')
    expect(launcher.asked).toEqual(['PUT /vm'])
    expect(conditions()).toEqual(['Ready=True:GuestRunning', 'Synchronized=True:DomainDefined'])
  })

  test('that fails after the VM was accepted fails the VM with libvirt’s own message', async () => {
    launcher = await startFakeLauncher(root, podUID)
    launcher.isSlow = true
    schedule()
    await until(() => launcher?.asked.includes('PUT /vm') ?? false)
    launcher.become({ phase: 'Shutoff', reason: 'startFailed', exit: 'Failed', message: 'iscsi: no such target' })
    await until(() => launcher?.asked.includes('POST /final') ?? false)
    expect(stored()?.['status']).toMatchObject({
      phase: 'Failed',
      reason: 'StartFailed',
      message: 'iscsi: no such target',
    })
    expect(recorded).toEqual(['Warning StartFailed'])
  })

  test('by a launcher of the previous version is followed, although its response comes too late', async () => {
    launcher = await startFakeLauncher(root, podUID)
    launcher.isOld = true
    launcher.isSlow = true
    schedule()
    await until(() => launcher?.asked.includes('PUT /vm') ?? false)
    // The handler has given up the request and polls the VM instead.
    const before = launcher.reads
    await until(() => (launcher?.reads ?? 0) > before)
    launcher.become({ phase: 'Running', reason: 'booted' })
    await until(() => recorded.length > 0)
    expect([phase(), recorded]).toEqual(['Running', ['Normal Started']])
  })
})

describe('a launcher of another version', () => {
  const versions = async (version: number | undefined) => {
    launcher = await startFakeLauncher(root, podUID)
    if (version !== undefined) launcher.become({ version })
    launcher.refuse = { reason: 'BadRequest', message: 'spec.domain.quantum there is no such field' }
    schedule()
    await until(() => recorded.length > 0)
    const status = stored()?.['status'] as VirtualMachineStatus | undefined
    return status?.conditions?.find(({ type }) => type === 'Ready')
  }

  test.each([
    [0, undefined],
    [3, 3],
  ])('that does not understand the VM does not fail it: version %d', async (expected, version) => {
    expect(await versions(version)).toMatchObject({
      status: 'Unknown',
      reason: 'LauncherIncompatible',
      message:
        `The launcher (protocol version ${expected}) rejected a request of the handler (protocol version ${launcherVersion}): ` +
        'spec.domain.quantum there is no such field. Complete the upgrade of virtset, then delete the VM and create it again',
    })
    expect([phase(), recorded]).toEqual(['Scheduled', ['Warning LauncherIncompatible']])
    launcher!.refuse = undefined
    await until(() => phase() === 'Running')
    expect(conditions()).toEqual(['Synchronized=True:DomainDefined', 'Ready=True:GuestRunning'])
  })

  test('that reports more than this handler knows is followed', async () => {
    launcher = await startFakeLauncher(root, podUID)
    const newer = { version: 7, temperature: { celsius: 40 } }
    launcher.become(newer)
    schedule()
    await until(() => phase() === 'Running')
    expect(conditions()).toEqual(['Ready=True:GuestRunning', 'Synchronized=True:DomainDefined'])
  })
})

describe('the launchers of another namespace', () => {
  let hostile: HostileLauncher[]

  afterEach(async () => {
    for (const one of hostile) await one.close()
  })

  // Their requests occupy the handler forever, because the clock of the deadlines stands still.
  test.each([12, 40])('%d that never respond delay neither the start nor the shutdown of a VM', async (count) => {
    await handler.stop()
    handler = start(systemClock, fakeClock())
    hostile = await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const name = `mute-${index}`
        const uid = `0bad0bad-0000-4000-8000-${String(index).padStart(12, '0')}`
        const one = await startHostileLauncher(root, { podUID: uid, vmUID: uid }, 'neverAccepts')
        schedule({ name, uid, namespace: 'hostile' }, { podUID: uid })
        return one
      }),
    )
    await until(() => hostile.filter((one) => one.connections() > 0).length >= 8)

    launcher = await startFakeLauncher(root, podUID)
    schedule()
    await until(() => phase() === 'Running')
    await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
    await until(() => launcher?.asked.includes('POST /shutdown') ?? false)
    expect(hostile.filter((one) => one.connections() > 0)).toHaveLength(8)
  })
})

describe('taps', () => {
  const tap = { dev: 'tap0', plugin: 'routed' }
  const one = { type: 'ethernet', target: { dev: 'tap0', managed: false }, mac: { address: '52:54:00:00:00:01' } }
  let agent: Server
  /** The requests of the agent, and its responses: the last one is repeated. */
  let requests: { path: string; body: object }[]
  let responses: { status: number; value: object }[]

  beforeEach(async () => {
    requests = []
    responses = [{ status: 200, value: { ips: ['10.244.0.9'], dhcp: { ip: '10.244.0.9', prefix: 24 } } }]
    agent = createServer((request, response) => {
      let text = ''
      request.on('data', (chunk: Buffer) => (text += chunk.toString()))
      request.on('end', () => {
        requests.push({ path: request.url ?? '', body: JSON.parse(text) })
        const { status, value } = (responses.length > 1 ? responses.shift() : responses[0]) ?? {
          status: 500,
          value: {},
        }
        response.writeHead(status).end(JSON.stringify(value))
      })
    })
    await new Promise<void>((resolve) => agent.listen(join(root, networkSocketName), resolve))
    schedule()
    api.put(collection, { ...stored()!, spec: { domain: { devices: { interfaces: [one] } }, taps: [tap] } })
  })
  afterEach(() => {
    agent.closeAllConnections()
    agent.close()
  })

  test('are created before the guest starts, and released when it has ended', async () => {
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: launcherVersion })
    await until(() => phase() === 'Running')
    expect(launcher.asked[0]).toBe('PUT /network')
    expect(launcher.asked.at(-1)).toBe('PUT /vm')
    const request = {
      vm: { namespace: 'default', name: 'vm', uid: stored()?.metadata.uid },
      pod: { uid: podUID, ips: ['10.244.0.9'] },
      plugin: 'routed',
      interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 },
    }
    expect(requests).toEqual([{ path: '/add', body: request }])
    launcher.become({ phase: 'Gone', reason: 'shutdown', exit: 'Succeeded' })
    await until(() => requests.length > 1)
    expect(requests[1]).toEqual({ path: '/del', body: request })
  })

  test('of a guest that has ended are released by a handler that has restarted since', async () => {
    await handler.stop()
    api.put(collection, { ...stored()!, status: { phase: 'Succeeded', nodeName: 'node1', podUID } })
    launcher = await startFakeLauncher(root, podUID)
    handler = start()
    await until(() => requests.length > 0)
    expect(requests).toMatchObject([{ path: '/del', body: { interface: { dev: 'tap0', mac: one.mac.address } } }])
  })

  test('with IPv6 alone wait for a launcher that can serve it', async () => {
    responses = [{ status: 200, value: { ips: ['fd00::9'], dhcp6: { ip: 'fd00::9' } } }]
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: 4 })
    await until(() => conditions().includes('Ready=False:NetworkPluginFailed'))
    expect(launcher.asked).not.toContain('PUT /network')
    launcher.become({ version: launcherVersion })
    await until(() => phase() === 'Running')
  })

  test('in a network beside that of the pod are created with its interface', async () => {
    responses = [{ status: 200, value: { ips: ['198.18.0.5'] } }]
    const taps = [{ ...tap, plugin: 'redirect', network: 'infra/lab' }]
    api.put(collection, { ...stored()!, spec: { domain: { devices: { interfaces: [one] } }, taps } })
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: launcherVersion, domain: { devices: { interfaces: [one] } } })
    await until(() => phase() === 'Running')
    const status = stored()?.['status'] as VirtualMachineStatus | undefined
    expect(status?.interfaces?.[0]).toMatchObject({ network: 'infra/lab', podInterface: 'net0', ips: ['198.18.0.5'] })
    expect(requests[0]?.body).toMatchObject({
      interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1, podInterface: 'net0' },
    })
    expect(launcher.asked).not.toContain('PUT /network')
  })

  test('that cannot be created keep the guest from starting until they can', async () => {
    responses.unshift({ status: 422, value: { error: 'network plugin routed: ADD failed: no route' } })
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: launcherVersion })
    await until(() => recorded.length > 0)
    await until(() => phase() === 'Running')
    await until(() => recorded.length > 1)
    expect(launcher.asked.filter((request) => request === 'PUT /vm')).toHaveLength(1)
    expect(recorded).toEqual(['Warning NetworkPluginFailed', 'Normal Started'])
  })

  test('of a large VM cost its launcher nothing before it is sent, and no event brings the next attempt forward', async () => {
    await handler.stop()
    responses = [{ status: 422, value: { error: 'network plugin routed: ADD failed: no route' } }]
    const description = 'x'.repeat(900_000)
    api.put(collection, {
      ...stored()!,
      spec: { domain: { description, devices: { interfaces: [one] } }, taps: [tap] },
    })
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: launcherVersion })
    // Only now: a handler that finds no launcher asks again later, and nothing advances its clock until then.
    const clock = fakeClock()
    handler = start(clock)
    await until(() => recorded.length > 0)
    for (const message of ['a', 'b', 'c', 'd']) launcher.become({ message })
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(requests).toHaveLength(1)
    // Slower than its rounds, so that the budget is not refilled meanwhile.
    const advance = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      await clock.advance(500)
    }
    await until(() => requests.length === 8, advance)
    expect(budget?.responses.take(0)).toBe(0)
    responses = [{ status: 200, value: { ips: [] } }]
    await until(
      () => phase() === 'Running',
      () => clock.advance(500),
    )
  })

  test('of a large VM whose launcher refuses their addresses again and again: the VM is read once', async () => {
    await handler.stop()
    const clock = fakeClock()
    handler = start(clock)
    const domain = { description: 'x'.repeat(900_000), devices: { interfaces: [one] } }
    api.put(collection, { ...stored()!, spec: { domain, taps: [tap] } })
    launcher = await startFakeLauncher(root, podUID)
    launcher.refusesNetwork = true
    launcher.become({ version: launcherVersion })
    const refused = () => launcher!.asked.filter((request) => request === 'PUT /network')
    await until(
      () => refused().length > 3,
      () => clock.advance(1000),
    )
    expect(launcher.asked).not.toContain('PUT /vm')
    expect(readsOfOne()).toBe(1)
  })

  test('of a guest that an earlier handler has started are checked once', async () => {
    responses = [{ status: 422, value: { error: 'network plugin routed: CHECK failed: tap0 is not up' } }]
    const running = { ...stored()!, status: { phase: 'Running', nodeName: 'node1', podUID, podIP: '10.244.0.9' } }
    api.put(collection, running)
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({
      vmUID: stored()?.metadata.uid ?? '',
      version: launcherVersion,
      phase: 'Running',
      reason: 'booted',
    })
    await until(() => recorded.length > 0)
    launcher.become({ phase: 'Paused', reason: 'user' })
    await until(() => conditions().includes('Ready=False:GuestPaused'))
    expect(requests.map(({ path }) => path)).toEqual(['/check'])
    expect(recorded).toEqual(['Warning NetworkPluginFailed'])
  })

  test('wait for an agent', async () => {
    agent.close()
    await rm(join(root, networkSocketName), { force: true })
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: launcherVersion })
    await until(() => conditions().includes('Ready=False:NetworkAgentUnavailable'))
    expect(launcher.asked).toEqual([])
  })

  test('of a launcher that cannot serve their addresses keep the guest from starting', async () => {
    launcher = await startFakeLauncher(root, podUID)
    launcher.become({ version: 3 })
    await until(() => conditions().includes('Ready=False:NetworkPluginFailed'))
    expect(launcher.asked).toEqual([])
  })
})
