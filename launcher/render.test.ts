import { describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { renderDomain, volumeUses, type VolumeSource } from './render.ts'

const vm = { uid: '33a0a1b2-0000-4000-8000-000000000001', name: 'testvm' }
const sources = new Map<string, VolumeSource>([
  ['data', { kind: 'file', path: '/volumes/data/disk.img', isReadOnly: false }],
  ['scratch', { kind: 'file', path: '/volumes/scratch/disk.img', isReadOnly: false, isTemporary: true }],
  ['raw', { kind: 'block', path: '/block/raw', isReadOnly: false }],
  [
    'root',
    {
      kind: 'overlay',
      path: '/volumes/root/disk.qcow2',
      isReadOnly: false,
      backing: { path: '/images/root/disk/disk.raw', format: 'raw' },
    },
  ],
  [
    'compressed',
    {
      kind: 'overlay',
      path: '/volumes/compressed/disk.qcow2',
      isReadOnly: false,
      backing: { path: '/images/compressed/disk.qcow2', format: 'qcow2' },
    },
  ],
  ['seed', { kind: 'file', path: '/volumes/seed/cloud-init.iso', isReadOnly: true }],
])

function rendered(disk: { [key: string]: unknown }): unknown {
  const domain = JSON.parse(JSON.stringify({ devices: { emulator: '/qemu', disks: [disk] } }))
  return renderDomain(domain, vm, sources).devices
}

const devices = (disk: unknown) => ({ emulator: '/qemu', disks: [disk] })
const target = { dev: 'vda' }

describe('a disk', () => {
  test.each([
    ['of a file', { type: 'file', source: { file: '/x' }, target }, { type: 'file', source: { file: '/x' }, target }],
    ['without source', { type: 'file', device: 'cdrom', target }, { type: 'file', device: 'cdrom', target }],
    [
      'of a volume that is a file',
      { type: 'volume', source: { volume: 'data', startupPolicy: 'optional' }, target },
      { type: 'file', source: { file: '/volumes/data/disk.img', startupPolicy: 'optional' }, target },
    ],
    [
      'of a temporary volume, which shrinks when the guest frees space',
      { type: 'volume', source: { volume: 'scratch' }, target, driver: { cache: 'none' } },
      {
        type: 'file',
        source: { file: '/volumes/scratch/disk.img' },
        target,
        driver: { cache: 'none', discard: 'unmap' },
      },
    ],
    [
      'of a temporary volume whose VM keeps the space',
      { type: 'volume', source: { volume: 'scratch' }, target, driver: { discard: 'ignore' } },
      { type: 'file', source: { file: '/volumes/scratch/disk.img' }, target, driver: { discard: 'ignore' } },
    ],
    [
      'of a temporary volume that is a CD',
      { type: 'volume', device: 'cdrom', source: { volume: 'scratch' }, target },
      { type: 'file', device: 'cdrom', source: { file: '/volumes/scratch/disk.img' }, target },
    ],
    [
      'of a volume that is a block device',
      { type: 'volume', source: { volume: 'raw' }, target },
      { type: 'block', source: { dev: '/block/raw' }, target },
    ],
    [
      'of a volume that may only be read',
      { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target },
      { type: 'file', device: 'cdrom', source: { file: '/volumes/seed/cloud-init.iso' }, target, readonly: {} },
    ],
    [
      'of a volume with an image, with a chain that ends',
      {
        type: 'volume',
        source: { volume: 'root', startupPolicy: 'optional' },
        target,
        driver: { cache: 'writeback', type: 'raw' },
        backingStore: { type: 'file', format: { type: 'raw' }, source: { file: '/etc/passwd' } },
      },
      {
        type: 'file',
        source: { file: '/volumes/root/disk.qcow2', startupPolicy: 'optional' },
        target,
        driver: { cache: 'writeback', discard: 'unmap', type: 'qcow2' },
        backingStore: {
          type: 'file',
          format: { type: 'raw' },
          source: { file: '/images/root/disk/disk.raw' },
          backingStore: {},
        },
      },
    ],
    [
      'of a volume with an image in qcow2, with a limit of its cache',
      { type: 'volume', source: { volume: 'compressed' }, target },
      {
        type: 'file',
        source: { file: '/volumes/compressed/disk.qcow2' },
        target,
        driver: { discard: 'unmap', type: 'qcow2' },
        backingStore: {
          type: 'file',
          format: { type: 'qcow2', metadataCache: { maxSize: { unit: 'bytes', value: 4_194_304 } } },
          source: { file: '/images/compressed/disk.qcow2' },
          backingStore: {},
        },
      },
    ],
    [
      'of no volume, a drive without a medium',
      { type: 'volume', device: 'cdrom', source: { startupPolicy: 'optional' }, target },
      { type: 'file', device: 'cdrom', target },
    ],
    [
      'of a volume in a storage pool',
      { type: 'volume', source: { pool: 'default', volume: 'data' }, target },
      { type: 'volume', source: { pool: 'default', volume: 'data' }, target },
    ],
  ])('%s', (_, disk, result) => expect(rendered(disk)).toEqual(devices(result)))

  test('of a volume that is not there is refused', () => {
    expect(() => rendered({ type: 'volume', source: { volume: 'gone' } })).toThrow(
      'spec.domain.devices.disks[0].source.volume: spec.volumes has no "gone"',
    )
  })
})

describe('a file system', () => {
  const shares = new Map<string, VolumeSource>([
    ['data', { kind: 'directory', path: '/volumes/data', isReadOnly: false }],
    ['fixed', { kind: 'directory', path: '/volumes/fixed', isReadOnly: true }],
  ])
  const renderedOne = (filesystem: object): unknown =>
    renderDomain({ devices: { filesystems: [filesystem] } }, vm, shares).devices?.filesystems?.[0]
  const driver = { type: 'virtiofs' }
  const limited = { binary: { openfiles: { max: 32_768 } } }

  test.each<[string, object, object]>([
    [
      'of a volume, and of nothing that its source names beside it',
      { type: 'volume', driver, source: { volume: 'data', dir: '/etc' }, target: { dir: 't' } },
      { type: 'mount', driver, ...limited, source: { dir: '/volumes/data' }, target: { dir: 't' } },
    ],
    [
      'of a volume that may only be read',
      { type: 'volume', driver, binary: { cache: { mode: 'none' } }, source: { volume: 'fixed' } },
      {
        type: 'mount',
        driver,
        binary: { cache: { mode: 'none' }, ...limited.binary },
        source: { dir: '/volumes/fixed' },
        readonly: {},
      },
    ],
    [
      'of a directory, with another limit',
      { type: 'mount', driver, binary: { openfiles: { max: '9' } }, source: { dir: '/d' } },
      { type: 'mount', driver, binary: { openfiles: { max: 9 } }, source: { dir: '/d' } },
    ],
    ['that is served already', { driver, source: { socket: '/s' } }, { driver, source: { socket: '/s' } }],
    ['of 9p', { type: 'mount', source: { dir: '/d' } }, { type: 'mount', source: { dir: '/d' } }],
  ])('%s', (_, filesystem, result) => expect(renderedOne(filesystem)).toEqual(result))

  test('of a volume that is not there is refused', () => {
    expect(() => renderedOne({ type: 'volume', driver, source: { volume: '../private' } })).toThrow(
      'spec.domain.devices.filesystems[0].source.volume: spec.volumes has no "../private"',
    )
  })
})

const unmerged: Domain = { memoryBacking: { nosharepages: {} } }

describe('memory', () => {
  const named = { name: 'testvm', uuid: vm.uid, ...unmerged }
  const cache = (value: number) => ({ features: { tcg: { tbCache: { unit: 'MiB', value } } } })

  test.each<[string, Domain, Domain]>([
    ['for translated code is bounded', { type: 'qemu' }, { type: 'qemu', ...cache(32) }],
    ['for translated code is as stated', { type: 'qemu', ...cache(100) }, { type: 'qemu', ...cache(100) }],
    ['for translated code is not there with KVM', { type: 'kvm' }, { type: 'kvm' }],
    [
      'has its limit at the pod, because libvirt accepts none in a session',
      { type: 'kvm', memtune: { hardLimit: { unit: 'MiB', value: 512 } } },
      { type: 'kvm' },
    ],
    [
      'is not merged by the node, whatever else backs it',
      { type: 'kvm', memoryBacking: { hugepages: {} } },
      { type: 'kvm', memoryBacking: { hugepages: {}, nosharepages: {} } },
    ],
    [
      'with another limit is for libvirt to refuse',
      { type: 'kvm', memtune: { softLimit: { unit: 'MiB', value: 512 } } },
      { type: 'kvm', memtune: { softLimit: { unit: 'MiB', value: 512 } } },
    ],
  ])('%s', (_, domain, result) => expect(renderDomain(domain, vm, sources)).toEqual({ ...named, ...result }))
})

describe('name and uuid', () => {
  test('are the object’s if the domain has none', () => {
    expect(renderDomain({ type: 'kvm' }, vm, sources)).toEqual({
      name: 'testvm',
      uuid: vm.uid,
      type: 'kvm',
      ...unmerged,
    })
  })

  test('are the domain’s if it has them', () => {
    const own = { name: 'own', uuid: '00000000-0000-4000-8000-000000000000' }
    expect(renderDomain(own, vm, sources)).toEqual({ ...own, ...unmerged })
  })
})

test('how volumes are used follows from all their disks', () => {
  const disk = (volume: string, more: object = {}) => ({ type: 'volume' as const, source: { volume }, ...more })
  const claim = (name: string, readOnly?: boolean) => ({
    name,
    persistentVolumeClaim: { claimName: name, ...(readOnly === undefined ? {} : { readOnly }) },
  })
  const disks = [
    disk('written'),
    disk('shared', { shareable: {} }),
    disk('shared', { shareable: {}, readonly: {} }),
    disk('half', { shareable: {} }),
    disk('half', { readonly: {} }),
    disk('cd', { device: 'cdrom' }),
    disk('claim'),
    disk('absent'),
    { type: 'volume' as const, device: 'cdrom' as const },
  ]
  const volumes = [...['written', 'shared', 'half', 'cd', 'unused'].map((name) => claim(name)), claim('claim', true)]
  expect(Object.fromEntries(volumeUses({ domain: { devices: { disks } }, volumes }))).toEqual({
    written: { isWriter: true, isShared: false },
    shared: { isWriter: true, isShared: true },
    half: { isWriter: true, isShared: false },
    cd: { isWriter: false, isShared: false },
    claim: { isWriter: false, isShared: false },
  })
})
