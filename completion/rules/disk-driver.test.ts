import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Disk = DeviceOf<'disks'>
type Driver = NonNullable<Disk['driver']>

const disk = (more: Disk): Domain => ({
  devices: { disks: [{ type: 'file', source: { file: '/disk.img' }, target: { dev: 'vda', bus: 'virtio' }, ...more }] },
})

const driver = (driver: Driver, more: Disk = {}): Domain => disk({ driver, ...more })

const directory = (more: Disk): Domain => disk({ type: 'dir', source: { dir: '/d' }, ...more })

testSilent('disk-format', [
  { devices: { disks: [{ type: 'dir', device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }] } },
])

testRule('disk-format', [
  {
    refused: driver({ type: 'fat' }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Invalid value: "fat": is only supported for type dir and volumes of storage pools',
    ],
    accepted: disk({ type: 'volume', source: { volume: 'v', pool: 'p' }, driver: { type: 'fat' } }),
  },
  {
    refused: driver({ name: 'phy' }),
    causes: ['spec.domain.devices.disks[0].driver.name: Unsupported value: "phy": must be qemu'],
    accepted: driver({ name: 'qemu' }),
  },
  {
    refused: driver({ type: 'iso' }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Unsupported value: "iso": is not supported by QEMU; did you mean "raw"?',
    ],
    accepted: driver({ type: 'raw' }),
  },
  {
    refused: driver({ type: 'dir' }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Unsupported value: "dir": is not supported by QEMU; to show a directory as a disk, use type: dir',
    ],
    accepted: driver({ type: 'qcow2' }),
  },
  {
    refused: driver({ type: 'cow' }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Unsupported value: "cow": is not supported by QEMU; convert the image to qcow2',
    ],
    accepted: driver({ type: 'vmdk' }),
  },
  {
    refused: driver({ type: 'luks' }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Unsupported value: "luks": is not supported by QEMU; format raw, and source.encryption: {format: luks}',
    ],
    accepted: driver({ type: 'raw' }),
  },
  {
    refused: directory({ driver: { type: 'raw' }, readonly: {} }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Invalid value: "raw": must be fat: QEMU shows a directory as a FAT disk',
    ],
    accepted: directory({ driver: { type: 'fat' }, readonly: {} }),
  },
  {
    refused: directory({ driver: { type: 'fat' } }),
    causes: [
      'spec.domain.devices.disks[0].readonly: Required value: must be set: a directory shown as a disk is read-only',
    ],
    accepted: directory({ driver: { type: 'fat' }, readonly: {} }),
  },
  {
    refused: driver({ type: 'fat' }),
    causes: [
      'spec.domain.devices.disks[0].driver.type: Invalid value: "fat": is only supported for type dir and volumes of storage pools',
    ],
    accepted: directory({ driver: { type: 'fat' }, readonly: {} }),
  },
  {
    refused: driver({ io: 'native' }),
    causes: [
      'spec.domain.devices.disks[0].driver.io: Invalid value: "native": is only supported with cache none or directsync',
    ],
    accepted: driver({ io: 'native', cache: 'none' }),
  },
  {
    refused: driver({ io: 'native', cache: 'writeback' }),
    causes: [
      'spec.domain.devices.disks[0].driver.io: Invalid value: "native": is only supported with cache none or directsync',
    ],
    accepted: driver({ io: 'native', cache: 'directsync' }),
  },
  {
    refused: driver({ io: 'native', cache: 'unsafe' }),
    causes: [
      'spec.domain.devices.disks[0].driver.io: Invalid value: "native": is only supported with cache none or directsync',
    ],
    accepted: driver({ io: 'threads', cache: 'writeback' }),
  },
])

const sata: Disk = { target: { dev: 'sda', bus: 'sata' } }

