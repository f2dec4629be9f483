import { deviceFields } from './address.ts'
import { boot } from './boot.ts'
import { attribute, child, children, element, leaf } from '../description.ts'
import { interfaceSource } from './interface-source.ts'
import { interfaceIp, interfaceRoute } from './ip.ts'
import { maxVlans } from '../limits.ts'
import { rom } from './rom.ts'
import { ip, mac, oneOf, onOff, path, port, positive32, uint32, uint64, yesNo } from '../scalar.ts'
import { teaming } from './teaming.ts'
import { virtioFields } from './virtio.ts'
import { virtualport } from './virtualport.ts'
import { anyPath, identifier, interfaceName, line, word } from '../text.ts'

const host = { reach: 'host' } as const
const pod = { reach: 'pod' } as const

const macAddress = element('The MAC address.', {
  address: attribute(mac, 'The address; generated once if absent.'),
  type: attribute(oneOf('generated', 'static'), 'Whether it belongs to the range of a hypervisor.'),
  check: attribute(yesNo, 'Whether a hypervisor checks that it belongs to its range.'),
  currentAddress: attribute(mac, 'The address that the guest has set, reported by libvirt.', { live: true }),
})

const offloads = {
  csum: attribute(onOff, 'Checksums.'),
  tso4: attribute(onOff, 'Segmentation of TCP over IPv4.'),
  tso6: attribute(onOff, 'Segmentation of TCP over IPv6.'),
  ecn: attribute(onOff, 'Explicit congestion notification.'),
  ufo: attribute(onOff, 'Fragmentation of UDP.'),
} as const

const driver = element('How QEMU serves the interface.', {
  name: attribute(
    oneOf('qemu', 'vhost', 'vfio', 'kvm'),
    'The backend: QEMU, or the kernel of the node; for a device of the node, how it is assigned.',
    { reachOf: { vhost: 'pod', vfio: 'host', kvm: 'host' } },
  ),
  model: attribute(identifier, 'The VFIO driver of the node for this device.', host),
  txmode: attribute(oneOf('iothread', 'timer'), 'How packets are sent when the buffer is full.'),
  ioeventfd: attribute(onOff, "Whether requests are handled without stopping the guest's CPU."),
  eventIdx: attribute(onOff, 'Whether guest and node suppress notifications that the other side does not need.', {
    xml: 'event_idx',
  }),
  queues: attribute(positive32, 'The number of pairs of queues.'),
  rxQueueSize: attribute(positive32, 'The number of entries of a receive queue; a power of two.', {
    xml: 'rx_queue_size',
  }),
  txQueueSize: attribute(positive32, 'The number of entries of a transmit queue; a power of two.', {
    xml: 'tx_queue_size',
  }),
  rss: attribute(onOff, 'Whether packets are distributed to the queues by their hash.'),
  rssHashReport: attribute(onOff, 'Whether the hash is reported to the guest.', { xml: 'rss_hash_report' }),
  ...virtioFields,
  host: child(
    element('What the node may offload to the guest.', {
      csum: offloads.csum,
      gso: attribute(onOff, 'Generic segmentation.'),
      tso4: offloads.tso4,
      tso6: offloads.tso6,
      ecn: offloads.ecn,
      ufo: offloads.ufo,
      mrgRxbuf: attribute(onOff, 'Whether a packet may span several buffers.', { xml: 'mrg_rxbuf' }),
    }),
    'What the node may offload to the guest.',
  ),
  guest: child(element('What the guest may offload to the node.', offloads), 'What the guest may offload to the node.'),
})

const backend = element('How the host end is created.', {
  type: attribute(oneOf('default', 'passt'), "QEMU's user-mode network, or passt.", pod),
  tap: attribute(path, 'The tun/tap device file.', host),
  vhost: attribute(path, 'The vhost device file.', host),
  logFile: attribute(path, 'Where passt writes its log.', host),
})

const range = element('Ports that are forwarded.', {
  start: attribute(port, 'The first.'),
  end: attribute(port, 'The last; a single port if absent.'),
  to: attribute(port, 'The port of the guest for the first one; the same if absent.'),
  exclude: attribute(yesNo, 'Whether these ports are excluded instead.'),
})

const portForward = element('Connections from outside that passt forwards to the guest.', {
  proto: attribute(oneOf('tcp', 'udp'), 'The protocol.', pod),
  address: attribute(ip, 'The address on which it listens; all if absent.', pod),
  dev: attribute(interfaceName, 'The interface on which it listens; all if absent.', pod),
  ranges: children('range', range, 'The ports; all if absent.'),
})

const filterref = element('A libvirt network filter.', {
  filter: attribute(line(255), 'Its name.', host),
  parameters: children(
    'parameter',
    element('A value of a variable of the filter.', {
      name: attribute(line(255), 'The variable.', host),
      value: attribute(line(), 'The value.', host),
    }),
    'Values of the variables of the filter; a repeated name adds a value.',
  ),
})

const rate = (direction: string) =>
  element(direction, {
    average: attribute(uint64, 'The average rate in KiB per second.'),
    peak: attribute(uint64, 'The peak rate in KiB per second.'),
    burst: attribute(uint64, 'The amount that may be sent at the peak rate, in KiB.'),
    floor: attribute(uint64, 'The guaranteed rate in KiB per second; inbound only.'),
  })

