import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import * as disk from './disk.ts'
import type { Rule } from './rule.ts'

type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]
const one = (rules: readonly Rule[], given: Disk, isNew = true): Disk | undefined =>
  applied(rules, { devices: { disks: [given] } }, { isNew }).devices?.disks?.[0]

describe('the bus', () => {
  test.each<[string, Disk, string]>([
    ['hda', { target: { dev: 'hda' } }, 'ide'],
    ['sda', { target: { dev: 'sda' } }, 'scsi'],
    ['vda', { target: { dev: 'vda' } }, 'virtio'],
    ['another name', { target: { dev: 'xvda' } }, 'ide'],
    ['a floppy, whatever its name', { device: 'floppy', target: { dev: 'vda' } }, 'fdc'],
    ['the bus that is written', { target: { dev: 'vda', bus: 'sata' } }, 'sata'],
  ])('of %s is %s', (_, given, bus) => {
    expect(one([disk.diskBus], given)).toEqual({ ...given, target: { ...given.target, bus } })
  })
})

describe('the address', () => {
  test.each<[string, string, object]>([
    ['the first IDE disk', 'hda ide', { controller: 0, bus: 0, target: 0, unit: 0 }],
    ['the fourth IDE disk', 'hdd ide', { controller: 0, bus: 1, target: 0, unit: 1 }],
    ['the sixth SATA disk', 'sdf sata', { controller: 0, bus: 0, target: 0, unit: 5 }],
    ['the seventh SATA disk', 'sdg sata', { controller: 1, bus: 0, target: 0, unit: 0 }],
    ['the eighth SCSI disk', 'sdh scsi', { controller: 1, bus: 0, target: 0, unit: 0 }],
    ['the 27th SCSI disk', 'sdaa scsi', { controller: 3, bus: 0, target: 0, unit: 5 }],
    ['the second floppy drive', 'fdb fdc', { controller: 0, bus: 0, target: 0, unit: 1 }],
  ])('of %s', (_, name, address) => {
    const [dev = '', bus] = name.split(' ')
    const target = { dev, bus: bus as 'ide' }
    expect(one([disk.diskAddress], { target })).toEqual({ target, address: { type: 'drive', ...address } })
  })

  test.each<[string, Disk]>([
    ['on virtio', { target: { dev: 'vda', bus: 'virtio' } }],
    ['with a name that has no letters', { target: { dev: 'sd1', bus: 'sata' } }],
    ['with an address of another kind', { target: { dev: 'sda', bus: 'scsi' }, address: { type: 'pci' } }],
  ])('is none for a disk %s', (_, given) => expect(one([disk.diskAddress], given)).toEqual(given))

  test('retains existing parts and gets missing ones', () => {
    const target = { dev: 'sdz', bus: 'scsi' } as const
    expect(one([disk.diskAddress], { target, address: { type: 'drive', unit: '3' } })).toEqual({
      target,
      address: { type: 'drive', controller: 0, bus: 0, target: 0, unit: '3' },
    })
  })
})

describe('the driver', () => {
  test.each<[string, Disk, object]>([
    ['a file', {}, { name: 'qemu', type: 'raw' }],
    ['qcow2', { driver: { type: 'qcow2' } }, { name: 'qemu', type: 'qcow2' }],
    ['a volume of a pool', { type: 'volume', source: { pool: 'p', volume: 'v' } }, { name: 'qemu' }],
    ['a volume of the VM', { type: 'volume', source: { volume: 'v' } }, { name: 'qemu', type: 'raw' }],
  ])('of %s', (_, given, driver) => expect(one([disk.diskDriver], given)).toEqual({ ...given, driver }))

  test.each<[string, string | undefined, Disk]>([
    ['qcow2 for a volume with an image', 'qcow2', { type: 'volume', source: { volume: 'root' } }],
    ['raw for another volume', 'raw', { type: 'volume', source: { volume: 'data' } }],
    ['raw for a file', 'raw', { type: 'file' }],
    ['raw for a volume without a name', 'raw', { type: 'volume' }],
    ['unknown for a volume of a pool', undefined, { type: 'volume', source: { pool: 'p', volume: 'root' } }],
  ])('is %s', (_, type, given) => {
    const domain = { devices: { disks: [given] } }
    const found = applied([disk.diskDriver], domain, { imageVolumes: new Set(['root']) }).devices?.disks?.[0]
    expect(found?.driver?.type).toBe(type)
  })
})

describe('servers', () => {
  const network = (protocol: string, hosts: object): Disk => ({ source: { protocol: protocol as 'nbd', ...hosts } })

  test.each<[string, boolean, number | undefined]>([
    ['http', false, 80],
    ['https', true, 443],
    ['iscsi', true, 3260],
    ['nbd', true, 10809],
    ['gluster', true, 24007],
    ['ssh', true, 22],
    ['rbd', true, undefined],
    ['sheepdog', false, 7000],
  ])('of %s (new: %s) listen on %s', (protocol, isNew, port) => {
    const expected = network(protocol, { host: { name: 'a', ...(port === undefined ? {} : { port }) } })
    expect(one([disk.diskSource], network(protocol, { host: { name: 'a' } }), isNew)).toEqual(expected)
  })

  test('each of several, except those on a socket and those with a port', () => {
    const hosts = [{ name: 'a' }, { transport: 'unix', socket: '/s' }, { name: 'b', port: '7' }]
    expect(one([disk.diskSource], network('gluster', { hosts }))).toEqual(
      network('gluster', { hosts: [{ name: 'a', port: 24007 }, ...hosts.slice(1)] }),
    )
  })
})

test('a CD-ROM is read-only, a vhostuser disk is not in snapshots, and QEMU decrypts LUKS', () => {
  const rules = [disk.diskType, disk.diskDevice, disk.diskReadonly, disk.diskSnapshot, disk.diskSource]
  expect(one(rules, { device: 'cdrom' })).toEqual({ type: 'file', device: 'cdrom', readonly: {} })
  expect(one(rules, { type: 'vhostuser' })).toEqual({ type: 'vhostuser', device: 'disk', snapshot: 'no' })
  expect(one(rules, { source: { file: '/x', encryption: { format: 'luks' } } })).toEqual({
    type: 'file',
    device: 'disk',
    source: { file: '/x', encryption: { format: 'luks', engine: 'qemu' } },
  })
})
