import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Interface = DeviceOf<'interfaces'>

const nic = (more: Interface): Domain => ({
  memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } },
  devices: { interfaces: [{ type: 'user', ...more }] },
})

const bridge = (more: Interface): Domain => nic({ type: 'bridge', source: { bridge: 'br0' }, ...more })
const network = (more: Interface): Domain => nic({ type: 'network', source: { network: 'default' }, ...more })
const vhostuser = (more: Interface): Domain =>
  nic({ type: 'vhostuser', model: { type: 'virtio' }, source: { type: 'unix', path: '/s', mode: 'client' }, ...more })

testRule('interface-type', [
  {
    refused: vhostuser({ ips: [{ address: '10.0.2.5' }] }),
    causes: ['spec.domain.devices.interfaces[0].ips: Forbidden: must not be set for type vhostuser, only for user'],
    accepted: vhostuser({ ips: [{ address: '10.0.2.5' }], backend: { type: 'passt' }, source: {} }),
  },
  {
    refused: bridge({ port: { isolated: true }, virtualport: { type: 'openvswitch' } }),
    causes: [
      'spec.domain.devices.interfaces[0].port.isolated: Forbidden: must not be set for virtualport type openvswitch',
    ],
    accepted: bridge({ port: { isolated: true } }),
  },
  {
    refused: nic({ filterref: { filter: 'clean-traffic' } }),
    causes: [
      'spec.domain.devices.interfaces[0].filterref: Forbidden: must not be set for type user, only for network, bridge, ethernet',
    ],
    accepted: bridge({ filterref: { filter: 'clean-traffic' } }),
  },
  {
    refused: nic({ mtu: { size: 1500 } }),
    causes: [
      'spec.domain.devices.interfaces[0].mtu: Forbidden: must not be set for type user, only for network, bridge, ethernet, vhostuser',
    ],
    accepted: vhostuser({ mtu: { size: 1500 } }),
  },
  {
    refused: nic({ coalesce: { rx: { frames: { max: 7 } } } }),
    causes: [
      'spec.domain.devices.interfaces[0].coalesce: Forbidden: must not be set for type user, only for network, bridge',
    ],
    accepted: network({ coalesce: { rx: { frames: { max: 7 } } } }),
  },
  {
    refused: nic({ virtualport: { type: 'openvswitch' } }),
    causes: [
      'spec.domain.devices.interfaces[0].virtualport: Forbidden: must not be set for type user, only for network, bridge, direct, hostdev',
    ],
    accepted: bridge({ virtualport: { type: 'openvswitch' } }),
  },
  {
    refused: bridge({ ips: [{ address: '10.0.0.1' }] }),
    causes: ['spec.domain.devices.interfaces[0].ips: Forbidden: must not be set for type bridge, only for user'],
    accepted: nic({ ips: [{ address: '10.0.0.1' }] }),
  },
  {
    refused: nic({ source: { ips: [{ address: '10.0.0.1', family: 'ipv4' }] } }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ips: Forbidden: must not be set for type user, only for ethernet',
    ],
    accepted: nic({ type: 'ethernet', source: { ips: [{ address: '10.0.0.1', family: 'ipv4' }] } }),
  },
  {
    refused: nic({ source: { routes: [{ address: '10.0.0.0', gateway: '10.0.0.1', family: 'ipv4' }] } }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes: Forbidden: must not be set for type user, only for ethernet',
    ],
    accepted: nic({
      type: 'ethernet',
      source: { routes: [{ address: '10.0.0.0', gateway: '10.0.0.1', family: 'ipv4' }] },
    }),
  },
  {
    refused: nic({ vlan: { tags: [{ id: 42 }] } }),
    causes: [
      'spec.domain.devices.interfaces[0].vlan: Forbidden: must not be set for type user, only for network, bridge, ethernet, direct, hostdev, internal, vds',
    ],
    accepted: bridge({ vlan: { tags: [{ id: 42 }] }, virtualport: { type: 'openvswitch' } }),
  },
  {
    refused: bridge({ bandwidth: { inbound: { average: 1000, floor: 500 } } }),
    causes: [
      'spec.domain.devices.interfaces[0].bandwidth.inbound.floor: Forbidden: must not be set for type bridge, only for network',
    ],
    accepted: network({ bandwidth: { inbound: { average: 1000, floor: 500 } } }),
  },
  {
    refused: nic({ type: 'ethernet', routes: [{ address: '10.0.0.0', gateway: '10.0.0.1', family: 'ipv4' }] }),
    causes: ['spec.domain.devices.interfaces[0].routes: Forbidden: must not be set: QEMU does not support routes'],
    accepted: nic({ type: 'ethernet', routes: [] }),
  },
  {
    refused: nic({ port: { isolated: true } }),
    causes: [
      'spec.domain.devices.interfaces[0].port.isolated: Forbidden: must not be set for type user, only for network, bridge',
    ],
    accepted: bridge({ port: { isolated: true } }),
  },
  {
    refused: nic({ port: { isolated: true } }),
    causes: [
      'spec.domain.devices.interfaces[0].port.isolated: Forbidden: must not be set for type user, only for network, bridge',
    ],
    accepted: network({ port: { isolated: true } }),
  },
  {
    refused: bridge({ target: { dev: 'tap0', managed: false } }),
    causes: [
      'spec.domain.devices.interfaces[0].target.managed: Forbidden: must not be set for type bridge, only for ethernet',
    ],
    accepted: nic({ type: 'ethernet', target: { dev: 'tap0', managed: false } }),
  },
])