const bandwidth = element('Limits on the traffic, enforced outside the guest.', {
  classID: attribute(uint32, 'The traffic class, reported by libvirt.', { live: true }),
  inbound: child(rate('To the guest.'), 'To the guest.'),
  outbound: child(rate('From the guest.'), 'From the guest.'),
})

const vlan = element('The VLANs whose frames the interface carries.', {
  trunk: attribute(yesNo, 'Whether it carries several.', host),
  tags: children(
    'tag',
    element('A VLAN.', {
      id: attribute({ ...uint32, max: 4095 }, 'Its number.', host),
      nativeMode: attribute(oneOf('tagged', 'untagged'), 'How frames of the native VLAN are marked.', host),
    }),
    'The VLANs.',
    { key: [['id']], maxItems: maxVlans },
  ),
})

const coalesce = element('When the node notifies the guest of packets.', {
  rx: child(
    element('Received packets.', {
      frames: child(
        element('The number of packets to coalesce.', { max: attribute(uint32, 'The maximum number.') }),
        'The number of packets to coalesce.',
      ),
    }),
    'Received packets.',
  ),
})

const target = element('The host end.', {
  dev: attribute(interfaceName, 'The name of the tap or macvtap device; generated if absent.', pod),
  managed: attribute(yesNo, 'Whether libvirt creates the device; `no` for an existing one.', pod),
})

const script = element('A script that sets up or tears down the host end.', {
  path: attribute(anyPath, 'The script.', host),
})

/** The fields of `source` that libvirt reads, by type of interface. */
const branches: { [type: string]: readonly string[] } = {
  user: ['source.dev'],
  ethernet: ['source.ips', 'source.routes'],
  vhostuser: ['source.type', 'source.path', 'source.mode', 'source.reconnect'],
  server: ['source.ipAddress', 'source.port'],
  client: ['source.ipAddress', 'source.port'],
  mcast: ['source.ipAddress', 'source.port'],
  udp: ['source.ipAddress', 'source.port', 'source.local'],
  network: ['source.network', 'source.portgroup', 'source.portid', 'source.bridge', 'source.macTableManager'],
  bridge: ['source.bridge', 'source.macTableManager'],
  internal: ['source.name'],
  direct: ['source.dev', 'source.mode'],
  hostdev: ['source.address', 'source.vendor', 'source.product', 'source.missing'],
  vdpa: ['source.dev'],
  null: [],
  vds: ['source.switchid', 'source.portid', 'source.portgroupid', 'source.connectionid'],
}

export const networkInterface = element(
  'A network interface.',
  {
    type: attribute(
      oneOf(
        'user',
        'ethernet',
        'vhostuser',
        'server',
        'client',
        'mcast',
        'network',
        'bridge',
        'internal',
        'direct',
        'hostdev',
        'udp',
        'vdpa',
        'null',
        'vds',
      ),
      'The kind of network, which decides the fields of `source`.',
      { reach: 'host', reachOf: { user: 'pod', ethernet: 'pod', null: 'guest' } },
    ),
    managed: attribute(yesNo, 'Whether libvirt detaches the device from its driver on the node, with `hostdev`.', host),
    trustGuestRxFilters: attribute(yesNo, 'Whether the guest may change which frames reach it.', host),
    mac: child(macAddress, 'The MAC address.'),
    source: child(interfaceSource, 'What it is connected to.'),
    ips: children('ip', interfaceIp(), 'Addresses that the guest is offered, with `user`.'),
    routes: children('route', interfaceRoute(), 'Routes that the guest gets.'),
    script: child(script, 'A script that sets up the host end, with `ethernet`.'),
    downscript: child(script, 'A script that tears down the host end, with `ethernet`.'),
    vlan: child(vlan, 'The VLANs whose frames it carries.'),
    virtualport: child(virtualport, 'The port of a virtualization-aware switch.'),
    portForwards: children('portForward', portForward, 'Connections from outside that passt forwards to the guest.'),
    target: child(target, 'The host end.'),
    model: child(
      element('The network card that the guest sees.', {
        type: attribute(word, 'The card: `virtio`, `e1000e`, `rtl8139`, …; the machine decides if absent.'),
      }),
      'The network card that the guest sees.',
    ),
    driver: child(driver, 'How QEMU serves the interface.'),
    backend: child(backend, 'How the host end is created.'),
    filterref: child(filterref, 'A libvirt network filter.'),
    tune: child(
      element('Settings of the host end.', { sndbuf: leaf(uint64, 'The size of the send buffer in bytes.') }),
      'Settings of the host end.',
    ),
    bandwidth: child(bandwidth, 'Limits on the traffic.'),
    link: child(
      element('The state of the link.', { state: attribute(oneOf('up', 'down'), 'Whether the cable is plugged in.') }),
      'The state of the link.',
    ),
    mtu: child(
      element('The largest packet.', { size: attribute({ ...uint32, max: 65_535 }, 'Bytes.') }),
      'The largest packet.',
    ),
    coalesce: child(coalesce, 'When the node notifies the guest of packets.'),
    port: child(
      element('The port of the bridge.', {
        isolated: attribute(yesNo, 'Whether it reaches only ports that are not isolated.', host),
      }),
      'The port of the bridge.',
    ),
    teaming: child(teaming, 'A second interface that replaces this one during migration.'),
    boot: child(boot, 'The position in the boot order.'),
    rom: child(rom, 'The option ROM.'),
    ...deviceFields,
  },
  { union: { by: 'type', owns: ['source'], branches } },
)
