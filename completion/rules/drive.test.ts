import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Disk = DeviceOf<'disks'>
type Bus = NonNullable<NonNullable<Disk['target']>['bus']>
type Address = NonNullable<Disk['address']>

const names: { readonly [bus in Bus]?: string } = { virtio: 'vda', ide: 'hda', fdc: 'fda' }

const disk = (bus: Bus, address: Address, model?: 'lsilogic' | 'virtio-scsi'): Domain => ({
  devices: {
    ...(model === undefined ? {} : { controllers: [{ type: 'scsi', index: 0, model }] }),
    disks: [
      {
        type: 'file',
        source: { file: '/disk.img' },
        ...(bus === 'fdc' ? { device: 'floppy' } : {}),
        target: { dev: names[bus] ?? 'sda', bus },
        address,
      },
    ],
  },
})

testRule('disk-address-type', [
  {
    refused: disk('sata', { type: 'pci', slot: 7 }),
    causes: ['spec.domain.devices.disks[0].address.type: Invalid value: "pci": must be drive on bus sata'],
    accepted: disk('sata', { type: 'drive', unit: 1 }),
  },
  {
    refused: disk('ide', { type: 'usb', bus: 0, port: '1' }),
    causes: ['spec.domain.devices.disks[0].address.type: Invalid value: "usb": must be drive on bus ide'],
    accepted: disk('ide', { type: 'drive', unit: 1 }),
  },
  {
    refused: disk('scsi', { type: 'pci', slot: 7 }),
    causes: ['spec.domain.devices.disks[0].address.type: Invalid value: "pci": must be drive on bus scsi'],
    accepted: disk('scsi', { type: 'drive', unit: 1 }),
  },
  {
    refused: disk('fdc', { type: 'pci', slot: 7 }),
    causes: ['spec.domain.devices.disks[0].address.type: Invalid value: "pci": must be drive on bus fdc'],
    accepted: disk('fdc', { type: 'drive', unit: 1 }),
  },
  {
    refused: disk('usb', { type: 'drive', unit: 1 }),
    causes: ['spec.domain.devices.disks[0].address.type: Invalid value: "drive": must be usb on bus usb'],
    accepted: disk('usb', { type: 'usb', bus: 0, port: '1' }),
  },
  {
    refused: disk('virtio', { type: 'drive', unit: 1 }),
    causes: ['spec.domain.devices.disks[0].address.type: Invalid value: "drive": must be pci on bus virtio'],
    accepted: disk('virtio', { type: 'pci', slot: 7 }),
  },
])

const second = (target: number): Domain => ({
  devices: {
    controllers: [
      { type: 'virtio-serial', index: 1 },
      { type: 'scsi', index: 0, model: 'lsilogic' },
      { type: 'scsi', index: 1, model: 'virtio-scsi' },
    ],
    disks: [
      {
        source: { file: '/d' },
        target: { dev: 'sda', bus: 'scsi' },
        address: { type: 'drive', controller: 1, target },
      },
      { source: { file: '/e' }, target: { dev: 'hda', bus: 'ide' }, address: { type: 'drive', bus: 1 } },
    ],
  },
})

