import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Disk = DeviceOf<'disks'>
type Bus = NonNullable<NonNullable<Disk['target']>['bus']>

const names: { readonly [bus in Bus]?: string } = { virtio: 'vda', ide: 'hda', fdc: 'fda' }

const disk = (bus: Bus, { target, ...more }: Disk = {}): Domain => ({
  devices: {
    disks: [
      { type: 'file', source: { file: '/disk.img' }, target: { dev: names[bus] ?? 'sda', bus, ...target }, ...more },
    ],
  },
})

testRule('disk-identity', [
  {
    refused: disk('virtio', { vendor: 'ACME' }),
    causes: ['spec.domain.devices.disks[0].vendor: Forbidden: can only be set on bus scsi, not on virtio'],
    accepted: disk('scsi', { vendor: 'ACME' }),
  },
  {
    refused: disk('usb', { product: 'Disk' }),
    causes: ['spec.domain.devices.disks[0].product: Forbidden: can only be set on bus scsi, sata, ide, not on usb'],
    accepted: disk('sata', { product: 'Disk' }),
  },
  {
    refused: disk('virtio', { wwn: '5000c50015ea71ac' }),
    causes: ['spec.domain.devices.disks[0].wwn: Forbidden: can only be set on bus ide, scsi, not on virtio'],
    accepted: disk('ide', { wwn: '5000c50015ea71ac' }),
  },
  {
    refused: disk('sata', { target: { removable: true } }),
    causes: ['spec.domain.devices.disks[0].target.removable: Forbidden: can only be set on bus usb, scsi, not on sata'],
    accepted: disk('usb', { target: { removable: true } }),
  },
  {
    refused: disk('virtio', { target: { rotationRate: 7200 } }),
    causes: [
      'spec.domain.devices.disks[0].target.rotationRate: Forbidden: can only be set on bus scsi, ide, sata, not on virtio',
    ],
    accepted: disk('scsi', { target: { rotationRate: 7200 } }),
  },
  {
    refused: disk('usb', { geometry: { cyls: 10, heads: 2, secs: 4 } }),
    causes: [
      'spec.domain.devices.disks[0].geometry: Forbidden: can only be set on bus virtio, scsi, ide, sata, fdc, not on usb',
    ],
    accepted: disk('virtio', { geometry: { cyls: 10, heads: 2, secs: 4 } }),
  },
  {
    refused: disk('virtio', { geometry: { cyls: 10, heads: 2, secs: 4, trans: 'lba' } }),
    causes: ['spec.domain.devices.disks[0].geometry.trans: Forbidden: can only be set on bus ide, not on virtio'],
    accepted: disk('ide', { geometry: { cyls: 10, heads: 2, secs: 4, trans: 'lba' } }),
  },
  {
    refused: disk('sd', { serial: 'a' }),
    causes: [
      'spec.domain.devices.disks[0].serial: Forbidden: can only be set on bus virtio, scsi, ide, sata, usb, fdc, not on sd',
    ],
    accepted: disk('usb', { serial: 'a' }),
  },
  {
    refused: disk('sata', { transient: { shareBacking: true } }),
    causes: [
      'spec.domain.devices.disks[0].transient.shareBacking: Forbidden: can only be set on bus virtio, scsi, usb, not on sata',
    ],
    accepted: disk('virtio', { transient: { shareBacking: true } }),
  },
  {
    refused: disk('sd', { iotune: { totalBytesSec: 1 } }),
    causes: [
      'spec.domain.devices.disks[0].iotune: Forbidden: can only be set on bus virtio, scsi, ide, sata, usb, fdc, not on sd',
    ],
    accepted: disk('sata', { iotune: { totalBytesSec: 1 } }),
  },
  {
    refused: disk('scsi', { device: 'cdrom', target: { rotationRate: 7200, removable: true } }),
    causes: [
      'spec.domain.devices.disks[0].target.rotationRate: Forbidden: must not be set for device cdrom',
      'spec.domain.devices.disks[0].target.removable: Forbidden: must not be set for device cdrom',
    ],
    accepted: disk('scsi', { target: { rotationRate: 7200, removable: true } }),
  },
  {
    refused: disk('scsi', { product: '12345678901234567' }),
    causes: [
      'spec.domain.devices.disks[0].product: Invalid value: "12345678901234567": must be at most 16 characters on bus scsi',
    ],
    accepted: disk('scsi', { product: '1234567890123456' }),
  },
  {
    refused: disk('scsi', { product: '12345678901234567' }),
    causes: [
      'spec.domain.devices.disks[0].product: Invalid value: "12345678901234567": must be at most 16 characters on bus scsi',
    ],
    accepted: disk('sata', { product: '12345678901234567' }),
  },
])

const lun = (more: Disk = {}): Domain =>
  disk('scsi', { device: 'lun', type: 'block', source: { dev: '/dev/sdb' }, ...more })

type Reservations = NonNullable<NonNullable<Disk['source']>['reservations']>

const reserved = (reservations: Reservations): Domain => lun({ source: { dev: '/dev/sdb', reservations } })

const iscsi: NonNullable<Disk['source']> = {
  protocol: 'iscsi',
  name: 'iqn.2017-01.example:disk/1',
  host: { name: 'example.org' },
}

