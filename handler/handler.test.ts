import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { MachineStatus } from '../api/machine.ts'
import { startFakeApiServer, type FakeApiServer, type FakeObject } from '../test/fake-apiserver.ts'
import { startFakeLauncher, type FakeLauncher } from '../test/fake-launcher.ts'
import { startHostileLauncher, type HostileLauncher } from '../test/hostile-launcher.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { systemClock, type Clock } from '../runtime/clock.ts'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { startHandler, type Handler } from './handler.ts'
import { launcherOf } from './launcher.ts'
import { readPodAddress } from './pod-address.ts'

const collection = '/apis/virtset.io/v1alpha1/virtualmachines'
const podUID = '0f0e0d0c-0b0a-4908-8706-050403020100'

let root: string
let api: FakeApiServer
let kube: KubeClient
let handler: Handler
let launcher: FakeLauncher | undefined
let told: string[]
let logged: string[]

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
  api = await startFakeApiServer()
  kube = createKubeClient({ access: api.access, userAgent: 'virtset-handler' })
  told = []
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

function start(clock: Clock = systemClock): Handler {
  return startHandler({
    kube,
    nodeName: 'node1',
    launcherOf: (uid, limits) => launcherOf(root, uid, limits),
    addressOf: (uid) => readPodAddress(root, uid),
    tell: (_, type, reason) => told.push(`${type} ${reason}`),
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
  const status = stored()?.['status'] as MachineStatus | undefined
  return (status?.conditions ?? []).map((one) => `${one.type}=${one.status}:${one.reason}`)
}
const writes = () => api.requests.filter(({ method }) => method === 'PATCH' || method === 'PUT').length

test('hands a VM over when its launcher listens, and reports it running with one write', async () => {
  schedule()
  launcher = await startFakeLauncher(root, podUID)
  await until(() => phase() === 'Running')

  expect(launcher.asked).toEqual(['PUT /vm'])
  expect(stored()?.['status']).toMatchObject({ podIP: '10.244.0.9', nodeName: 'node1' })
  await until(() => told.length > 0)
  expect(told).toEqual(['Normal Started'])
  expect(writes()).toBe(1)
})

test('touches no VM of another node', async () => {
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

test('writes the end, then lets the launcher go', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  launcher.become({ phase: 'Gone', reason: 'shutdown', exit: 'Succeeded' })
  await until(() => launcher?.asked.includes('POST /final') ?? false)

  expect(phase()).toBe('Succeeded')
  expect(told).toEqual(['Normal Started', 'Normal Stopped'])
})

test('a VM that is refused fails in libvirt’s own words', async () => {
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

test('a VM that is deleted is asked to power off, and ended when its time is over', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
  await until(() => launcher?.asked.includes('POST /final') ?? false)
  expect(launcher.asked).toEqual(['PUT /vm', 'POST /shutdown', 'POST /destroy', 'POST /final'])
})

test('a handler that starts anew goes on where the old one was killed', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  await handler.stop()
  await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
  handler = start()
  await until(() => launcher?.asked.includes('POST /final') ?? false)
  expect(launcher.asked.filter((line) => line === 'PUT /vm')).toHaveLength(1)
})

test('concludes nothing from a launcher that was killed', async () => {
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  const before = writes()
  launcher.kill()
  await until(() => logged.some((line) => line.includes('events ended')))
  expect(phase()).toBe('Running')
  expect(writes()).toBe(before)
})

test('a write that meets another one is planned anew', async () => {
  let conflicts = 2
  api.fault = ({ method }) => (method === 'PATCH' && conflicts-- > 0 ? { status: 409 } : undefined)
  launcher = await startFakeLauncher(root, podUID)
  schedule()
  await until(() => phase() === 'Running')
  expect(launcher.asked).toEqual(['PUT /vm'])
})

describe('a launcher that does not keep to the contract', () => {
  const clock = fakeClock()

  beforeEach(async () => {
    await handler.stop()
    handler = start(clock)
    launcher = await startFakeLauncher(root, podUID)
  })

  const given = () => launcher?.asked.filter((line) => line === 'PUT /vm').length ?? 0
  const reads = () => launcher?.reads ?? 0
  const ends = () => logged.filter((line) => line.includes('events ended')).length

  test('takes the VM and says that it waits for one: it is given it once a second', async () => {
    launcher!.isForgetful = true
    schedule()
    await until(() => given() === 1)
    await clock.advance(999)
    expect(given()).toBe(1)
    await until(
      () => given() === 2,
      () => clock.advance(1000),
    )
    expect(phase()).toBe('Scheduled')
  })

  test('waits for the VM and cannot take it for half a minute: that is told', async () => {
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

  test('ends its stream of events at once: it is asked again after a second', async () => {
    launcher!.hangsUp = true
    schedule()
    await until(() => phase() === 'Running' && ends() === 1)
    const before = reads()
    await clock.advance(999)
    expect(reads()).toBe(before)
    await until(
      () => ends() === 2,
      () => clock.advance(1000),
    )
  })

  test('says something else whenever it is asked: after twenty writes there is one a second', async () => {
    launcher!.isFickle = true
    schedule()
    // Until the handler puts a round off.
    await until(() => (clock.nextMs() ?? Infinity) <= 1000 || writes() > 50)
    expect(writes()).toBe(20)
    await until(
      () => writes() === 21,
      () => clock.advance(1000),
    )
  })

  test('talks without end: after twenty rounds it is heard once a second', async () => {
    schedule()
    await until(() => phase() === 'Running')
    // Until the handler puts a round off.
    let rounds = 0
    for (; (clock.nextMs() ?? Infinity) > 1000 && rounds < 50; rounds++) {
      const before = reads()
      launcher!.become({ message: String(rounds) })
      await until(() => reads() > before || (clock.nextMs() ?? Infinity) <= 1000)
    }
    expect(rounds).toBeLessThan(22)
    launcher!.become({ phase: 'Paused', reason: 'user' })
    await until(
      () => JSON.stringify(stored()?.['status']).includes('GuestPaused'),
      () => clock.advance(1000),
    )
  })
})

describe('a start', () => {
  test('that takes long is reported, and holds no request', async () => {
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

  test('that fails after the VM was accepted is told in libvirt’s own words', async () => {
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
    expect(told).toEqual(['Warning StartFailed'])
  })

  test('by a launcher of the previous version is followed, though its answer comes too late', async () => {
    launcher = await startFakeLauncher(root, podUID)
    launcher.isOld = true
    launcher.isSlow = true
    schedule()
    await until(() => launcher?.asked.includes('PUT /vm') ?? false)
    // The handler has given up the request and looks how the VM is instead.
    const before = launcher.reads
    await until(() => (launcher?.reads ?? 0) > before)
    launcher.become({ phase: 'Running', reason: 'booted' })
    await until(() => told.length > 0)
    expect([phase(), told]).toEqual(['Running', ['Normal Started']])
  })
})

describe('the launchers of another namespace', () => {
  let hostile: HostileLauncher[]

  afterEach(async () => {
    for (const one of hostile) await one.close()
  })

  test.each([12, 40])('%d that never answer delay neither start nor shutdown of a VM', async (count) => {
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
    const startMs = performance.now()
    schedule()
    await until(() => phase() === 'Running')
    const startedMs = performance.now()
    await kube.delete(virtualMachines, { namespace: 'default', name: 'vm' })
    await until(() => launcher?.asked.includes('POST /shutdown') ?? false)
    expect(startedMs - startMs).toBeLessThan(2000)
    expect(performance.now() - startedMs).toBeLessThan(2000)
  })
})