testRule('disk-address-range', [
  {
    refused: disk('sata', { type: 'drive', controller: 1, bus: 1 }),
    causes: ['spec.domain.devices.disks[0].address.bus: Invalid value: 1: must be 0 on bus sata'],
    accepted: second(1),
  },
  {
    refused: disk('sata', { type: 'drive', bus: 1 }),
    causes: ['spec.domain.devices.disks[0].address.bus: Invalid value: 1: must be 0 on bus sata'],
    accepted: disk('sata', { type: 'drive', unit: 1 }),
  },
  {
    refused: disk('sata', { type: 'drive', target: 1 }),
    causes: ['spec.domain.devices.disks[0].address.target: Invalid value: 1: must be 0 on bus sata'],
    accepted: disk('sata', { type: 'drive', target: 0 }),
  },
  {
    refused: disk('ide', { type: 'drive', target: 1 }),
    causes: ['spec.domain.devices.disks[0].address.target: Invalid value: 1: must be 0 on bus ide'],
    accepted: disk('ide', { type: 'drive', bus: 1 }),
  },
  {
    refused: disk('fdc', { type: 'drive', controller: 1, bus: 1, target: 1 }),
    causes: [
      'spec.domain.devices.disks[0].address.controller: Invalid value: 1: must be 0: a VM has one floppy controller',
      'spec.domain.devices.disks[0].address.bus: Invalid value: 1: must be 0 on bus fdc',
      'spec.domain.devices.disks[0].address.target: Invalid value: 1: must be 0 on bus fdc',
    ],
    accepted: disk('fdc', { type: 'drive', controller: 0 }),
  },
  {
    refused: disk('scsi', { type: 'drive', bus: 1, target: 7 }, 'virtio-scsi'),
    causes: ['spec.domain.devices.disks[0].address.bus: Invalid value: 1: must be 0 on bus scsi'],
    accepted: disk('scsi', { type: 'drive', target: 7 }, 'virtio-scsi'),
  },
  {
    refused: disk('scsi', { type: 'drive', target: 1 }, 'lsilogic'),
    causes: ['spec.domain.devices.disks[0].address.target: Invalid value: 1: must be 0 on bus scsi'],
    accepted: disk('scsi', { type: 'drive', unit: 1 }, 'lsilogic'),
  },
])

const hostdev = (model: 'lsilogic' | 'virtio-scsi', target: number, type: 'scsi' | 'pci' = 'scsi'): Domain => ({
  devices: {
    controllers: [
      { type: 'scsi', index: 0, model: 'virtio-scsi' },
      { type: 'scsi', index: 1, model },
    ],
    hostdevs: [
      type === 'pci'
        ? { type, source: { address: { bus: 6, slot: 1 } }, address: { type: 'pci', slot: 9 } }
        : {
            type,
            source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } },
            address: { type: 'drive', controller: 1, target },
          },
    ],
  },
})

testRule('hostdev-address-range', [
  {
    refused: hostdev('lsilogic', 1),
    causes: ['spec.domain.devices.hostdevs[0].address.target: Invalid value: 1: must be 0 on a lsilogic'],
    accepted: hostdev('lsilogic', 0),
  },
  {
    refused: hostdev('lsilogic', 1),
    causes: ['spec.domain.devices.hostdevs[0].address.target: Invalid value: 1: must be 0 on a lsilogic'],
    accepted: hostdev('virtio-scsi', 1),
  },
  {
    refused: hostdev('lsilogic', 1),
    causes: ['spec.domain.devices.hostdevs[0].address.target: Invalid value: 1: must be 0 on a lsilogic'],
    accepted: hostdev('lsilogic', 1, 'pci'),
  },
])

testRule('address-controller', [
  {
    refused: disk('scsi', { type: 'drive', controller: 100 }),
    causes: ['spec.domain.devices.disks[0].address.controller: Invalid value: 100: must be at most 99'],
    accepted: disk('scsi', { type: 'drive', controller: 99 }),
  },
])

const two = (one: Address, other: Address, bus: 'sata' | 'scsi' = 'sata'): Domain => ({
  devices: {
    disks: [
      { device: 'cdrom', target: { dev: 'sda', bus: 'sata' }, address: one },
      { device: 'cdrom', target: { dev: 'sdb', bus }, address: other },
    ],
  },
})

const withHostdev = (unit: number, type: 'scsi' | 'usb' = 'scsi'): Domain => ({
  devices: {
    controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi' }],
    disks: [{ device: 'cdrom', target: { dev: 'sda', bus: 'scsi' }, address: { type: 'drive', unit: 1 } }],
    hostdevs: [
      type === 'scsi'
        ? {
            type,
            source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } },
            address: { type: 'drive', unit },
          }
        : { type, source: { vendor: { id: '0x1234' }, product: { id: '0x1' } } },
    ],
  },
})

