import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { runKubectl } from './kubectl.ts'
import { installProcesses } from './processes.ts'
import type { Processes } from './processes.ts'

/** Attempts of a namespace's admin to reach the host, with the real webhooks and controller and their accounts. */
let api: TestApiServer
let processes: Processes

const kubectl = (input: object | undefined, ...rest: string[]) =>
  runKubectl(api, input === undefined ? '' : JSON.stringify(input), ...rest)
const create = (object: object) => kubectl(object, 'create', '-f', '-')
const field = async (path: string, ...what: string[]) =>
  (await kubectl(undefined, 'get', ...what, '--ignore-not-found', '-o', `jsonpath=${path}`)).out
const condition = (name: string, type: string) => field(`{.status.conditions[?(@.type=="${type}")].reason}`, 'vm', name)
const podOf = (name: string) => field('{.items[*].metadata.name}', 'pods', '-l', `virtset.io/vm-name=${name}`)
const eventually = (isTrue: () => Promise<boolean>, what: () => Promise<string>) => {
  let seen = ''
  const check = async () => {
    const isDone = await isTrue()
    seen = isDone ? '' : await what()
    return isDone
  }
  return until(check, undefined, { deadlineMs: 60_000, describe: () => seen })
}

const apiVersion = 'virtset.io/v1alpha1'
const usb = (vendor: string, product: string) => ({
  mode: 'subsystem',
  type: 'usb',
  source: { vendor: { id: vendor }, product: { id: product } },
})
const granted = [usb('0x1050', '0x0407'), usb('0x1234', '0xbeef')]
const stolen = usb('0xdead', '0x0001')
const vm = (name: string, devices: object, metadata: object = {}, spec: object = {}) => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name, namespace: 'default', ...metadata },
  spec: {
    domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } }, devices },
    ...spec,
  },
})
const preset = (kind: string, name: string, spec: object) => ({ apiVersion, kind, metadata: { name }, spec })
const claim = (by: unknown[], at: object) => ({ 'virtset.io/completed-by': JSON.stringify({ v: 1, by, at }) })
const selecting = (labels: object) => ({ selector: { matchLabels: labels } })

const writable = { type: 'mount', source: { dir: '/data' }, target: { dir: 'data' } }
const shared = { ...writable, readonly: {} }
/** Of a VM that was stored without the webhooks, and claims that it was completed. */
const claimed = {
  labels: { shared: 'yes' },
  annotations: claim([['', 'shared', 'r']], { spec: { domain: { devices: { filesystems: 0 } } } }),
}

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  const presets = [
    preset('ClusterVirtualMachinePreset', 'usb', {
      ...selecting({ usb: 'yes' }),
      domain: { devices: { hostdevs: granted } },
    }),
    preset('ClusterVirtualMachinePreset', 'private-usb', {
      selector: {
        matchLabels: { 'private-usb': 'yes' },
        matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['public'] }],
      },
      domain: { devices: { hostdevs: [granted[0]] } },
    }),
    preset('ClusterVirtualMachinePreset', 'ovs', {
      ...selecting({ ovs: 'yes' }),
      matchConditions: [
        {
          name: 'no-interfaces',
          expression: '!has(object.spec.domain.devices) || !has(object.spec.domain.devices.interfaces)',
        },
      ],
      domain: {
        devices: {
          interfaces: [{ type: 'bridge', source: { bridge: 'br0' }, virtualport: { type: 'openvswitch' } }],
        },
      },
    }),
    preset('ClusterVirtualMachinePreset', 'shared', {
      ...selecting({ shared: 'yes' }),
      strength: 'Enforce',
      domain: { devices: { filesystems: [shared] } },
    }),
    preset('VirtualMachinePreset', 'label', { ...selecting({ chain: 'yes' }), metadata: { labels: { drop: 'yes' } } }),
    preset('VirtualMachinePreset', 'drop', {
      ...selecting({ drop: 'yes' }),
      strength: 'Enforce',
      remove: ['domain.devices.hostdevs[0]'],
    }),
  ]
  // Without the webhooks no grant is checked; the controller quarantines invalid presets.
  for (const one of presets) {
    const { err } = await create(one)
    if (err !== '') throw new Error(err)
  }
  const stored = [
    vm('read-only', { filesystems: [shared] }, claimed),
    vm('writable', { filesystems: [writable] }, claimed),
  ]
  for (const one of stored) {
    const { err } = await create(one)
    if (err !== '') throw new Error(err)
  }
  await processes.startWebhooks('webhooks')
  await processes.startController('controller')
})
afterAll(async () => {
  await processes?.stop()
  await api?.stop()
})

const forged = claim([['', 'usb', 'r'], '=uuid'], {
  metadata: { labels: { drop: 1 } },
  spec: { domain: { devices: { hostdevs: { 0: 0, 1: 0 } } } },
})

test.each<[string, object, string]>([
  [
    'an item that takes the place of a granted one',
    vm('moved', { hostdevs: [...granted, stolen] }, { labels: { usb: 'yes', drop: 'yes' }, annotations: forged }),
    'spec.domain.devices.hostdevs[1].source.vendor.id: Forbidden',
  ],
  [
    'the same by a chain of presets',
    vm(
      'chain',
      { hostdevs: [...granted, stolen] },
      { labels: { usb: 'yes', chain: 'yes', drop: 'yes' }, annotations: forged },
    ),
    'spec.domain.devices.hostdevs[2].source.vendor.id: Forbidden',
  ],
  [
    'a device that the grant excludes by a label, which the claim hides',
    vm(
      'public',
      { hostdevs: [granted[0]] },
      {
        labels: { 'private-usb': 'yes', tier: 'public' },
        annotations: claim([['', 'private-usb', 'r'], '=uuid'], {
          metadata: { labels: { tier: 1 } },
          spec: { domain: { devices: { hostdevs: 0 } } },
        }),
      },
    ),
    'spec.domain.devices.hostdevs[0].source.vendor.id: Forbidden',
  ],
  ['a vsock of which all is a default', vm('vsock', { vsock: {} }), 'spec.domain.devices.vsock: Forbidden'],
])('refuses %s', async (_, object, message) => {
  const { code, err } = await create(object)
  expect([code, err]).toEqual([1, expect.stringContaining(message)])
})