const ranges = [{ start: 8080, to: 80 }]

testRule('interface-passt', [
  {
    refused: bridge({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges: [{ start: 1 }] }] }),
    causes: [
      'spec.domain.devices.interfaces[0].backend.type: Invalid value: "passt": is only supported for type user and vhostuser',
      'spec.domain.devices.interfaces[0].portForwards: Forbidden: can only be set with backend passt, for type user and vhostuser',
    ],
    accepted: nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges: [{ start: 1 }] }] }),
  },
  {
    refused: bridge({ backend: { type: 'passt' } }),
    causes: [
      'spec.domain.devices.interfaces[0].backend.type: Invalid value: "passt": is only supported for type user and vhostuser',
    ],
    accepted: nic({ backend: { type: 'passt' } }),
  },
  {
    refused: nic({ portForwards: [{ proto: 'tcp', ranges }] }),
    causes: [
      'spec.domain.devices.interfaces[0].portForwards: Forbidden: can only be set with backend passt, for type user and vhostuser; backend: {type: passt}',
    ],
    accepted: nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges }] }),
  },
  {
    refused: bridge({ portForwards: [{ proto: 'tcp', ranges }] }),
    causes: [
      'spec.domain.devices.interfaces[0].portForwards: Forbidden: can only be set with backend passt, for type user and vhostuser',
    ],
    accepted: vhostuser({ backend: { type: 'passt' }, source: {}, portForwards: [{ proto: 'tcp', ranges }] }),
  },
  {
    refused: nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges: [{ to: 80 }] }] }),
    causes: [
      'spec.domain.devices.interfaces[0].portForwards[0].ranges[0].start: Required value: must be set for a range',
    ],
    accepted: nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges }] }),
  },
  {
    refused: nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges: [{ exclude: true }] }] }),
    causes: [
      'spec.domain.devices.interfaces[0].portForwards[0].ranges[0].start: Required value: must be set for a range',
    ],
    accepted: nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges: [{}] }] }),
  },
])

const ipv4 = (prefix: number) => ({ address: '10.0.0.1', family: 'ipv4' as const, prefix })
const ipv6 = (prefix: number) => ({ address: '2001:db8::1', family: 'ipv6' as const, prefix })

