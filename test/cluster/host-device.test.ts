import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createPlugin } from '../../handler/device-plugin/plugin.ts'
import { register } from '../../handler/device-plugin/registration.ts'
import { openCluster, type TestCluster, type VirtualMachine } from './cluster.ts'
import { deaf } from './vms.ts'

/** Devices that a device plugin of a vendor offers to the real kubelet. This process is the plugin; there are no devices. */
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

const withCard = (name: string) => deaf(name, { terminationGracePeriodSeconds: 0 }, {}, { labels: { card: 'granted' } })

/** Grants something of the node to the VMs of this namespace with the label. @param mark what VMs then contain */
async function grant(spec: object, mark: string): Promise<void> {
  await cluster.apply({
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
  await cluster.until('the webhooks know the preset', async () => {
    const { output } = await cluster.create(withCard('try'), '--dry-run=server', '-o', 'json')
    return output.includes(mark) ? true : undefined
  })
}

/** The words of libvirt on a machine without IOMMU, and on one with an IOMMU that has no such device. */
const noDevice = /host doesn't support passthrough of host PCI devices|fffe:fd:1e\.5/

const endOf = async (name: string) => {
  const { status } = await cluster.untilVm(name, 'has failed', hasFailed)
  return [status?.reason, status?.message, status?.nodeName]
}

const variable = 'PCIDEVICE_VENDOR_EXAMPLE_NIC'

test('a VM waits for a device until a plugin offers one, and libvirt refuses the one that does not exist', async () => {
  await grant({ hostDevices: [{ name: 'card', resourceName }] }, resourceName)
  await cluster.apply(withCard('first'))
  await cluster.untilVm(
    'first',
    'waits',
    ({ status }) => status?.message?.includes(`Insufficient ${resourceName}`) === true,
  )

  // What each of two VMs gets that follow each other: a name that is no address, and the address of no device.
  const names = ['card0', 'fffe:fd:1e.5']
  const kubelet = await open(join(cluster.state, 'nodes', node, 'kubelet/device-plugins'))
  onTestFinished(() => kubelet.close())
  // The path of the directory can be too long for a socket.
  const directory = `/proc/self/fd/${kubelet.fd}`
  const plugin = createPlugin({
    resourceName,
    name: 'vendor',
    directory,
    count: 1,
    allocate: async () => ({ envs: { [variable]: names.shift() ?? 'none' } }),
  })
  onTestFinished(() => plugin.stop())
  await plugin.listen()
  await register(directory, plugin)

  const first = await endOf('first')
  await cluster.apply(withCard('second'))
  const ends = [first, await endOf('second')]
  const path = String.raw`jsonpath={.items[*].spec.containers[0].resources.limits.vendor\.example/nic}`
  const limits = await cluster.kubectl('get', 'pods', '-o', path)
  expect({ limits, ends }).toEqual({
    limits: '1 1',
    ends: [
      ['StartFailed', `spec.hostDevices[0]: ${variable} must name devices as 0000:3b:00.1, and has "card0"`, node],
      ['StartFailed', expect.stringMatching(noDevice), node],
    ],
  })
})

/** The nodes are on this machine. */
const hasVsock = existsSync('/sys/class/misc/vhost-vsock/dev')

test(`a VM with sockets to its node ${hasVsock ? 'runs' : 'waits, and says why: this machine has no /dev/vhost-vsock'}`, async () => {
  await grant({ domain: { devices: { vsock: {} } } }, '"vsock"')
  await cluster.apply(withCard('vsock'))
  const { status } = await cluster.untilVm('vsock', 'runs or waits', ({ status: now }) =>
    hasVsock ? now?.phase === 'Running' : now?.message?.includes('Insufficient') === true,
  )
  expect(hasVsock ? status?.phase : status?.message).toMatch(
    hasVsock ? 'Running' : '(vsock requires a node with /dev/vhost-vsock, of the kernel module vhost_vsock)',
  )
})