test('creates the pod of a VM with a granted port of Open vSwitch', async () => {
  expect((await create(vm('ovs', {}, { labels: { ovs: 'yes' } }))).err).toBe('')
  await eventually(
    async () => (await podOf('ovs')) !== '',
    () => field('{.status}', 'vm', 'ovs'),
  )
  expect(await field('{.spec.domain.devices.interfaces[0].virtualport.parameters.interfaceid}', 'vm', 'ovs')).toMatch(
    /^[0-9a-f-]{36}$/,
  )
})

test('creates no pod for a VM without an enforced option that was stored without the webhooks', async () => {
  await eventually(
    async () => (await podOf('read-only')) !== '' && (await condition('writable', 'Completed')) === 'CompletionRefused',
    () => field('{.items[*].status}', 'vms'),
  )
  expect(await field('{.status.conditions[?(@.type=="Completed")].message}', 'vm', 'writable')).toContain(
    'filesystems[0].source.dir',
  )
  expect(await podOf('writable')).toBe('')
})

test('does not adopt a pod that a user created in place of the launcher’s', async () => {
  const volumes = [{ name: 'root', persistentVolumeClaim: { claimName: 'later' } }]
  const disks = [{ type: 'volume', device: 'disk', source: { volume: 'root' }, target: { dev: 'vda' } }]
  expect((await create(vm('waiting', { disks }, {}, { volumes }))).err).toBe('')
  await eventually(
    async () => (await condition('waiting', 'PodScheduled')) === 'ClaimNotFound',
    () => field('{.status}', 'vm', 'waiting'),
  )
  const uid = await field('{.metadata.uid}', 'vm', 'waiting')
  const name = `virt-launcher-waiting-${uid.replaceAll('-', '').slice(0, 8)}`
  const owner = { apiVersion, kind: 'VirtualMachine', name: 'waiting', uid, controller: true, blockOwnerDeletion: true }
  const evil = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', labels: { 'virtset.io/vm-uid': uid }, ownerReferences: [owner] },
    spec: { nodeName: 'node1', containers: [{ name: 'compute', image: 'evil:1' }] },
  }
  expect((await create(evil)).err).toContain('set the label virtset.io/vm-uid of a pod')
  // The controller does not rely on the policy, which an operator may have removed.
  await kubectl(undefined, 'delete', 'validatingadmissionpolicybinding', 'virtset-launcher-pods')
  let error = ''
  await eventually(
    async () => (error = (await create(evil)).err) === '',
    () => Promise.resolve(error),
  )
  const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } }
  const later = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'later', namespace: 'default' } }
  expect((await create({ ...later, spec: claim })).err).toBe('')
  await eventually(
    async () => (await condition('waiting', 'PodScheduled')) === 'PodNotOwn',
    () => field('{.status}', 'vm', 'waiting'),
  )
  expect(await field('{.status.podUID}{.status.nodeName}', 'vm', 'waiting')).toBe('')
  const events = () => field('{.items[*].reason}', 'events', '--field-selector', `involvedObject.uid=${uid}`)
  await eventually(async () => (await events()).includes('PodNotOwn'), events)
})

test('accepts the variable store of a VM that is named after its completion, or copied, in each replica and the controller', async () => {
  await processes.startWebhooks('webhooks-2')
  const domain = { features: { acpi: {} }, os: { type: { os: 'hvm' }, firmware: 'efi' } }
  const { spec, ...object } = vm('original', {})
  const efi = (metadata: object) => ({
    ...object,
    metadata: { namespace: 'default', labels: { efi: 'yes' }, ...metadata },
    spec: { domain: { ...spec.domain, ...domain } },
  })
  const createAll = async (...items: readonly object[]) => {
    const { code, err } = await create({ apiVersion: 'v1', kind: 'List', items })
    expect(code, err).toBe(0)
  }
  // Each replica completes some that the other one validates.
  const generated = Array.from({ length: 12 }, () => efi({ generateName: 'generated-' }))
  await createAll(efi({ name: 'original' }), ...generated)
  const original = JSON.parse((await kubectl(undefined, 'get', 'vm', 'original', '-o', 'json')).out)
  const { labels, annotations } = original.metadata
  const copies = ['copy-0', 'copy-1'].map((name) => ({ ...efi({ name, labels, annotations }), spec: original.spec }))
  await createAll(...copies)
  const names = (await field('{.items[*].metadata.name}', 'vms', '-l', 'efi=yes')).split(' ')
  expect(names).toHaveLength(15)
  await eventually(
    async () => (await Promise.all(names.map(podOf))).every((pod) => pod !== ''),
    () => field('{.items[*].status}', 'vms', '-l', 'efi=yes'),
  )
  const stores = (await field('{.items[*].spec.domain.os.nvram.value}', 'vms', '-l', 'efi=yes')).split(' ')
  expect(new Set(stores).size).toBe(13)
})