testRule('disk-lun', [
  {
    refused: lun({ sgio: 'unfiltered' }),
    causes: ['spec.domain.devices.disks[0].sgio: Unsupported value: "unfiltered": is no longer supported; filtered'],
    accepted: lun({ sgio: 'filtered' }),
  },
  {
    refused: disk('scsi', { rawio: true, sgio: 'filtered' }),
    causes: [
      'spec.domain.devices.disks[0].rawio: Forbidden: can only be set for device lun',
      'spec.domain.devices.disks[0].sgio: Forbidden: can only be set for device lun',
    ],
    accepted: lun({ rawio: true, sgio: 'filtered' }),
  },
  {
    refused: disk('scsi', { type: 'block', source: { dev: '/dev/sdb', reservations: { managed: true } } }),
    causes: ['spec.domain.devices.disks[0].source.reservations: Forbidden: can only be set for device lun'],
    accepted: reserved({ managed: true }),
  },
  {
    refused: disk('sata', { device: 'lun', type: 'block', source: { dev: '/dev/sdb' } }),
    causes: ['spec.domain.devices.disks[0].target.bus: Invalid value: "sata": must be scsi for device lun'],
    accepted: lun(),
  },
  {
    refused: lun({ type: 'file', source: { file: '/disk.img' } }),
    causes: [
      'spec.domain.devices.disks[0].type: Invalid value: "file": must be block, or network with protocol iscsi, for device lun',
    ],
    accepted: lun(),
  },
  {
    refused: lun({ type: 'network', source: { protocol: 'nbd', host: { name: 'example.org' } } }),
    causes: [
      'spec.domain.devices.disks[0].type: Invalid value: "network": must be block, or network with protocol iscsi, for device lun',
    ],
    accepted: lun({ type: 'network', source: iscsi }),
  },
  {
    refused: lun({ type: 'dir', source: { dir: '/d' } }),
    causes: [
      'spec.domain.devices.disks[0].type: Invalid value: "dir": must be block, or network with protocol iscsi, for device lun',
    ],
    accepted: { ...lun({ type: 'volume', source: { volume: 'a', pool: 'p' } }) },
  },
  {
    refused: lun({ driver: { type: 'qcow2' } }),
    causes: ['spec.domain.devices.disks[0].driver.type: Invalid value: "qcow2": must be raw for device lun'],
    accepted: lun({ driver: { type: 'raw' } }),
  },
  {
    refused: lun({ vendor: 'ACME', product: 'Disk', wwn: '5000c50015ea71ac', serial: 'a' }),
    causes: [
      'spec.domain.devices.disks[0].vendor: Forbidden: must not be set for device lun, which passes the device of the host through',
      'spec.domain.devices.disks[0].product: Forbidden: must not be set for device lun, which passes the device of the host through',
      'spec.domain.devices.disks[0].wwn: Forbidden: must not be set for device lun, which passes the device of the host through',
      'spec.domain.devices.disks[0].serial: Forbidden: must not be set for device lun, which passes the device of the host through',
    ],
    accepted: lun(),
  },
  {
    refused: lun({ encryption: { format: 'luks', secret: { type: 'passphrase', usage: 'a' } } }),
    causes: [
      'spec.domain.devices.disks[0].encryption: Forbidden: must not be set for device lun, which passes the device of the host through',
    ],
    accepted: lun(),
  },
  {
    refused: reserved({ managed: false }),
    causes: [
      'spec.domain.devices.disks[0].source.reservations.source.type: Required value: must be unix when reservations are not managed',
      'spec.domain.devices.disks[0].source.reservations.source.path: Required value: must be set when reservations are not managed',
      'spec.domain.devices.disks[0].source.reservations.source.mode: Required value: must be client when reservations are not managed',
    ],
    accepted: reserved({ managed: false, source: { type: 'unix', path: '/s', mode: 'client' } }),
  },
  {
    refused: reserved({ managed: false, source: { type: 'unix', path: '/s', mode: 'server' } }),
    causes: [
      'spec.domain.devices.disks[0].source.reservations.source.mode: Required value: must be client when reservations are not managed',
    ],
    accepted: reserved({ managed: true }),
  },
])

const cdrom = (more: Disk): Domain => disk('sata', { device: 'cdrom', ...more })

testRule('disk-tray', [
  {
    refused: disk('virtio', { target: { tray: 'open' } }),
    causes: ['spec.domain.devices.disks[0].target.tray: Forbidden: can only be set for CD-ROM and floppy drives'],
    accepted: cdrom({ target: { tray: 'open' } }),
  },
  {
    refused: disk('virtio', { source: { file: '/d', startupPolicy: 'requisite' } }),
    causes: [
      'spec.domain.devices.disks[0].source.startupPolicy: Invalid value: "requisite": can only be set for CD-ROM and floppy drives',
    ],
    accepted: disk('virtio', { source: { file: '/d', startupPolicy: 'optional' } }),
  },
  {
    refused: disk('virtio', { source: { file: '/d', startupPolicy: 'requisite' } }),
    causes: [
      'spec.domain.devices.disks[0].source.startupPolicy: Invalid value: "requisite": can only be set for CD-ROM and floppy drives',
    ],
    accepted: disk('fdc', {
      device: 'floppy',
      target: { tray: 'open' },
      source: { file: '/d', startupPolicy: 'requisite' },
    }),
  },
  {
    refused: cdrom({ type: 'network', source: { ...iscsi, startupPolicy: 'optional' } }),
    causes: ['spec.domain.devices.disks[0].source.startupPolicy: Forbidden: must not be set for type network'],
    accepted: cdrom({ type: 'network', source: iscsi }),
  },
])
