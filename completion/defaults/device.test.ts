import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { addressParts, hostAddressParts } from './address.ts'
import * as device from './device.ts'
import { interfaceMode, interfaceModel } from './interface.ts'
import type { Rule } from './rule.ts'

type Devices = NonNullable<Domain['devices']>

test.each<[string, Rule, Devices, Devices]>([
  ['a TPM has the TIS interface', device.tpmModel, { tpms: [{}] }, { tpms: [{ model: 'tpm-tis' }] }],
  [
    'an emulated TPM with TIS has version 1.2',
    device.tpmVersion,
    { tpms: [{ model: 'tpm-tis', backend: { type: 'emulator' } }] },
    { tpms: [{ model: 'tpm-tis', backend: { type: 'emulator', version: '1.2' } }] },
  ],
  [
    'an emulated TPM with CRB has version 2.0',
    device.tpmVersion,
    { tpms: [{ model: 'tpm-crb', backend: { type: 'emulator' } }] },
    { tpms: [{ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }] },
  ],
  [
    'a TPM that is passed through has a device',
    device.tpmDevice,
    { tpms: [{ backend: { type: 'passthrough' } }] },
    { tpms: [{ backend: { type: 'passthrough', device: { path: '/dev/tpm0' } } }] },
  ],
  ['a panic device is on ISA', device.panicModel, { panics: [{}] }, { panics: [{ model: 'isa' }] }],
  [
    'random numbers come from /dev/random',
    device.rngSource,
    { rngs: [{ backend: { model: 'random' } }] },
    { rngs: [{ backend: { model: 'random', value: '/dev/random' } }] },
  ],
  [
    'those of QEMU itself have no source',
    device.rngSource,
    { rngs: [{ backend: { model: 'builtin' } }] },
    { rngs: [{ backend: { model: 'builtin' } }] },
  ],
  ['a vsock without an ID gets one at start', device.vsockCid, { vsock: {} }, { vsock: { cid: { auto: true } } }],
  [
    'a vsock with an ID does not change',
    device.vsockCid,
    { vsock: { cid: { address: 4 } } },
    { vsock: { cid: { auto: false, address: 4 } } },
  ],
  [
    'shared memory is 4 MiB',
    device.shmemSize,
    { shmems: [{ name: 'a' }] },
    { shmems: [{ name: 'a', size: { unit: 'M', value: 4 } }] },
  ],
  [
    'unless a server provides it',
    device.shmemSize,
    { shmems: [{ server: { path: '/s' } }] },
    { shmems: [{ server: { path: '/s' } }] },
  ],
  [
    'a doorbell uses ioeventfd',
    device.shmemMsi,
    { shmems: [{ model: { type: 'ivshmem-doorbell' } }] },
    { shmems: [{ model: { type: 'ivshmem-doorbell' }, msi: { ioeventfd: true } }] },
  ],
  ['a directory is shared', device.filesystemType, { filesystems: [{}] }, { filesystems: [{ type: 'mount' }] }],
  [
    'or a volume',
    device.filesystemType,
    { filesystems: [{ source: { volume: 'a' } }] },
    { filesystems: [{ type: 'volume', source: { volume: 'a' } }] },
  ],
  [
    'by virtiofs',
    device.filesystemDriver,
    { filesystems: [{ type: 'volume', driver: { queue: 64 } }, { type: 'mount' }] },
    { filesystems: [{ type: 'volume', driver: { queue: 64, type: 'virtiofs' } }, { type: 'mount' }] },
  ],
  [
    'files are accessed as the user of QEMU',
    device.filesystemAccess,
    { filesystems: [{}] },
    { filesystems: [{ accessmode: 'passthrough' }] },
  ],
  [
    'or as configured on the server that shares them',
    device.filesystemAccess,
    { filesystems: [{ source: { socket: '/s' } }] },
    { filesystems: [{ source: { socket: '/s' } }] },
  ],
  [
    'a host device is not managed',
    device.hostdevManaged,
    { hostdevs: [{ type: 'pci' }] },
    { hostdevs: [{ type: 'pci', mode: 'subsystem', managed: false }] },
  ],
  [
    'the display of a mediated device is off',
    device.mdevDisplay,
    { hostdevs: [{ type: 'mdev', model: 'vfio-pci' }] },
    { hostdevs: [{ type: 'mdev', model: 'vfio-pci', display: false }] },
  ],
  ['a redirected device is on USB', device.redirdevBus, { redirdevs: [{}] }, { redirdevs: [{ bus: 'usb' }] }],
  [
    'a virtio sound card has two streams',
    device.soundStreams,
    { sounds: [{ model: 'virtio' }, { model: 'ich9' }] },
    { sounds: [{ model: 'virtio', streams: 2 }, { model: 'ich9' }] },
  ],
  [
    'persistent memory on virtio is shared',
    device.memoryAccess,
    { memories: [{ model: 'virtio-pmem' }, { model: 'dimm' }] },
    { memories: [{ model: 'virtio-pmem', access: 'shared' }, { model: 'dimm' }] },
  ],
  [
    'a network card is an RTL8139',
    interfaceModel,
    { interfaces: [{ type: 'user' }] },
    { interfaces: [{ type: 'user', model: { type: 'rtl8139' } }] },
  ],
  [
    'a vDPA interface is virtio',
    interfaceModel,
    { interfaces: [{ type: 'vdpa' }] },
    { interfaces: [{ type: 'vdpa', model: { type: 'virtio' } }] },
  ],
  [
    'a host interface has no model',
    interfaceModel,
    { interfaces: [{ type: 'hostdev' }] },
    { interfaces: [{ type: 'hostdev' }] },
  ],
  [
    'a direct interface has mode vepa',
    interfaceMode,
    { interfaces: [{ type: 'direct', source: { dev: 'eth0' } }] },
    { interfaces: [{ type: 'direct', source: { dev: 'eth0', mode: 'vepa' } }] },
  ],
])('%s', (_, rule, devices, expected) => expect(applied([rule], { devices }).devices).toEqual(expected))

