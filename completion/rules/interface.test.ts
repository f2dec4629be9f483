import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Interface = DeviceOf<'interfaces'>

const shared: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }

const nics = (...interfaces: Interface[]): Domain => ({ ...shared, devices: { interfaces } })

const virtio = (more: Interface): Domain => nics({ type: 'user', model: { type: 'virtio' }, ...more })

const hostdev = (address: object): Domain => ({
  devices: { interfaces: [{ type: 'hostdev', managed: true, source: { address } }] },
})

testRule('interface-source', [
  {
    refused: hostdev({ bus: 3, slot: 7 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.address.type: Required value: must be set for type hostdev; e.g. pci',
    ],
    accepted: hostdev({ type: 'pci', bus: 3, slot: 7 }),
  },
  {
    refused: nics({ type: 'vds', source: { portid: '1' } }),
    causes: ['spec.domain.devices.interfaces[0].source.switchid: Required value: must be set for type vds'],
    accepted: nics({ type: 'vds', source: { portid: '1', switchid: '09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f' } }),
  },
  {
    refused: nics({ type: 'bridge' }),
    causes: ['spec.domain.devices.interfaces[0].source.bridge: Required value: must be set for type bridge'],
    accepted: nics({ type: 'bridge', source: { bridge: 'br0' } }),
  },
  {
    refused: nics({ type: 'bridge', source: { bridge: '' } }),
    causes: ['spec.domain.devices.interfaces[0].source.bridge: Required value: must be set for type bridge'],
    accepted: nics({ type: 'bridge', source: { bridge: 'br0' } }),
  },
  {
    refused: nics({ type: 'network', source: { portgroup: 'a' } }),
    causes: ['spec.domain.devices.interfaces[0].source.network: Required value: must be set for type network'],
    accepted: nics({ type: 'network', source: { network: 'default', portgroup: 'a' } }),
  },
  {
    refused: nics({ type: 'direct', source: { mode: 'bridge' } }),
    causes: ['spec.domain.devices.interfaces[0].source.dev: Required value: must be set for type direct'],
    accepted: nics({ type: 'direct', source: { mode: 'bridge', dev: 'eth0' } }),
  },
  {
    refused: nics({ type: 'vdpa', model: { type: 'virtio' } }),
    causes: ['spec.domain.devices.interfaces[0].source.dev: Required value: must be set for type vdpa'],
    accepted: nics({ type: 'vdpa', model: { type: 'virtio' }, source: { dev: '/dev/vhost-vdpa-0' } }),
  },
  {
    refused: nics({ type: 'internal' }),
    causes: ['spec.domain.devices.interfaces[0].source.name: Required value: must be set for type internal'],
    accepted: nics({ type: 'internal', source: { name: 'a' } }),
  },
  {
    refused: nics({ type: 'server', source: { ipAddress: '10.0.0.1' } }),
    causes: ['spec.domain.devices.interfaces[0].source.port: Required value: must be set for type server'],
    accepted: nics({ type: 'server', source: { ipAddress: '10.0.0.1', port: 5555 } }),
  },
  {
    refused: nics({ type: 'client' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ipAddress: Required value: must be set for type client',
      'spec.domain.devices.interfaces[0].source.port: Required value: must be set for type client',
    ],
    accepted: nics({ type: 'client', source: { ipAddress: '10.0.0.1', port: 5555 } }),
  },
  {
    refused: nics({ type: 'mcast' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ipAddress: Required value: must be set for type mcast',
      'spec.domain.devices.interfaces[0].source.port: Required value: must be set for type mcast',
    ],
    accepted: nics({ type: 'mcast', source: { ipAddress: '230.0.0.1', port: 5555 } }),
  },
  {
    refused: nics({ type: 'udp' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ipAddress: Required value: must be set for type udp',
      'spec.domain.devices.interfaces[0].source.port: Required value: must be set for type udp',
      'spec.domain.devices.interfaces[0].source.local: Required value: must be set for type udp',
    ],
    accepted: nics({
      type: 'udp',
      source: { ipAddress: '10.0.0.1', port: 5555, local: { address: '10.0.0.2', port: 5556 } },
    }),
  },
  {
    refused: nics({ type: 'hostdev' }),
    causes: ['spec.domain.devices.interfaces[0].source.address: Required value: must be set for type hostdev'],
    accepted: nics({ type: 'hostdev', source: { address: { type: 'pci', bus: 1, slot: 2, function: 3 } } }),
  },
  {
    refused: nics({ type: 'vhostuser', model: { type: 'virtio' }, source: { mode: 'client' } }),
    causes: [
      'spec.domain.devices.interfaces[0].source.path: Required value: must be set for type vhostuser: the path of the socket',
    ],
    accepted: nics({
      type: 'vhostuser',
      model: { type: 'virtio' },
      source: { type: 'unix', path: '/socket', mode: 'client' },
    }),
  },
  {
    refused: nics({ type: 'vhostuser', model: { type: 'virtio' }, source: { path: '/socket', mode: 'bridge' } }),
    causes: [
      'spec.domain.devices.interfaces[0].source.mode: Required value: must be client or server for type vhostuser',
    ],
    accepted: nics({
      type: 'vhostuser',
      model: { type: 'virtio' },
      source: { type: 'unix', path: '/socket', mode: 'server' },
    }),
  },
  {
    refused: nics({ type: 'vhostuser', model: { type: 'virtio' } }),
    causes: [
      'spec.domain.devices.interfaces[0].source.path: Required value: must be set for type vhostuser: the path of the socket',
      'spec.domain.devices.interfaces[0].source.mode: Required value: must be client or server for type vhostuser',
    ],
    accepted: nics({ type: 'vhostuser', model: { type: 'virtio' }, backend: { type: 'passt' } }),
  },
  {
    refused: nics({
      type: 'vhostuser',
      model: { type: 'virtio' },
      source: { type: 'unix', path: '/socket', mode: 'server', reconnect: { enabled: true, timeout: 1 } },
    }),
    causes: [
      'spec.domain.devices.interfaces[0].source.reconnect: Forbidden: can only be set for mode client: a server does not connect',
    ],
    accepted: nics({
      type: 'vhostuser',
      model: { type: 'virtio' },
      source: { type: 'unix', path: '/socket', mode: 'client', reconnect: { enabled: true, timeout: 1 } },
    }),
  },
])

const passedThrough = (driver: Interface['driver'] = {}): Domain =>
  nics({ type: 'hostdev', source: { address: { type: 'pci', bus: 1, slot: 2, function: 3 } }, driver })

testRule('interface-driver', [
  {
    refused: virtio({ driver: { rxQueueSize: 511 } }),
    causes: ['spec.domain.devices.interfaces[0].driver.rxQueueSize: Invalid value: 511: must be a power of two'],
    accepted: virtio({ driver: { rxQueueSize: 512 } }),
  },
  {
    refused: virtio({ driver: { txQueueSize: 257 } }),
    causes: ['spec.domain.devices.interfaces[0].driver.txQueueSize: Invalid value: 257: must be a power of two'],
    accepted: virtio({ driver: { txQueueSize: 256 } }),
  },
  {
    refused: passedThrough({ name: 'vhost' }),
    causes: ['spec.domain.devices.interfaces[0].driver.name: Invalid value: "vhost": must be vfio for type hostdev'],
    accepted: passedThrough({ name: 'vfio' }),
  },
  {
    refused: passedThrough({ name: 'qemu' }),
    causes: ['spec.domain.devices.interfaces[0].driver.name: Invalid value: "qemu": must be vfio for type hostdev'],
    accepted: passedThrough(),
  },
  {
    refused: passedThrough({ packed: true }),
    causes: [
      'spec.domain.devices.interfaces[0].driver.packed: Forbidden: can only be set for virtio models, not for a device of the host',
    ],
    accepted: passedThrough(),
  },
  {
    refused: virtio({ model: { type: 'e1000' }, driver: { iommu: true, ats: true, packed: true, pagePerVq: true } }),
    causes: [
      'spec.domain.devices.interfaces[0].driver.iommu: Forbidden: can only be set for virtio models, not for e1000',
      'spec.domain.devices.interfaces[0].driver.ats: Forbidden: can only be set for virtio models, not for e1000',
      'spec.domain.devices.interfaces[0].driver.packed: Forbidden: can only be set for virtio models, not for e1000',
      'spec.domain.devices.interfaces[0].driver.pagePerVq: Forbidden: can only be set for virtio models, not for e1000',
    ],
    accepted: virtio({ driver: { iommu: true, ats: true, packed: true, pagePerVq: true } }),
  },
])

testRule('interface-mac', [
  {
    refused: virtio({ mac: { address: '01:54:00:12:34:56' } }),
    causes: [
      'spec.domain.devices.interfaces[0].mac.address: Invalid value: "01:54:00:12:34:56": is a multicast address; the first byte must be even; e.g. 52:54:00:12:34:56',
    ],
    accepted: virtio({ mac: { address: '02:54:00:12:34:56' } }),
  },
])

const sharedMemory: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }
const vhostUser: Interface = { type: 'vhostuser', source: { type: 'unix', path: '/s', mode: 'client' } }

testRule('interface-model', [
  {
    refused: nics({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' }, model: { type: 'e1000' } }),
    causes: ['spec.domain.devices.interfaces[0].model.type: Invalid value: "e1000": must be virtio for type vdpa'],
    accepted: nics({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' }, model: { type: 'Virtio' } }),
  },
  {
    refused: { ...sharedMemory, ...nics({ ...vhostUser, model: { type: 'e1000' } }) },
    causes: ['spec.domain.devices.interfaces[0].model.type: Invalid value: "e1000": must be virtio for type vhostuser'],
    accepted: { ...sharedMemory, ...nics({ ...vhostUser, model: { type: 'virtio' } }) },
  },
])

const persistent: Interface = {
  type: 'user',
  model: { type: 'virtio' },
  alias: { name: 'ua-net' },
  teaming: { type: 'persistent' },
}

const transient = (more: Interface): Interface => ({
  type: 'hostdev',
  source: { address: { type: 'pci', bus: 1, slot: 2, function: 3 } },
  ...more,
})

const withHostdev = (teaming: DeviceOf<'hostdevs'>['teaming']): Domain => ({
  devices: {
    interfaces: [persistent],
    hostdevs: [
      {
        mode: 'subsystem',
        type: 'pci',
        source: { address: { type: 'pci', bus: 1, slot: 2 } },
        ...(teaming === undefined ? {} : { teaming }),
      },
    ],
  },
})

testRule('interface-teaming', [
  {
    refused: nics({ ...persistent, teaming: { type: 'persistent', persistent: 'ua-net' } }),
    causes: [
      'spec.domain.devices.interfaces[0].teaming.persistent: Forbidden: must not be set for type persistent, only for transient',
    ],
    accepted: nics(persistent),
  },
  {
    refused: nics({ ...persistent, model: { type: 'e1000' } }),
    causes: [
      'spec.domain.devices.interfaces[0].teaming.type: Invalid value: "persistent": is only supported for model virtio',
    ],
    accepted: nics(persistent),
  },
  {
    refused: nics(persistent, { type: 'user', teaming: { type: 'transient', persistent: 'ua-net' } }),
    causes: [
      'spec.domain.devices.interfaces[1].teaming.type: Invalid value: "transient": is only supported for type hostdev and network',
    ],
    accepted: nics(persistent, transient({ teaming: { type: 'transient', persistent: 'ua-net' } })),
  },
  {
    refused: nics(persistent, transient({ teaming: { type: 'transient' } })),
    causes: [
      'spec.domain.devices.interfaces[1].teaming.persistent: Required value: must be set: the alias of the persistent interface',
    ],
    accepted: nics(persistent, transient({ teaming: { type: 'transient', persistent: 'ua-net' } })),
  },
  {
    refused: nics(persistent, transient({ teaming: { type: 'transient', persistent: 'ua-other' } })),
    causes: [
      'spec.domain.devices.interfaces[1].teaming.persistent: Not found: "ua-other": no interface has this alias',
    ],
    accepted: nics(persistent, transient({ teaming: { type: 'transient', persistent: 'ua-net' } })),
  },
  {
    refused: nics(persistent, {
      type: 'user',
      teaming: { type: 'transient', persistent: 'ua-net' },
    }),
    causes: [
      'spec.domain.devices.interfaces[1].teaming.type: Invalid value: "transient": is only supported for type hostdev and network',
    ],
    accepted: nics(persistent, {
      type: 'network',
      source: { network: 'default' },
      teaming: { type: 'transient', persistent: 'ua-net' },
    }),
  },
  {
    refused: withHostdev({ type: 'transient', persistent: 'ua-other' }),
    causes: ['spec.domain.devices.hostdevs[0].teaming.persistent: Not found: "ua-other": no interface has this alias'],
    accepted: withHostdev({ type: 'transient', persistent: 'ua-net' }),
  },
])

testSilent('interface-driver', [virtio({ model: { type: 'e1000' }, driver: { name: 'qemu' } })])
testSilent('interface-teaming', [withHostdev({ type: 'persistent' })])
testSilent('interface-model', [nics({ type: 'user', model: { type: 'e1000' } })])
