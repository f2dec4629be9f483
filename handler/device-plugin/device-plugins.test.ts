import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLogger } from '../../runtime/log.ts'
import { fakeClock, type FakeClock } from '../../test/fake-clock.ts'
import { startFakeKubelet, type FakeKubelet } from '../../test/fake-kubelet.ts'
import { until } from '../../test/until.ts'
import { offers } from './device.ts'
import { startDevicePlugins, type DevicePlugins } from './device-plugins.ts'

const log = createLogger({ process: 'test', level: 'silent' })
const kvm = 'devices.virtset.io/kvm'
const kvmIfPresent = 'devices.virtset.io/kvm-if-present'
const count = 3

let root: string
let directory: string
let sysfs: string
let clock: FakeClock
let kubelets: FakeKubelet[]
let started: DevicePlugins | undefined
/** What was asked of `ensureNode`: numbers by path. */
let nodes: Map<string, string>
let failure: Error | undefined

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'plugins-'))
  directory = join(root, 'd')
  sysfs = join(root, 'sys')
  await mkdir(directory)
  await mkdir(sysfs)
  clock = fakeClock()
  kubelets = []
  nodes = new Map()
  failure = undefined
})
afterEach(async () => {
  await started?.stop()
  started = undefined
  for (const kubelet of kubelets) await kubelet.stop()
  await rm(root, { recursive: true })
})

async function addDevice(name: string, numbers: string): Promise<void> {
  const file = join(sysfs, 'class/misc', name, 'dev')
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, `${numbers}\n`)
}
const removeDevice = (name: string) => rm(join(sysfs, 'class/misc', name), { recursive: true })

async function startKubelet(): Promise<FakeKubelet> {
  const kubelet = await startFakeKubelet(directory)
  kubelets.push(kubelet)
  return kubelet
}

function startPlugins(): void {
  const ensureNode = async (path: string, { major, minor }: { major: number; minor: number }) => {
    if (failure !== undefined) throw failure
    nodes.set(path, `${major}:${minor}`)
  }
  started = startDevicePlugins({ offers, directory, sysfs, count, ensureNode, log, clock })
}

/** Looks again and again until something is true. */
const eventually = <T>(isTrue: () => T | Promise<T>) => until(isTrue, () => clock.advance(1000))
const healthOf = (kubelet: FakeKubelet, resource: string) =>
  kubelet.lists.get(resource)?.devices.map(({ ID, health }) => `${ID} ${health}`)
const registered = (kubelet: FakeKubelet) => kubelet.registrations.map(({ resourceName }) => resourceName).toSorted()
const allHealthy = ['kvm-0 Healthy', 'kvm-1 Healthy', 'kvm-2 Healthy']

test('a node offers the devices that it has, and the optional one in any case', async () => {
  await addDevice('kvm', '10:232')
  await addDevice('tun', '10:200')
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 3)
  expect(kubelet.registrations.find(({ resourceName }) => resourceName === kvm)).toEqual({
    version: 'v1beta1',
    endpoint: 'virtset-kvm.sock',
    resourceName: kvm,
    options: { preStartRequired: false, getPreferredAllocationAvailable: false },
  })
  expect(registered(kubelet)).toEqual([kvm, kvmIfPresent, 'devices.virtset.io/tun'])
  expect(healthOf(kubelet, kvm)).toEqual(allHealthy)
})

test('a container gets a node of the device that the plugin has created, for reading and writing', async () => {
  await addDevice('kvm', '10:232')
  await addDevice('tun', '10:200')
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 3)
  const request = { containerRequests: [{ devicesIds: ['kvm-0'] }, { devicesIds: ['kvm-1'] }] }
  const devices = [{ containerPath: '/dev/kvm', hostPath: join(directory, 'virtset/kvm'), permissions: 'rw' }]
  const given = { envs: {}, mounts: [], annotations: {}, cdiDevices: [], devices }
  expect(await kubelet.call('virtset-kvm.sock', 'Allocate', request)).toEqual({ containerResponses: [given, given] })
  expect(await kubelet.call('virtset-tun.sock', 'Allocate', { containerRequests: [{}] })).toMatchObject({
    containerResponses: [{ devices: [{ containerPath: '/dev/net/tun', hostPath: join(directory, 'virtset/tun') }] }],
  })
  expect(nodes).toEqual(
    new Map([
      [join(directory, 'virtset/kvm'), '10:232'],
      [join(directory, 'virtset/tun'), '10:200'],
    ]),
  )
})