testRule('disk-driver', [
  {
    refused: driver({ queues: 2 }, sata),
    causes: [
      'spec.domain.devices.disks[0].driver.queues: Forbidden: can only be set for disks on bus virtio, not on sata',
    ],
    accepted: driver({ queues: 2 }),
  },
  {
    refused: driver(
      {
        queueSize: 128,
        ioeventfd: true,
        eventIdx: true,
        iothread: 1,
        iommu: true,
        ats: true,
        packed: true,
        pagePerVq: true,
      },
      sata,
    ),
    causes: [
      'spec.domain.devices.disks[0].driver.queueSize: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.ioeventfd: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.eventIdx: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.iothread: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.iommu: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.ats: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.packed: Forbidden: can only be set for disks on bus virtio, not on sata',
      'spec.domain.devices.disks[0].driver.pagePerVq: Forbidden: can only be set for disks on bus virtio, not on sata',
    ],
    accepted: driver({ cache: 'none' }, sata),
  },
  {
    refused: disk({ model: 'virtio', ...sata }),
    causes: ['spec.domain.devices.disks[0].model: Forbidden: can only be set for disks on bus virtio, not on sata'],
    accepted: disk({ model: 'virtio' }),
  },
])

testRule('disk-copy-on-read', [
  {
    refused: driver({ copyOnRead: true }, { readonly: {} }),
    causes: [
      'spec.domain.devices.disks[0].driver.copyOnRead: Forbidden: is not supported for a read-only disk: it writes',
    ],
    accepted: driver({ copyOnRead: true }),
  },
  {
    refused: driver({ copyOnRead: true }, { readonly: {} }),
    causes: [
      'spec.domain.devices.disks[0].driver.copyOnRead: Forbidden: is not supported for a read-only disk: it writes',
    ],
    accepted: driver({ copyOnRead: false }, { readonly: {} }),
  },
  {
    refused: driver({ copyOnRead: true }, { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }),
    causes: ['spec.domain.devices.disks[0].driver.copyOnRead: Forbidden: is not supported for device cdrom'],
    accepted: driver({ copyOnRead: false }, { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }),
  },
])

const shared: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }

const vhostuser = (more: Disk): Domain => ({
  ...shared,
  ...disk({ type: 'vhostuser', source: { type: 'unix', path: '/s' }, driver: { type: 'raw' }, ...more }),
})

const vdpa = (driver: Driver): Domain => ({
  ...shared,
  ...disk({ type: 'vhostvdpa', source: { dev: '/dev/vhost-vdpa-0' }, driver }),
})

testRule('disk-vhostuser', [
  {
    refused: vdpa({ type: 'raw' }),
    causes: [
      'spec.domain.devices.disks[0].driver.cache: Invalid value: "default": must be none or directsync for type vhostvdpa',
    ],
    accepted: vdpa({ type: 'raw', cache: 'none' }),
  },
  {
    refused: vdpa({ type: 'raw', cache: 'writeback' }),
    causes: [
      'spec.domain.devices.disks[0].driver.cache: Invalid value: "writeback": must be none or directsync for type vhostvdpa',
    ],
    accepted: vdpa({ type: 'raw', cache: 'directsync' }),
  },
  {
    refused: vhostuser({ source: { path: '/s' } }),
    causes: ['spec.domain.devices.disks[0].source.type: Required value: must be set for type vhostuser; unix'],
    accepted: vhostuser({ source: { type: 'unix', path: '/s' } }),
  },
  {
    refused: vhostuser({ snapshot: 'external' }),
    causes: ['spec.domain.devices.disks[0].snapshot: Invalid value: "external": must be no for type vhostuser'],
    accepted: vhostuser({ snapshot: 'no' }),
  },
  {
    refused: vhostuser({ driver: { type: 'raw', cache: 'none' } }),
    causes: [
      'spec.domain.devices.disks[0].driver.cache: Forbidden: must not be set for type vhostuser: the data does not pass through QEMU',
    ],
    accepted: vhostuser({ driver: { type: 'raw', queues: 2 } }),
  },
  {
    refused: vhostuser({ readonly: {}, serial: 'a', blockio: { logicalBlockSize: 512 } }),
    causes: [
      'spec.domain.devices.disks[0].readonly: Forbidden: must not be set for type vhostuser: the data does not pass through QEMU',
      'spec.domain.devices.disks[0].serial: Forbidden: must not be set for type vhostuser: the data does not pass through QEMU',
      'spec.domain.devices.disks[0].blockio: Forbidden: must not be set for type vhostuser: the data does not pass through QEMU',
    ],
    accepted: disk({
      readonly: {},
      serial: 'a',
      blockio: { logicalBlockSize: 512 },
      snapshot: 'external',
      driver: { cache: 'none' },
    }),
  },
])

const cached = (value: number, unit: 'GiB' | 'bytes'): Driver => ({
  type: 'qcow2',
  metadataCache: { maxSize: { unit, value } },
})

