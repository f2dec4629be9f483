import { describe, expect, it } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { memoryDemand, translationCacheBytes } from './launcher-memory.ts'

const mebibytes = (bytes: bigint) => Number(bytes) / 2 ** 20
const size = (unit: string, value: number) => ({ unit, value })
const small: Domain = { type: 'kvm', memory: size('MiB', 64) }

/** In MiB. */
const demandOf = (domain: Domain) => {
  const { guest, qemu } = memoryDemand({ ...small, ...domain })
  return { guest: mebibytes(guest), qemu: mebibytes(qemu) }
}

/** What QEMU needs in addition to the small domain. */
const more = (domain: Domain) => demandOf(domain).qemu - demandOf({}).qemu

const cells = (memory: number, unit: string): Domain => ({ cpu: { numa: { cells: [{ id: 0, memory, unit }] } } })
const modules = (...memories: NonNullable<NonNullable<Domain['devices']>['memories']>): Domain => ({
  maxMemory: { ...size('GiB', 128), slots: 4 },
  ...cells(64, 'MiB'),
  devices: { memories },
})

describe('memory of the guest', () => {
  it.each<[string, Domain, number]>([
    ['is the stated one', {}, 64],
    ['in NUMA nodes counts, even if more than stated', cells(64, 'GiB'), 65_536],
    ['is the stated one if NUMA nodes have less', cells(1, 'MiB'), 64],
    ['in each NUMA node is rounded up as by libvirt', cells(64 * 1024 + 1, 'KiB'), 65],
    ['in each module is rounded up as by libvirt', modules({ model: 'dimm', target: { size: size('b', 1) } }), 65],
    ['is rounded up as by libvirt', { memory: size('b', 64 * 2 ** 20 + 1) }, 65],
    ['that could be plugged in does not count', { maxMemory: { ...size('GiB', 128), slots: 4 } }, 64],
    ['in a module', modules({ model: 'dimm', target: { size: size('GiB', 64) } }), 65_600],
    ['in persistent memory', modules({ model: 'nvdimm', target: { size: size('GiB', 64) } }), 65_600],
    [
      'in virtio-mem is its size, not the requested amount',
      modules({ model: 'virtio-mem', target: { size: size('GiB', 64), requested: size('GiB', 0) } }),
      65_600,
    ],
    ['in virtio-pmem', modules({ model: 'virtio-pmem', target: { size: size('GiB', 1) } }), 1088],
    ['that VMs share', { devices: { shmems: [{ name: 'a' }, { name: 'b', size: size('M', 16) }] } }, 84],
    ['for a record of a crash', { devices: { pstore: { size: size('MiB', 1) } } }, 65],
    ['of KVM on a large machine', { memory: size('TiB', 1) }, 1024 * 1024],
  ])('%s', (_, domain, expected) => expect(demandOf(domain).guest).toBe(expected))
})

const disk = (more_: object = {}) => ({ target: { dev: 'vda' }, ...more_ })
const qcow2 = (maxSize: object) => ({ type: 'qcow2' as const, metadataCache: { maxSize } })
const onPci = { address: { type: 'pci' as const } }

const passt = { type: 'user', backend: { type: 'passt' } } as const