test('without KVM, a container that only prefers it gets no device', async () => {
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 1)
  const response = await kubelet.call('virtset-kvm-if-present.sock', 'Allocate', { containerRequests: [{}] })
  expect([registered(kubelet), response]).toMatchObject([[kvmIfPresent], { containerResponses: [{ devices: [] }] }])
})

test('a device that disappears is unhealthy, is not allocated, and recovers', async () => {
  await addDevice('kvm', '10:232')
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.has(kvm))
  await removeDevice('kvm')
  await eventually(() => healthOf(kubelet, kvm)?.every((one) => one.endsWith(' Unhealthy')))
  await expect(kubelet.call('virtset-kvm.sock', 'Allocate', { containerRequests: [{}] })).rejects.toThrow(
    'this node has no /dev/kvm',
  )
  await addDevice('kvm', '10:232')
  await eventually(() => healthOf(kubelet, kvm)?.join() === allHealthy.join())
  expect(registered(kubelet)).toEqual([kvm, kvmIfPresent])
})

test('a device that appears later is offered then', async () => {
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 1)
  await addDevice('vhost-net', '10:238')
  await eventually(() => kubelet.lists.has('devices.virtset.io/vhost-net'))
  expect(registered(kubelet)).toEqual([kvmIfPresent, 'devices.virtset.io/vhost-net'])
})

test('a kubelet that starts later, or again, gets every registration', async () => {
  await addDevice('kvm', '10:232')
  startPlugins()
  await clock.advance(3000)
  const first = await startKubelet()
  await eventually(() => first.lists.size === 2)
  await first.stop()
  for (const name of await readdir(directory)) if (name.endsWith('.sock')) await rm(join(directory, name))
  const second = await startKubelet()
  await eventually(() => second.lists.size === 2)
  expect([registered(first), registered(second)]).toEqual([
    [kvm, kvmIfPresent],
    [kvm, kvmIfPresent],
  ])
})

test('a kubelet that only closes the stream is asked again', async () => {
  await addDevice('kvm', '10:232')
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 2)
  kubelet.hangUp(kvm)
  await eventually(() => registered(kubelet).length === 3)
  await eventually(() => healthOf(kubelet, kvm)?.join() === allHealthy.join())
  expect(registered(kubelet)).toEqual([kvm, kvm, kvmIfPresent])
})

test('a device whose node cannot be created is not offered until it can, except as optional', async () => {
  await addDevice('kvm', '10:232')
  failure = new Error('mknod: Operation not permitted')
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 1)
  await clock.advance(3000)
  const response = await kubelet.call('virtset-kvm-if-present.sock', 'Allocate', { containerRequests: [{}] })
  expect([registered(kubelet), response]).toMatchObject([[kvmIfPresent], { containerResponses: [{ devices: [] }] }])
  failure = undefined
  await eventually(() => kubelet.lists.size === 2)
})

test('a request of more than 256 KiB is refused', async () => {
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 1)
  const request = { containerRequests: [{ devicesIds: ['x'.repeat(300 * 1024)] }] }
  await expect(kubelet.call('virtset-kvm-if-present.sock', 'Allocate', request)).rejects.toThrow(/RESOURCE_EXHAUSTED/)
})

test('stopping ends the streams, removes the sockets and leaves no timer', async () => {
  await addDevice('kvm', '10:232')
  const kubelet = await startKubelet()
  startPlugins()
  await eventually(() => kubelet.lists.size === 2)
  await started?.stop()
  await until(() => kubelet.lists.size === 0)
  expect([await readdir(directory), clock.pending()]).toEqual([['kubelet.sock'], 0])
})
