import { expect, test } from 'vitest'
import type { Connection } from './connection.ts'
import { LibvirtError } from './errors.ts'
import { readMounts, type GuestDisk } from './guest-info.ts'
import { errorCodes } from './protocol.ts'

const dom = { name: 'one', uuid: Buffer.alloc(16), id: 1 }
const refusing = (code: number): Pick<Connection, 'call'> => ({
  async call(procedure) {
    if (procedure === 'domain_get_guest_info') throw new LibvirtError('guest-get-fsinfo is disabled', code, 10)
    return {} as never
  },
})

/** The answer of an agent: mount points, and of each of their disks what is reported. */
type Mounts = readonly (readonly [string, ...{ alias?: string; serial?: string; device?: string }[]])[]
const answering = (mounts: Mounts) => {
  const fields = mounts.flatMap(([mountpoint, ...disks], index) => [
    [`fs.${index}.mountpoint`, mountpoint] as const,
    [`fs.${index}.disk.count`, disks.length] as const,
    ...disks.flatMap((disk, at) =>
      Object.entries(disk).map(([key, value]) => [`fs.${index}.disk.${at}.${key}`, value] as const),
    ),
  ])
  const params = [['fs.count', mounts.length] as const, ...fields].map(([field, value]) => ({ field, value }))
  const call: Pick<Connection, 'call'>['call'] = async (procedure) =>
    (procedure === 'domain_get_guest_info' ? { params } : {}) as never
  return { call }
}
const root = ['/', { alias: 'vda' }] as const
const linux = { serial: '0QEMU_QEMU_HARDDISK_DATA' }
const disk = { dev: 'sda', bus: 'scsi', serial: 'DATA' }
const virtio = { dev: 'vdb', bus: 'virtio', serial: 'x' }
const long = { dev: 'vdb', bus: 'virtio', serial: 'x'.repeat(36) }
const unclear = 'AgentUnclear: the agent in the guest does not report clearly on which disk it has mounted'

test.each<[string, Mounts, GuestDisk, unknown]>([
  ['nothing is mounted on it', [root], disk, []],
  ['its alias is reported', [root, ['/data', { alias: 'sda' }]], disk, ['/data']],
  ['it is one of several disks', [root, ['/data', { alias: 'vdb' }, { alias: 'sda' }]], disk, ['/data']],
  ['its alias is that of another disk', [['/data', { alias: 'sdh', ...linux }]], disk, ['/data']],
  ['the alias of another disk is its own', [['/', { alias: 'sda', serial: 'ROOT' }]], disk, `${unclear} /`],
  ['the serial number of another disk ends like its own', [['/', { serial: '0QEMU_QEMU_HARDDISK_MYDATA' }]], disk, []],
  ['only its serial number is reported', [root, ['/data', linux]], disk, ['/data']],
  ['only that of another disk of Linux is reported', [['/', { serial: '0QEMU_QEMU_HARDDISK_ROOT' }]], disk, []],
  ['only that of another virtio disk of Linux', [['/', { serial: 'my_x', device: '/dev/vda1' }]], virtio, []],
  ['only that of a virtio disk in another form', [['/data', { serial: 'x  ' }]], virtio, ['/data']],
  ['only one of SATA is reported', [['/', { serial: 'QEMU_HARDDISK_QM00001' }]], disk, []],
  [
    'one that contains its own is reported',
    [
      ['D:', { serial: 'data2' }],
      ['/', { serial: 'data-root' }],
    ],
    disk,
    [],
  ],
  ['only words beside it are reported', [['/data', { serial: 'QEMU HARDDISK data' }]], disk, ['/data']],
  ['it is padded', [['/data', { serial: 'data   ', alias: 'sdh' }]], disk, `${unclear} /data`],
  ['it is padded, and its alias is reported', [['/data', { serial: 'data   ', alias: 'sda' }]], disk, ['/data']],
  ['it is empty', [['/data', { serial: '', device: '/dev/sdb' }]], disk, `${unclear} /data`],
  ['alias and serial number of another disk are reported', [['/', { serial: 'ROOT', alias: 'sdh' }]], disk, []],
  ['the device of another one is a drive', [['/', { device: '/dev/sr0' }]], disk, []],
  ['the device of another one has the driver of virtio', [['/', { device: '/dev/vda1' }]], disk, []],
  ['or does not have it', [['/', { device: '/dev/sda' }]], { dev: 'vdb', bus: 'virtio' }, []],
  ['or has that of NVMe', [['/', { device: '/dev/nvme0n1p1' }]], { dev: 'sda', bus: 'scsi' }, []],
  ['its driver is the same', [['/data', { device: '/dev/sda' }]], { dev: 'sda', bus: 'scsi' }, `${unclear} /data`],
  ['its serial number was cut', [['/data', { serial: 'x'.repeat(20) }]], long, ['/data']],
  [
    'neither is reported',
    [
      ['/', {}],
      ['/data', {}],
    ],
    disk,
    `${unclear} /, /data`,
  ],
  ['it has no serial number', [root, ['/data', linux]], { dev: 'sda', bus: 'scsi' }, `${unclear} /data`],
  ['a file system is on no disk', [root, ['/loop']], disk, []],
  ['there are 256 file systems', Array.from({ length: 256 }, () => root), disk, []],
  [
    'one is on 65 disks',
    [['/', ...Array.from({ length: 65 }, () => ({ alias: 'vda' }))]],
    disk,
    'AgentUnclear: the agent in the guest reports a file system on more than 64 disks',
  ],
  [
    'there are more',
    Array.from({ length: 257 }, () => root),
    disk,
    'AgentUnclear: the agent in the guest reports more than 256 file systems',
  ],
])('where a disk is mounted if %s', async (_, mounts, wanted, expected) => {
  expect(await readMounts(answering(mounts), dom, wanted).catch(String)).toEqual(expected)
})

test.each([
  ['an agent that refuses does not report that nothing is mounted', 1, 'guest-get-fsinfo is disabled'],
  ['nor does one that does not answer', errorCodes.agentUnresponsive, 'did not answer the question'],
])('%s', async (_, code, expected) => {
  await expect(readMounts(refusing(code), dom, { dev: 'sda', bus: 'scsi' })).rejects.toThrow(expected)
})