test('memory modules get the first free slots', () => {
  const memories: Devices['memories'] = [
    { model: 'dimm' },
    { model: 'dimm', address: { type: 'dimm', slot: 0 } },
    { model: 'virtio-mem' },
    { model: 'nvdimm' },
  ]
  expect(
    applied([device.memorySlot], { devices: { memories } }).devices?.memories?.map(({ address }) => address),
  ).toEqual([{ type: 'dimm', slot: 1 }, { type: 'dimm', slot: 0 }, undefined, { type: 'dimm', slot: 2 }])
})

test('smart cards get the slots of the first controller', () => {
  const smartcards: Devices['smartcards'] = [{ mode: 'host' }, { mode: 'host', address: { type: 'ccid', slot: 2 } }]
  expect(applied([device.ccidAddress], { devices: { smartcards } }).devices?.smartcards).toEqual([
    { mode: 'host', address: { type: 'ccid', controller: 0, slot: 3 } },
    { mode: 'host', address: { type: 'ccid', slot: 2 } },
  ])
})

test('SCSI host devices share the units of a controller with disks, then use the next one', () => {
  const devices: Devices = {
    controllers: [{ type: 'scsi', index: 0 }],
    disks: [{ target: { bus: 'scsi' }, address: { type: 'drive', controller: 0, unit: 1 } }],
    hostdevs: Array.from({ length: 7 }, () => ({ type: 'scsi' as const })),
  }
  const found = applied([device.hostdevAddress], { devices }).devices?.hostdevs
  expect(found?.map(({ address }) => `${address?.controller}:${address?.unit}`)).toEqual([
    '0:0',
    '0:2',
    '0:3',
    '0:4',
    '0:5',
    '0:6',
    '1:0',
  ])
})

describe('missing parts of an address', () => {
  test.each<[string, object, object]>([
    ['on PCI', { type: 'pci', slot: 3 }, { domain: 0, bus: 0, function: 0 }],
    ['on PCI, without any part', { type: 'pci' }, {}],
    ['of a drive', { type: 'drive', unit: 1 }, { controller: 0, bus: 0, target: 0 }],
    ['on USB', { type: 'usb', port: '1' }, { bus: 0 }],
    ['on ISA', { type: 'isa', iobase: '0x505' }, {}],
  ])('%s', (_, address, more) => {
    expect(applied([addressParts], { devices: { inputs: [{ address }] } }).devices?.inputs).toEqual([
      { address: { ...address, ...more } },
    ])
  })

  test('of a host device', () => {
    const hostdevs: Devices['hostdevs'] = [
      { type: 'pci', source: { address: { bus: 6 } } },
      { type: 'usb', source: { address: { bus: 1, device: 2 } } },
    ]
    expect(applied([hostAddressParts], { devices: { hostdevs } }).devices?.hostdevs).toEqual([
      { type: 'pci', source: { address: { domain: 0, bus: 6, slot: 0, function: 0 } } },
      hostdevs[1],
    ])
  })
})

describe('the memory of the guest', () => {
  const shares: Devices = { filesystems: [{ type: 'volume' }] }
  const complete = (domain: Domain) => applied([device.sharedMemory], domain).memoryBacking
  const memfd = { source: { type: 'memfd' }, access: { mode: 'shared' } }

  test.each<[string, Domain, Domain['memoryBacking']]>([
    ['is shared with virtiofsd', { devices: shares }, memfd as Domain['memoryBacking']],
    [
      'in huge pages, too',
      { devices: shares, memoryBacking: { hugepages: {} } },
      { hugepages: {}, ...memfd } as Domain['memoryBacking'],
    ],
    [
      'is as stated',
      { devices: shares, memoryBacking: { access: { mode: 'private' } } },
      { access: { mode: 'private' } },
    ],
    ['is private for a directory of the node', { devices: { filesystems: [{ type: 'mount' }] } }, undefined],
    ['is private without a file system', { devices: {} }, undefined],
  ])('%s', (_, domain, expected) => expect(complete(domain)).toEqual(expected))
})