describe('QEMU needs more', () => {
  it.each<[string, Domain, number]>([
    ['for passt', { devices: { interfaces: [passt] } }, 24.25],
    [
      'for ports that passt forwards',
      {
        devices: {
          interfaces: [
            {
              ...passt,
              portForwards: [
                {
                  ranges: [
                    { start: 1, end: '1024' },
                    { start: 5, exclude: true },
                  ],
                },
              ],
            },
            { ...passt, type: 'vhostuser', portForwards: [{ ranges: [{ start: 9 }] }, {}] },
          ],
        },
      },
      48.5 + (1025 * 5) / 1024,
    ],
    ['for page tables', { memory: size('GiB', 8) }, (3 * (8192 - 64)) / 512],
    ['for virtual CPUs', { vcpu: { value: 8 } }, 14 + 63 / 64],
    ['for many virtual CPUs, more each', { vcpu: { value: 128 } }, 254 + (128 * 128 - 1) / 64],
    ['for a device', { devices: { serials: [{}] } }, 0.25],
    ['for a device on PCI', { devices: { rngs: [onPci] } }, 0.25 + 2 + 1 / 8],
    [
      'for many devices on PCI, more each',
      { devices: { rngs: Array.from({ length: 40 }, () => onPci) } },
      10 + 80 + 200,
    ],
    ['for a port of PCI Express like for any bus', { devices: { controllers: [{ type: 'pci', ...onPci }] } }, 0.25],
    ['for a disk', { devices: { disks: [disk()] } }, 4.25],
    ['for a disk with queues', { devices: { disks: [disk({ driver: { queues: 16 } })] } }, 8.25],
    ['for a disk in Ceph', { devices: { disks: [disk({ source: { protocol: 'rbd' } })] } }, 68.25],
    ['for a qcow2 image', { devices: { disks: [disk({ driver: { type: 'qcow2' } })] } }, 37.25],
    ['for a stated cache', { devices: { disks: [disk({ driver: qcow2(size('GiB', 1)) })] } }, 1028.25],
    [
      'for the images below',
      {
        devices: {
          disks: [
            disk({
              driver: { type: 'qcow2' },
              backingStore: { format: { type: 'qcow2' }, backingStore: { format: { type: 'raw' } } },
            }),
          ],
        },
      },
      70.25,
    ],
    ['for a network in QEMU', { devices: { interfaces: [{ type: 'user' }] } }, 16.25],
    ['for queues of a network', { devices: { interfaces: [{ type: 'bridge', driver: { queues: 4 } }] } }, 1.25],
    ['for I/O threads', { iothreads: 64 }, 64 * 3],
    [
      'for their worker threads',
      { iothreads: 2, iothreadids: { iothreads: [{ id: 1, threadPoolMax: 1024 }, { id: 2 }] } },
      40.5 + 3,
    ],
    ['for the worker threads of the main loop', { defaultiothread: { threadPoolMax: 1024 } }, 40],
    ['for a screen', { devices: { videos: [{ model: { type: 'vga' } }] } }, 16.25],
    ['for much memory of a screen', { devices: { videos: [{ model: { type: 'vga', vram: 524_288 } }] } }, 512.25],
    [
      'for QXL',
      { devices: { videos: [{ model: { type: 'qxl', ram: 131_072, vram64: 1024 } }] } },
      128 + 64 + 16 + 1.25,
    ],
    ['for several screens', { devices: { videos: [{ model: { type: 'virtio', heads: 4 } }] } }, 256.25],
    [
      'for 3D',
      { devices: { videos: [{ model: { type: 'virtio', acceleration: { accel3d: true } } }] } },
      64 + 512 + 0.25,
    ],
    ['for no screen only as for any device', { devices: { videos: [{ model: { type: 'none' } }] } }, 0.25],
    ['for a viewer', { devices: { graphics: [{ type: 'vnc' }, { type: 'spice' }] } }, 96.5],
    ['for a directory', { devices: { filesystems: [{}] } }, 32.25],
    ['for virtiofsd', { devices: { filesystems: [{ driver: { type: 'virtiofs' } }] } }, 96.25],
    [
      'for the files that virtiofsd has open',
      { devices: { filesystems: [{ driver: { type: 'virtiofs' }, binary: { openfiles: { max: '1024' } } }] } },
      34.25,
    ],
    [
      'for nothing of a virtiofsd elsewhere',
      { devices: { filesystems: [{ driver: { type: 'virtiofs' }, source: { socket: '/s' } }] } },
      32.25,
    ],
    ['for a TPM', { devices: { tpms: [{}] } }, 16.25],
    ['for a USB device of the viewer', { devices: { redirdevs: [{}] } }, 16.25],
    ['for a device of the node', { devices: { hostdevs: [{}] } }, 8.25],
    ['for sound', { devices: { sounds: [{}] } }, 4.25],
  ])('%s', (_, domain, expected) => expect(more(domain)).toBeCloseTo(expected, 6))

  it('for emulation: a cache of translated code, and a map of pages for each virtual CPU', () => {
    const emulated = (memory: number, vcpus: number) =>
      demandOf({ type: 'qemu', memory: size('MiB', memory), vcpu: { value: vcpus } }).qemu -
      demandOf({ type: 'kvm', memory: size('MiB', memory), vcpu: { value: vcpus } }).qemu
    expect(emulated(64, 1)).toBe(32 + 4 - (2 * 64) / 512)
    expect(emulated(4096, 2)).toBe(256 + 2 * 64 - (2 * 4096) / 512)
  })
})

it('a limit set by an operator replaces the computed one for QEMU and its guest', () => {
  expect(demandOf({ iothreads: 64, memtune: { hardLimit: size('MiB', 500) } })).toEqual({ guest: 64, qemu: 436 })
  expect(demandOf({ memtune: { hardLimit: size('MiB', 10) } })).toEqual({ guest: 64, qemu: 0 })
})

describe('the cache of translated code', () => {
  it.each<[string, Domain, number]>([
    ['is a quarter of the memory', { memory: size('MiB', 400) }, 100],
    ['is at least 32 MiB', {}, 32],
    ['is at most 256 MiB', { memory: size('GiB', 8) }, 256],
    ['is whole MiB', { memory: size('KiB', 204_801) }, 50],
    ['is the stated one', { features: { tcg: { tbCache: size('GiB', 1) } } }, 1024],
    ['is the default for 0', { features: { tcg: { tbCache: size('MiB', 0) } } }, 32],
    ['is absent with KVM', { type: 'kvm' }, 0],
  ])('%s', (_, domain, expected) => {
    expect(mebibytes(translationCacheBytes({ ...small, type: 'qemu', ...domain }))).toBe(expected)
  })
})
