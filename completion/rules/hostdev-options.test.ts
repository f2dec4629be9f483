import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Hostdev = DeviceOf<'hostdevs'>

const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'

const hostdevs = (...hostdevs: Hostdev[]): Domain => ({ devices: { hostdevs } })

const shown = (...hostdevs: Hostdev[]): Domain => ({ devices: { hostdevs, graphics: [{ type: 'vnc' }] } })

const mdev = (more: Hostdev = {}): Hostdev => ({
  type: 'mdev',
  model: 'vfio-pci',
  source: { address: { uuid } },
  ...more,
})

const pci = (more: Hostdev = {}): Hostdev => ({ type: 'pci', source: { address: { bus: 6, slot: 1 } }, ...more })

const usb = (more: Hostdev = {}): Hostdev => ({ type: 'usb', source: { address: { bus: 1, device: 2 } }, ...more })

const scsi = (more: Hostdev = {}): Hostdev => ({
  type: 'scsi',
  source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } },
  ...more,
})

const vhost = (more: Hostdev = {}): Hostdev => ({
  type: 'scsi_host',
  source: { protocol: 'vhost', wwpn: 'naa.5123456789abcdef' },
  ...more,
})

testRule('hostdev-options', [
  {
    refused: hostdevs(pci({ model: 'vfio-pci' })),
    causes: ['spec.domain.devices.hostdevs[0].model: Forbidden: can only be set for type mdev and scsi_host'],
    accepted: hostdevs(mdev({ model: 'vfio-pci' })),
  },
  {
    refused: hostdevs(mdev({ model: 'vfio-ccw' })),
    causes: ['spec.domain.devices.hostdevs[0].model: Invalid value: "vfio-ccw": must be vfio-pci on x86'],
    accepted: hostdevs(mdev()),
  },
  {
    refused: hostdevs(mdev({ model: 'vfio-ap' })),
    causes: ['spec.domain.devices.hostdevs[0].model: Invalid value: "vfio-ap": must be vfio-pci on x86'],
    accepted: hostdevs(mdev()),
  },
  {
    refused: hostdevs(mdev({ model: 'virtio' })),
    causes: ['spec.domain.devices.hostdevs[0].model: Invalid value: "virtio": must be vfio-pci on x86'],
    accepted: hostdevs(vhost({ model: 'virtio' })),
  },
  {
    refused: shown(usb({ display: true })),
    causes: [
      'spec.domain.devices.hostdevs[0].display: Forbidden: can only be set for type pci, and for type mdev with model vfio-pci',
    ],
    accepted: shown(pci({ display: true })),
  },
  {
    refused: shown(mdev({ model: 'vfio-ap', display: false })),
    causes: [
      'spec.domain.devices.hostdevs[0].model: Invalid value: "vfio-ap": must be vfio-pci on x86',
      'spec.domain.devices.hostdevs[0].display: Forbidden: can only be set for type pci, and for type mdev with model vfio-pci',
    ],
    accepted: shown(mdev({ display: true })),
  },
  {
    refused: hostdevs(mdev({ display: true })),
    causes: [
      'spec.domain.devices.hostdevs[0].display: Invalid value: true: requires a display server in devices.graphics',
    ],
    accepted: hostdevs(mdev({ display: false })),
  },
  {
    refused: hostdevs(pci({ rawio: true, sgio: 'filtered' })),
    causes: [
      'spec.domain.devices.hostdevs[0].rawio: Forbidden: can only be set for type scsi',
      'spec.domain.devices.hostdevs[0].sgio: Forbidden: can only be set for type scsi',
    ],
    accepted: hostdevs(scsi({ rawio: true, sgio: 'filtered' })),
  },
  {
    refused: hostdevs(scsi({ sgio: 'unfiltered' })),
    causes: ['spec.domain.devices.hostdevs[0].sgio: Unsupported value: "unfiltered": is no longer supported; filtered'],
    accepted: hostdevs(scsi()),
  },
  {
    refused: hostdevs(vhost({ model: 'vfio-pci' })),
    causes: [
      'spec.domain.devices.hostdevs[0].model: Invalid value: "vfio-pci": must be one of virtio, virtio-transitional, virtio-non-transitional for type scsi_host',
    ],
    accepted: hostdevs(vhost({ model: 'virtio-transitional' })),
  },
  {
    refused: hostdevs(mdev({ boot: { order: 1 } })),
    causes: ['spec.domain.devices.hostdevs[0].boot: Forbidden: is not supported for type mdev'],
    accepted: hostdevs(pci({ boot: { order: 1 } })),
  },
  {
    refused: hostdevs(vhost({ boot: { order: 1 } })),
    causes: ['spec.domain.devices.hostdevs[0].boot: Forbidden: is not supported for type scsi_host'],
    accepted: hostdevs(scsi({ boot: { order: 1 } })),
  },
  {
    refused: hostdevs(pci({ source: { address: { bus: 6, slot: 1 }, startupPolicy: 'optional' } })),
    causes: ['spec.domain.devices.hostdevs[0].source.startupPolicy: Forbidden: can only be set for type usb'],
    accepted: hostdevs(usb({ source: { address: { bus: 1, device: 2 }, startupPolicy: 'optional' } })),
  },
  {
    refused: hostdevs(pci({ source: { address: { bus: 6, slot: 1 }, writeFiltering: true } })),
    causes: [
      'spec.domain.devices.hostdevs[0].source.writeFiltering: Unsupported value: true: is not supported by QEMU',
    ],
    accepted: hostdevs(pci()),
  },
  {
    refused: {
      devices: {
        hostdevs: [pci({ teaming: { type: 'persistent' } })],
        interfaces: [{ type: 'user', alias: { name: 'ua-net' } }],
      },
    },
    causes: [
      'spec.domain.devices.hostdevs[0].teaming.type: Invalid value: "persistent": must be transient: the interface is persistent',
    ],
    accepted: {
      devices: {
        hostdevs: [pci({ teaming: { type: 'transient', persistent: 'ua-net' } })],
        interfaces: [
          { type: 'user', model: { type: 'virtio' }, alias: { name: 'ua-net' }, teaming: { type: 'persistent' } },
        ],
      },
    },
  },
])

const second = { address: { uuid: uuid.replace('5', '6') } }

testRule('hostdev-ramfb', [
  {
    refused: shown(
      mdev({ display: true, ramfb: false }),
      mdev({ display: true, ramfb: true, source: second }),
      mdev({ display: true, ramfb: true, source: { address: { uuid: uuid.replace('5', '7') } } }),
    ),
    causes: [
      'spec.domain.devices.hostdevs[2].ramfb: Duplicate value: true: only one host device can set this; hostdevs[1] already does',
    ],
    accepted: shown(mdev({ display: true, ramfb: true }), mdev({ display: true, ramfb: false, source: second })),
  },
])