testRule('drive-address-unique', [
  {
    refused: two({ type: 'drive', unit: 1 }, { type: 'drive', unit: 1 }),
    causes: [
      'spec.domain.devices.disks[1].address: Duplicate value: "0:0:0:1": is already the address of spec.domain.devices.disks[0].address on bus sata (controller:bus:target:unit)',
    ],
    accepted: two({ type: 'drive', unit: 1 }, { type: 'drive', unit: 2 }),
  },
  {
    refused: two({ type: 'drive', unit: 1 }, { type: 'drive', controller: 0, bus: 0, target: 0, unit: 1 }),
    causes: [
      'spec.domain.devices.disks[1].address: Duplicate value: "0:0:0:1": is already the address of spec.domain.devices.disks[0].address on bus sata (controller:bus:target:unit)',
    ],
    accepted: two({ type: 'drive', unit: 1 }, { type: 'drive', unit: 1 }, 'scsi'),
  },
  {
    refused: withHostdev(1),
    causes: [
      'spec.domain.devices.hostdevs[0].address: Duplicate value: "0:0:0:1": is already the address of spec.domain.devices.disks[0].address on bus scsi (controller:bus:target:unit)',
    ],
    accepted: withHostdev(2),
  },
  {
    refused: withHostdev(1),
    causes: [
      'spec.domain.devices.hostdevs[0].address: Duplicate value: "0:0:0:1": is already the address of spec.domain.devices.disks[0].address on bus scsi (controller:bus:target:unit)',
    ],
    accepted: withHostdev(1, 'usb'),
  },
  {
    refused: {
      devices: {
        disks: [
          { device: 'cdrom', target: { dev: 'sdb', bus: 'sata' }, address: { type: 'drive', unit: 0 } },
          { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } },
        ],
      },
    },
    causes: [
      'spec.domain.devices.disks[0].address: Duplicate value: "0:0:0:0": is already the address of spec.domain.devices.disks[1].address on bus sata (controller:bus:target:unit)',
    ],
    accepted: {
      devices: {
        disks: [
          { device: 'cdrom', target: { dev: 'sdb', bus: 'sata' }, address: { type: 'drive', unit: 1 } },
          { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } },
        ],
      },
    },
  },
])

const behindSata = (target: number): Domain => ({
  devices: {
    controllers: [
      { type: 'sata', index: 0 },
      { type: 'scsi', index: 0, model: 'lsilogic' },
    ],
    disks: [
      { source: { file: '/a' }, target: { dev: 'sda', bus: 'scsi' }, address: { type: 'drive', target, unit: 1 } },
    ],
  },
})

testRule('disk-address-range', [
  {
    refused: behindSata(1),
    causes: ['spec.domain.devices.disks[0].address.target: Invalid value: 1: must be 0 on bus scsi'],
    accepted: behindSata(0),
  },
])

const passedThrough = (target: number): Domain => ({
  devices: {
    controllers: [
      { type: 'sata', index: 0 },
      { type: 'scsi', index: 0, model: 'lsilogic' },
    ],
    hostdevs: [
      {
        mode: 'subsystem',
        type: 'scsi',
        source: { adapter: { name: 'scsi_host0' }, address: { bus: 0, target: 0, unit: 0 } },
        address: { type: 'drive', target, unit: 1 },
      },
    ],
  },
})

testRule('hostdev-address-range', [
  {
    refused: passedThrough(1),
    causes: ['spec.domain.devices.hostdevs[0].address.target: Invalid value: 1: must be 0 on a lsilogic'],
    accepted: passedThrough(0),
  },
])

testSilent('disk-address-type', [disk('sd', { type: 'drive', unit: 1 })])
testSilent('drive-address-unique', [
  {
    devices: {
      disks: [{ source: { file: '/a' }, target: { dev: 'sda', bus: 'scsi' }, address: { type: 'drive', unit: 1 } }],
      hostdevs: [
        {
          mode: 'subsystem',
          type: 'usb',
          source: { address: { bus: 1, device: 2 } },
          address: { type: 'drive', unit: 1 },
        },
      ],
    },
  },
])
