import { existsSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createPlugin } from '../../../handler/device-plugin/plugin.ts'
import { register } from '../../../handler/device-plugin/registration.ts'
import { startDraDriver } from '../../dra-driver.ts'
import { openCluster, type TestCluster, type VirtualMachine } from '../cluster.ts'
import { deaf } from '../vms.ts'

/**
 * Devices that a device plugin and a DRA driver of a vendor offer to the real kubelet. This process is both; there are no
 * devices.
 */
let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(async () => {
  await cluster.kubectl('delete', 'clustervirtualmachinepreset', cluster.namespace, '--ignore-not-found')
  await cluster.close()
})

const resourceName = 'vendor.example/nic'
const node = 'node1'
const hasFailed = ({ status }: VirtualMachine) => status?.phase === 'Failed'

/** A directory of the kubelet, whose own path can be too long for a socket. */
async function openKubeletDirectory(name: string): Promise<FileHandle> {
  const directory = await open(join(cluster.state, 'nodes', node, 'kubelet', name))
  onTestFinished(() => directory.close())
  return directory
}

const withCard = (name: string) => deaf(name, { terminationGracePeriodSeconds: 0 }, {}, { labels: { card: 'granted' } })

/** Grants something of the node to the VMs of this namespace with the label. */
const grant = (spec: object): Promise<void> =>
  cluster.apply({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: cluster.namespace },
    spec: {
      selector: { matchLabels: { card: 'granted' } },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': cluster.namespace } },
      domain: { devices: { hostdevs: [{ type: 'pci', alias: { name: 'ua-card' } }] } },
      ...spec,
    },
  })

const create = (name: string, granted: string) => cluster.createWith(granted, withCard(name))

/** The words of libvirt on a machine without IOMMU, and on one with an IOMMU that has no such device. */
const noDevice = /host doesn't support passthrough of host PCI devices|fffe:fd:1e\.5/

const endOf = async (name: string) => {
  const { status } = await cluster.untilVm(name, 'has failed', hasFailed)
  return [status?.reason, status?.message, status?.nodeName]
}

/** What each of two VMs gets that follow each other: a name that is no address, and the address of no device. */
const twoNames = () => ['card0', 'fffe:fd:1e.5']

const endsOf = (place: string) => [
  ['StartFailed', `spec.hostDevices[0]: ${place} must name devices as 0000:3b:00.1, and has "card0"`, node],
  ['StartFailed', expect.stringMatching(noDevice), node],
]

test('a VM waits for a device until a plugin offers one, and libvirt refuses the one that does not exist', async () => {
  await grant({ hostDevices: [{ name: 'card', resourceName }] })
  await create('first', resourceName)
  await cluster.untilVm(
    'first',
    'waits',
    ({ status }) => status?.message?.includes(`Insufficient ${resourceName}`) === true,
  )

  const names = twoNames()
  const directory = `/proc/self/fd/${(await openKubeletDirectory('device-plugins')).fd}`
  const plugin = createPlugin({
    resourceName,
    name: 'vendor',
    directory,
    count: 1,
    allocate: async () => ({ envs: { PCIDEVICE_VENDOR_EXAMPLE_NIC: names.shift() ?? 'none' } }),
  })
  onTestFinished(() => plugin.stop())
  await plugin.listen()
  await register(directory, plugin)

  const first = await endOf('first')
  await create('second', resourceName)
  const ends = [first, await endOf('second')]
  const path = String.raw`jsonpath={.items[*].spec.containers[0].resources.limits.vendor\.example/nic}`
  const limits = await cluster.kubectl('get', 'pods', '-o', path)
  expect({ limits, ends }).toEqual({ limits: '1 1', ends: endsOf('PCIDEVICE_VENDOR_EXAMPLE_NIC') })
})

test('a device of a claim is the one that its driver describes in the pod, and libvirt refuses the one that does not exist', async () => {
  const driver = 'dra.vendor.example'
  const claim = { name: 'cards', request: 'card' }
  const device = { pool: node, name: 'card' }
  const names = twoNames()
  const running = await startDraDriver({
    name: driver,
    directory: `/proc/self/fd/${(await openKubeletDirectory('plugins_registry')).fd}`,
    podClaim: claim.name,
    prepare: () => {
      const attributes = { 'resource.kubernetes.io/pciBusID': { string: names.shift() ?? 'none' } }
      return { ...device, request: claim.request, attributes }
    },
  })
  onTestFinished(() => running.stop())
  await running.registered

  const name = cluster.namespace
  const resource = (kind: string, spec: object) => ({
    apiVersion: 'resource.k8s.io/v1',
    kind,
    metadata: { name },
    spec,
  })
  const pool = { name: device.pool, generation: 1, resourceSliceCount: 1 }
  const requests = [{ name: claim.request, exactly: { deviceClassName: name } }]
  onTestFinished(async () => {
    for (const kind of ['resourceslice', 'deviceclass'])
      await cluster.kubectl('delete', kind, name, '--ignore-not-found')
  })
  await cluster.apply(
    resource('ResourceSlice', { driver, nodeName: node, pool, devices: [{ name: device.name }] }),
    resource('DeviceClass', { selectors: [{ cel: { expression: `device.driver == "${driver}"` } }] }),
    resource('ResourceClaimTemplate', { spec: { devices: { requests } } }),
  )
  const resourceClaims = [{ name: claim.name, resourceClaimTemplateName: name }]
  await grant({ resourceClaims, hostDevices: [{ name: 'card', claim }] })
  // The kubelet deletes a pod with a claim only while the driver runs.
  onTestFinished(async () => void (await cluster.kubectl('delete', 'vm', '--all', '--timeout=240s')))
  const ends: unknown[] = []
  for (const vm of ['third', 'fourth']) {
    await create(vm, 'resourceClaimTemplateName')
    ends.push(await endOf(vm))
  }
  expect(ends).toEqual(endsOf('attribute resource.kubernetes.io/pciBusID'))
})

/** The nodes are on this machine. */
const hasVsock = existsSync('/sys/class/misc/vhost-vsock/dev')

test(`a VM with sockets to its node ${hasVsock ? 'runs' : 'waits, and says why: this machine has no /dev/vhost-vsock'}`, async () => {
  await grant({ domain: { devices: { vsock: {} } } })
  await create('vsock', '"vsock"')
  const { status } = await cluster.untilVm('vsock', 'runs or waits', ({ status: now }) =>
    hasVsock ? now?.phase === 'Running' : now?.message?.includes('Insufficient') === true,
  )
  expect(hasVsock ? status?.phase : status?.message).toMatch(
    hasVsock ? 'Running' : '(vsock requires a node with /dev/vhost-vsock, of the kernel module vhost_vsock)',
  )
})
