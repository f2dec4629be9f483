import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Hostdev = DeviceOf<'hostdevs'>
type Source = NonNullable<Hostdev['source']>

const hostdevs = (...hostdevs: Hostdev[]): Domain => ({ devices: { hostdevs } })

const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'

const mdev = (more: Hostdev = {}): Hostdev => ({
  type: 'mdev',
  model: 'vfio-pci',
  source: { address: { uuid } },
  ...more,
})

const pci = (address: NonNullable<Source['address']> = { bus: 6, slot: 1 }): Hostdev => ({
  type: 'pci',
  source: { address },
})

const usb = (source: Source): Hostdev => ({ type: 'usb', source })

const scsi = (source: Source = {}): Hostdev => ({
  type: 'scsi',
  source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 }, ...source },
})

const iscsi = (source: Source = {}): Hostdev => ({
  type: 'scsi',
  source: { protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', host: { name: 'h' }, ...source },
})

const wwpn = 'naa.5123456789abcdef'

const vhost = (source: Source): Hostdev => ({ type: 'scsi_host', source })

testRule('hostdev-source', [
  {
    refused: hostdevs({ source: { address: { bus: 6, slot: 1 } } }),
    causes: ['spec.domain.devices.hostdevs[0].type: Required value: must be set: the kind of device'],
    accepted: hostdevs(pci()),
  },
  {
    refused: hostdevs({ type: 'mdev', source: { address: { bus: 6, slot: 1 } } }),
    causes: [
      'spec.domain.devices.hostdevs[0].source.address.uuid: Required value: must be set for type mdev',
      'spec.domain.devices.hostdevs[0].model: Required value: must be set for type mdev; e.g. vfio-pci',
    ],
    accepted: hostdevs(mdev()),
  },
  {
    refused: hostdevs(pci({ bus: 256, slot: 1 })),
    causes: ['spec.domain.devices.hostdevs[0].source.address.bus: Invalid value: "0x100": must be at most 255'],
    accepted: hostdevs(pci({ bus: 255, slot: 31 })),
  },
  {
    refused: hostdevs({ type: 'pci' }),
    causes: ['spec.domain.devices.hostdevs[0].source.address: Required value: must be set for type pci'],
    accepted: hostdevs(pci()),
  },
  {
    refused: hostdevs(usb({ vendor: { id: '0' }, product: { id: '1' } })),
    causes: ['spec.domain.devices.hostdevs[0].source.vendor.id: Invalid value: "0x0000": must not be 0'],
    accepted: hostdevs(usb({ vendor: { id: '0x1234' }, product: { id: '1' } })),
  },
  {
    refused: hostdevs(usb({ address: { bus: 1 } })),
    causes: ['spec.domain.devices.hostdevs[0].source.address.device: Required value: must be set together with bus'],
    accepted: hostdevs(usb({ address: { bus: 1, device: 2 } })),
  },
  {
    refused: hostdevs(usb({})),
    causes: [
      'spec.domain.devices.hostdevs[0].source.address: Required value: must be set for type usb, or vendor and product instead',
    ],
    accepted: hostdevs(usb({ vendor: { id: '0x1234' }, product: { id: '1' } })),
  },
  {
    refused: hostdevs(usb({ vendor: { id: '0x1234' } })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.address: Required value: must be set for type usb, or vendor and product instead',
    ],
    accepted: hostdevs(usb({ address: { bus: 1, device: 2 } })),
  },
  {
    refused: hostdevs(usb({ product: { id: '0x1234' } })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.address: Required value: must be set for type usb, or vendor and product instead',
    ],
    accepted: hostdevs(usb({ vendor: { id: '0x1234' }, product: { id: '1' } })),
  },
  {
    refused: hostdevs({ type: 'scsi' }),
    causes: [
      'spec.domain.devices.hostdevs[0].source.adapter.name: Required value: must be set for type scsi',
      'spec.domain.devices.hostdevs[0].source.address.bus: Required value: must be set for type scsi: the unit of the adapter',
      'spec.domain.devices.hostdevs[0].source.address.target: Required value: must be set for type scsi: the unit of the adapter',
      'spec.domain.devices.hostdevs[0].source.address.unit: Required value: must be set for type scsi: the unit of the adapter',
    ],
    accepted: hostdevs(scsi()),
  },
  {
    refused: hostdevs(scsi({ address: { bus: 0 } })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.address.target: Required value: must be set for type scsi: the unit of the adapter',
      'spec.domain.devices.hostdevs[0].source.address.unit: Required value: must be set for type scsi: the unit of the adapter',
    ],
    accepted: hostdevs(scsi({ address: { bus: 0, target: 0, unit: 0 } })),
  },
  {
    refused: hostdevs({ type: 'scsi', source: { protocol: 'iscsi' } }),
    causes: [
      'spec.domain.devices.hostdevs[0].source.name: Required value: must be set for protocol iscsi',
      'spec.domain.devices.hostdevs[0].source.hosts: Required value: must have one server for protocol iscsi',
    ],
    accepted: hostdevs(iscsi()),
  },
  {
    refused: hostdevs({
      type: 'scsi',
      source: { protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', hosts: [{ name: 'h' }, { name: 'h' }] },
    }),
    causes: ['spec.domain.devices.hostdevs[0].source.hosts: Required value: must have one server for protocol iscsi'],
    accepted: hostdevs({
      type: 'scsi',
      source: { protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', hosts: [{ name: 'h' }] },
    }),
  },
  {
    refused: hostdevs(iscsi({ auth: { username: 'me', secret: { type: 'ceph', usage: 'mine' } } })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.auth.secret.type: Invalid value: "ceph": must be iscsi for protocol iscsi; did you mean "iscsi"?',
    ],
    accepted: hostdevs(iscsi({ auth: { username: 'me', secret: { type: 'iscsi', usage: 'mine' } } })),
  },
  {
    refused: hostdevs(iscsi({ auth: { username: 'me', secret: { type: 'ceph', usage: 'mine' } } })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.auth.secret.type: Invalid value: "ceph": must be iscsi for protocol iscsi; did you mean "iscsi"?',
    ],
    accepted: hostdevs(iscsi({})),
  },
  {
    refused: hostdevs(vhost({})),
    causes: ['spec.domain.devices.hostdevs[0].source.protocol: Required value: must be set for type scsi_host; vhost'],
    accepted: hostdevs(vhost({ protocol: 'vhost', wwpn })),
  },
  {
    refused: hostdevs(vhost({ protocol: 'iscsi', wwpn })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.protocol: Unsupported value: "iscsi": must be vhost for type scsi_host',
    ],
    accepted: hostdevs(vhost({ protocol: 'vhost', wwpn })),
  },
  {
    refused: hostdevs(vhost({ protocol: 'vhost' })),
    causes: ['spec.domain.devices.hostdevs[0].source.wwpn: Required value: must be set for type scsi_host'],
    accepted: hostdevs(vhost({ protocol: 'vhost', wwpn })),
  },
  {
    refused: hostdevs(vhost({ protocol: 'vhost', wwpn: '5123456789abcdef' })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.wwpn: Invalid value: "5123456789abcdef": must be naa. and 16 hexadecimal digits',
    ],
    accepted: hostdevs(vhost({ protocol: 'vhost', wwpn: 'NAA.5123456789ABCDEF' })),
  },
])

testRule('hostdev-address-type', [
  {
    refused: hostdevs(mdev({ address: { type: 'drive' } })),
    causes: ['spec.domain.devices.hostdevs[0].address.type: Invalid value: "drive": must be pci for type mdev'],
    accepted: hostdevs(mdev({ address: { type: 'pci', slot: 9 } })),
  },
  {
    refused: hostdevs({ ...pci(), address: { type: 'drive' } }),
    causes: ['spec.domain.devices.hostdevs[0].address.type: Invalid value: "drive": must be pci for type pci'],
    accepted: hostdevs({ ...pci(), address: { type: 'unassigned' } }),
  },
  {
    refused: hostdevs({ ...usb({ address: { bus: 1, device: 2 } }), address: { type: 'pci', slot: 9 } }),
    causes: ['spec.domain.devices.hostdevs[0].address.type: Invalid value: "pci": must be usb for type usb'],
    accepted: hostdevs({ ...usb({ address: { bus: 1, device: 2 } }), address: { type: 'usb', bus: 0, port: '1' } }),
  },
  {
    refused: hostdevs({ ...scsi(), address: { type: 'pci', slot: 9 } }),
    causes: ['spec.domain.devices.hostdevs[0].address.type: Invalid value: "pci": must be drive for type scsi'],
    accepted: hostdevs({ ...scsi(), address: { type: 'drive', unit: 1 } }),
  },
  {
    refused: hostdevs({ ...vhost({ protocol: 'vhost', wwpn }), address: { type: 'drive' } }),
    causes: ['spec.domain.devices.hostdevs[0].address.type: Invalid value: "drive": must be pci for type scsi_host'],
    accepted: hostdevs({ ...vhost({ protocol: 'vhost', wwpn }), address: { type: 'pci', slot: 9 } }),
  },
])

const nic = (address: NonNullable<Source['address']>, type: 'hostdev' | 'vdpa' = 'hostdev'): Domain => ({
  devices: {
    hostdevs: [pci()],
    interfaces: [{ type, managed: true, source: { address: { type: 'pci', ...address } } }],
  },
})

testRule('hostdev-unique', [
  {
    refused: hostdevs(pci(), pci({ domain: 0, bus: 6, slot: 1, function: 0 }), pci({ bus: 6, slot: '0x1' })),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "pci 0:6:1:0": is already passed through by spec.domain.devices.hostdevs[0].source',
      'spec.domain.devices.hostdevs[2].source: Duplicate value: "pci 0:6:1:0": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(
      pci(),
      pci({ bus: 6, slot: 1, function: 1 }),
      pci({ bus: 7, slot: 1 }),
      pci({ domain: 1, bus: 6, slot: 1 }),
      pci({ bus: 6, slot: 2 }),
    ),
  },
  {
    refused: hostdevs(mdev(), mdev()),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "mdev 53764d0e-85a0-42b4-af5c-2046b460b1dc": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(mdev(), mdev({ source: { address: { uuid: uuid.replace('5', '6') } } })),
  },
  {
    refused: hostdevs(usb({ address: { bus: 1, device: 2 } }), usb({ address: { bus: 1, device: 2 } })),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "usb 1:2": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(
      usb({ address: { bus: 1, device: 2 } }),
      usb({ address: { bus: 1, device: 3 } }),
      usb({ address: { bus: 2, device: 2 } }),
    ),
  },
  {
    refused: hostdevs(
      usb({ vendor: { id: '0x1234' }, product: { id: '1' } }),
      usb({ vendor: { id: '4660' }, product: { id: '0x1' } }),
    ),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "usb ids 4660:1": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(
      usb({ vendor: { id: '0x1234' }, product: { id: '1' } }),
      usb({ vendor: { id: '0x1234' }, product: { id: '2' } }),
    ),
  },
  {
    refused: hostdevs(scsi(), scsi()),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "scsi scsi_host0 0:0:0": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(
      scsi(),
      scsi({ address: { bus: 0, target: 0, unit: 1 } }),
      scsi({ adapter: { name: 'scsi_host1' } }),
    ),
  },
  {
    refused: hostdevs(iscsi(), iscsi()),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "iscsi {\\"name\\":\\"h\\"} iqn.2017-01.example:disk/1": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(iscsi(), iscsi({ name: 'iqn.2017-01.example:disk/2' }), iscsi({ host: { name: 'i' } })),
  },
  {
    refused: hostdevs(vhost({ protocol: 'vhost', wwpn }), vhost({ protocol: 'vhost', wwpn })),
    causes: [
      'spec.domain.devices.hostdevs[1].source: Duplicate value: "scsi_host naa.5123456789abcdef": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: hostdevs(vhost({ protocol: 'vhost', wwpn }), vhost({ protocol: 'vhost', wwpn: wwpn.replace('5', '6') })),
  },
  {
    refused: nic({ domain: 0, bus: 6, slot: 1, function: 0 }),
    causes: [
      'spec.domain.devices.interfaces[0].source: Duplicate value: "pci 0:6:1:0": is already passed through by spec.domain.devices.hostdevs[0].source',
    ],
    accepted: nic({ domain: 0, bus: 6, slot: 2, function: 0 }),
  },
  {
    refused: hostdevs(usb({}), usb({}), { type: 'pci' }, { type: 'pci' }, { type: 'mdev' }, { type: 'mdev' }, {}, {}),
    causes: [],
    accepted: hostdevs(pci()),
  },
])