const backed = (value: number): Domain =>
  disk({
    driver: { type: 'qcow2' },
    backingStore: {
      type: 'file',
      source: { file: '/b' },
      format: { type: 'raw' },
      backingStore: {
        type: 'file',
        source: { file: '/c' },
        format: { type: 'qcow2', metadataCache: { maxSize: { unit: 'bytes', value } } },
      },
    },
  })

testRule('disk-metadata-cache', [
  {
    refused: driver(cached(2, 'GiB')),
    causes: [
      'spec.domain.devices.disks[0].driver.metadataCache.maxSize.value: Invalid value: "2147483648": must be at most 1 GiB, which is enough for an image of 8 TiB',
    ],
    accepted: driver(cached(1, 'GiB')),
  },
  {
    refused: driver(cached(1024 ** 3 + 1, 'bytes')),
    causes: [
      'spec.domain.devices.disks[0].driver.metadataCache.maxSize.value: Invalid value: "1073741825": must be at most 1 GiB, which is enough for an image of 8 TiB',
    ],
    accepted: driver(cached(1024 ** 3, 'bytes')),
  },
  {
    refused: backed(1024 ** 3 + 1),
    causes: [
      'spec.domain.devices.disks[0].backingStore.backingStore.format.metadataCache.maxSize.value: Invalid value: "1073741825": must be at most 1 GiB, which is enough for an image of 8 TiB',
    ],
    accepted: backed(1024 ** 3),
  },
])

type Store = NonNullable<NonNullable<Disk['source']>['dataStore']>

const stored = (dataStore: Store, driver: Driver = { type: 'qcow2' }): Domain =>
  disk({ driver, source: { file: '/disk.img', dataStore } })

const data = { file: '/data.raw' }

testRule('disk-qcow2', [
  {
    refused: driver({ type: 'raw', discardNoUnref: true }),
    causes: [
      'spec.domain.devices.disks[0].driver.discardNoUnref: Forbidden: can only be set for format qcow2, not for raw',
    ],
    accepted: driver({ type: 'qcow2', discardNoUnref: true }),
  },
  {
    refused: driver({ type: 'raw', metadataCache: { maxSize: { unit: 'MiB', value: 1 } } }),
    causes: [
      'spec.domain.devices.disks[0].driver.metadataCache: Forbidden: can only be set for format qcow2, not for raw',
    ],
    accepted: driver({ type: 'raw', discardNoUnref: false }),
  },
  {
    refused: driver({ type: 'qcow2', discardNoUnref: true }, { readonly: {} }),
    causes: ['spec.domain.devices.disks[0].driver.discardNoUnref: Forbidden: is not supported for a read-only disk'],
    accepted: driver({ type: 'qcow2', discardNoUnref: false }, { readonly: {} }),
  },
  {
    refused: stored({ type: 'file', format: { type: 'raw' }, source: data }, { type: 'raw' }),
    causes: ['spec.domain.devices.disks[0].source.dataStore: Forbidden: can only be set for format qcow2, not for raw'],
    accepted: stored({ type: 'file', format: { type: 'raw' }, source: data }),
  },
  {
    refused: stored({ type: 'file', format: { type: 'qcow2' }, source: data }),
    causes: ['spec.domain.devices.disks[0].source.dataStore.format.type: Invalid value: "qcow2": must be raw'],
    accepted: stored({ type: 'file', format: { type: 'raw' }, source: data }),
  },
  {
    refused: stored({ type: 'file', format: { type: 'raw' } }),
    causes: ['spec.domain.devices.disks[0].source.dataStore.source: Required value: must be set: the data file'],
    accepted: stored({ type: 'file', format: { type: 'raw' }, source: data }),
  },
  {
    refused: stored({
      type: 'file',
      format: { type: 'raw' },
      source: {
        ...data,
        slices: { slice: { type: 'storage', offset: 0, size: 512 } },
        dataStore: { type: 'file', format: { type: 'raw' }, source: data },
      },
    }),
    causes: [
      'spec.domain.devices.disks[0].source.dataStore.source.slices: Forbidden: is not supported in a data store',
      'spec.domain.devices.disks[0].source.dataStore.source.dataStore: Forbidden: is not supported in a data store',
    ],
    accepted: stored({ type: 'file', format: { type: 'raw' }, source: data }),
  },
])