const outer = (...ips: NonNullable<NonNullable<Interface['source']>['ips']>): Domain =>
  nic({ type: 'ethernet', source: { ips } })

testRule('interface-ips', [
  {
    refused: nic({ ips: [{ address: 'fd00::5', family: 'ipv4' }] }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[0].address: Invalid value: "fd00::5": is not an IPv4 address; family: ipv6',
    ],
    accepted: nic({ ips: [{ address: 'fd00::5' }] }),
  },
  {
    refused: nic({ ips: [{ address: '10.0.2.5', family: 'ipv6' }] }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[0].address: Invalid value: "10.0.2.5": is not an IPv6 address; family: ipv4',
    ],
    accepted: nic({ ips: [{ address: '10.0.2.5' }] }),
  },
  {
    refused: outer(ipv4(24), { ...ipv4(24), peer: 'fd00::1' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ips[1].peer: Invalid value: "fd00::1": is not an IPv4 address; family: ipv6',
    ],
    accepted: outer(ipv4(24), { ...ipv4(24), peer: '10.0.0.2' }),
  },
  {
    refused: outer(ipv4(33)),
    causes: ['spec.domain.devices.interfaces[0].source.ips[0].prefix: Invalid value: 33: must be at most 32 for ipv4'],
    accepted: outer(ipv4(32)),
  },
  {
    refused: outer({ address: 'fd00::5', prefix: 129 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ips[0].prefix: Invalid value: 129: must be at most 128 for ipv6',
    ],
    accepted: outer({ address: 'fd00::5', prefix: 128 }),
  },
  {
    refused: outer({ address: 'fd00::5', peer: '10.0.0.2' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.ips[0].peer: Invalid value: "10.0.0.2": is not an IPv6 address; family: ipv4',
    ],
    accepted: outer({ address: 'fd00::5', peer: 'fd00::6' }),
  },
  {
    refused: vhostuser({ ips: [ipv4(24), ipv4(24)], backend: { type: 'passt' }, source: {} }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[1].family: Invalid value: "ipv4": already has an address; only one per family is supported',
    ],
    accepted: vhostuser({ ips: [ipv4(24), ipv6(64)], backend: { type: 'passt' }, source: {} }),
  },
  {
    refused: nic({ ips: [ipv4(33)] }),
    causes: ['spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 33: must be at most 32 for ipv4'],
    accepted: nic({ ips: [ipv4(24)] }),
  },
  {
    refused: nic({ ips: [ipv6(129)], backend: { type: 'passt' } }),
    causes: ['spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 129: must be at most 128 for ipv6'],
    accepted: nic({ ips: [ipv6(128)], backend: { type: 'passt' } }),
  },
  {
    refused: nic({ ips: [ipv4(3)] }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 3: must be from 4 to 27: QEMU itself uses 15 addresses',
    ],
    accepted: nic({ ips: [ipv4(4)] }),
  },
  {
    refused: nic({ ips: [ipv4(28)] }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 28: must be from 4 to 27: QEMU itself uses 15 addresses',
    ],
    accepted: nic({ ips: [ipv4(27)] }),
  },
  {
    refused: nic({ ips: [ipv4(28)] }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 28: must be from 4 to 27: QEMU itself uses 15 addresses',
    ],
    accepted: nic({ ips: [ipv4(28)], backend: { type: 'passt' } }),
  },
  {
    refused: nic({ ips: [ipv6(63)] }),
    causes: ['spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 63: must be 64 for ipv6'],
    accepted: nic({ ips: [ipv6(64)] }),
  },
  {
    refused: nic({ ips: [ipv6(65)] }),
    causes: ['spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 65: must be 64 for ipv6'],
    accepted: nic({ ips: [ipv6(0)] }),
  },
  {
    refused: nic({ ips: [ipv4(24), { address: '10.0.1.1', prefix: 24 }] }),
    causes: [
      `spec.domain.devices.interfaces[0].ips[1].family: Invalid value: "ipv4": already has an address; only one per family is supported (libvirt's default, ip-family)`,
    ],
    accepted: nic({ ips: [ipv4(24), ipv6(64)] }),
  },
  {
    refused: nic({ ips: [{ ...ipv4(24), peer: '10.0.0.2' }] }),
    causes: ['spec.domain.devices.interfaces[0].ips[0].peer: Forbidden: must not be set for type user'],
    accepted: nic({ ips: [ipv4(24)] }),
  },
])

testRule('interface-queues', [
  {
    refused: nic({ model: { type: 'virtio' }, driver: { queues: 2 } }),
    causes: [
      'spec.domain.devices.interfaces[0].driver.queues: Invalid value: 2: must be 1 for type user; only network, bridge, ethernet, direct, vhostuser, vdpa, hostdev support several',
    ],
    accepted: nic({ model: { type: 'virtio' }, driver: { queues: 1 } }),
  },
  {
    refused: nic({ model: { type: 'virtio' }, driver: { queues: 2 } }),
    causes: [
      'spec.domain.devices.interfaces[0].driver.queues: Invalid value: 2: must be 1 for type user; only network, bridge, ethernet, direct, vhostuser, vdpa, hostdev support several',
    ],
    accepted: bridge({ model: { type: 'virtio' }, driver: { queues: 2 } }),
  },
])

testSilent('interface-type', [nic({})])
testSilent('interface-ips', [
  bridge({ ips: [ipv4(28)] }),
  bridge({ ips: [ipv4(24), { address: '10.0.1.1', prefix: 24 }] }),
  nic({ ips: [{ address: '10.0.0.1', family: 'ipv4' }] }),
])

const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'

const port = (virtualport: NonNullable<Interface['virtualport']>): Domain =>
  nic({ type: 'direct', source: { dev: 'eth0', mode: 'vepa' }, virtualport })

testRule('interface-virtualport', [
  {
    refused: port({ type: '802.1Qbg', parameters: { profileid: 'p', interfaceid: uuid } }),
    causes: [
      'spec.domain.devices.interfaces[0].virtualport.parameters.managerid: Required value: must be set for type 802.1Qbg',
      'spec.domain.devices.interfaces[0].virtualport.parameters.typeid: Required value: must be set for type 802.1Qbg',
      'spec.domain.devices.interfaces[0].virtualport.parameters.typeidversion: Required value: must be set for type 802.1Qbg',
      'spec.domain.devices.interfaces[0].virtualport.parameters.profileid: Forbidden: must not be set for type 802.1Qbg',
      'spec.domain.devices.interfaces[0].virtualport.parameters.interfaceid: Forbidden: must not be set for type 802.1Qbg',
    ],
    accepted: port({ type: '802.1Qbg', parameters: { managerid: 1, typeid: 2, typeidversion: 3, instanceid: uuid } }),
  },
  {
    refused: port({ type: '802.1Qbh', parameters: { profileid: '', managerid: 0 } }),
    causes: [
      'spec.domain.devices.interfaces[0].virtualport.parameters.profileid: Required value: must be set for type 802.1Qbh',
      'spec.domain.devices.interfaces[0].virtualport.parameters.managerid: Forbidden: must not be set for type 802.1Qbh',
    ],
    accepted: port({ type: '802.1Qbh', parameters: { profileid: 'p' } }),
  },
  {
    refused: port({ type: 'openvswitch', parameters: { typeid: 1 } }),
    causes: [
      'spec.domain.devices.interfaces[0].virtualport.parameters.typeid: Forbidden: must not be set for type openvswitch',
    ],
    accepted: port({ type: 'openvswitch', parameters: { profileid: 'p', interfaceid: uuid } }),
  },
  {
    refused: port({ type: 'midonet' }),
    causes: [
      'spec.domain.devices.interfaces[0].virtualport.parameters.interfaceid: Required value: must be set for type midonet',
    ],
    accepted: port({ type: 'midonet', parameters: { interfaceid: uuid } }),
  },
])

testSilent('interface-virtualport', [port({}), port({ parameters: { profileid: 'p' } })])

type Route = NonNullable<NonNullable<Interface['source']>['routes']>[number]

const net: Route = { address: '10.0.2.0', gateway: '10.0.2.1' }
const route = (one: Route): Domain => nic({ type: 'ethernet', source: { routes: [{ ...net, prefix: 24 }, one] } })

testRule('interface-routes', [
  {
    refused: route({ ...net, prefix: 33 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].prefix: Invalid value: 33: must be at most 32 for ipv4',
    ],
    accepted: route({ ...net, prefix: 32 }),
  },
  {
    refused: route({ ...net, address: 'fd00::', prefix: 24 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].address: Invalid value: "fd00::": is not an IPv4 address; family: ipv6',
    ],
    accepted: route({ ...net, prefix: 24 }),
  },
  {
    refused: route({ ...net, gateway: 'fd00::1', prefix: 24 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].gateway: Invalid value: "fd00::1": is not an IPv4 address; family: ipv6',
    ],
    accepted: route({ ...net, prefix: 24, family: 'ipv4' }),
  },
  {
    refused: route({ ...net, family: 'ipv6', address: 'fd00::', prefix: 64 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].gateway: Invalid value: "10.0.2.1": is not an IPv6 address; family: ipv4',
    ],
    accepted: route({ ...net, family: 'ipv6', address: 'fd00::', gateway: 'fd00::1', prefix: 64 }),
  },
  {
    refused: route({ ...net, family: 'ipv6', address: 'fd00::', gateway: 'fd00::1', prefix: 129 }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].prefix: Invalid value: 129: must be at most 128 for ipv6',
    ],
    accepted: route({ ...net, family: 'ipv6', address: 'fd00::', gateway: 'fd00::1', prefix: 128 }),
  },
  {
    refused: route({ ...net, family: 'ipv6', address: 'fd00::', gateway: 'fd00::1', netmask: '255.255.255.0' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].netmask: Forbidden: must not be set for family ipv6, only prefix',
    ],
    accepted: route({ ...net, family: 'ipv6', address: 'fd00::', gateway: 'fd00::1', prefix: 8 }),
  },
  {
    refused: route({ ...net, prefix: 24, netmask: '255.255.255.0' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].netmask: Forbidden: must not be set together with prefix',
    ],
    accepted: route({ ...net, netmask: '255.255.255.0' }),
  },
  {
    refused: route({ ...net, netmask: 'ffff::' }),
    causes: [
      'spec.domain.devices.interfaces[0].source.routes[1].netmask: Invalid value: "ffff::": must be an IPv4 mask; e.g. 255.255.255.0',
    ],
    accepted: route({ ...net, netmask: '255.255.255.0' }),
  },
])

testRule('interface-type', [
  {
    refused: vhostuser({ filterref: { filter: 'clean-traffic' }, backend: { type: 'passt' }, source: {} }),
    causes: [
      'spec.domain.devices.interfaces[0].filterref: Forbidden: must not be set for type vhostuser, only for network, bridge, ethernet',
    ],
    accepted: vhostuser({ backend: { type: 'passt' }, source: {} }),
  },
  {
    refused: bridge({ ips: [{ address: '10.0.0.1' }], backend: { type: 'passt' } }),
    causes: ['spec.domain.devices.interfaces[0].ips: Forbidden: must not be set for type bridge, only for user'],
    accepted: bridge({}),
  },
])

testRule('interface-ips', [
  {
    refused: nic({ ips: [ipv4(32)] }),
    causes: [
      'spec.domain.devices.interfaces[0].ips[0].prefix: Invalid value: 32: must be from 4 to 27: QEMU itself uses 15 addresses',
    ],
    accepted: nic({ ips: [ipv4(27)] }),
  },
])
