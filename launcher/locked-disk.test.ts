import { expect, test } from 'vitest'
import { heldDeviceMessage, lockedDiskMessage } from './locked-disk.ts'

const spec = {
  domain: {},
  volumes: [
    { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
    { name: 'scratch', emptyDisk: { capacity: '1Gi' } },
  ],
}
const advice = (words: string) =>
  `is in use by another VM or process; stop that one, or set shareable: {} on the disks of both if their guests coordinate writes. QEMU reported: ${words}`
const qemu = (words: string, path: string) =>
  `internal error: process exited while connecting to monitor: qemu-system-x86_64: -blockdev {"driver":"file"}: ${words}\nIs another process using the image [${path}]?`
const write = 'Failed to get "write" lock'
const shared = 'Failed to get shared "write" lock'

test.each([
  [
    'a file on a claim',
    qemu(write, '/var/run/virtset/volumes/data/disk.img'),
    `volume "data": the disk of the claim "c" ${advice(write)}`,
  ],
  [
    'a block device',
    qemu(shared, '/var/run/virtset/block/data'),
    `volume "data": the disk of the claim "c" ${advice(shared)}`,
  ],
  [
    'an empty disk',
    qemu(write, '/var/run/virtset/volumes/scratch/disk.img'),
    `volume "scratch": the disk ${advice(write)}`,
  ],
  ['a path that is not a volume', qemu(write, '/srv/disk.img'), `a disk ${advice(write)}`],
  ['no path', write, `a disk ${advice(write)}`],
  // In a time that grows with the square of their length, they would take minutes: longer than a test may.
  [
    'the beginning of a path, again and again',
    `${write} ${'image [/volumes/x'.repeat(32_768)}`,
    `a disk ${advice(write)}`,
  ],
  ['an endless path', qemu(write, '/volumes/x'.repeat(32_768)), `a disk ${advice(write)}`],
  ['the beginning of the words, again and again', `Failed to get "${'a '.repeat(50)}`.repeat(32_768), undefined],
  ['another error', 'internal error: no such file', undefined],
])('%s', (_, message, expected) => expect(lockedDiskMessage(message, spec)).toBe(expected))

test('a block device that another process holds', () =>
  expect(heldDeviceMessage('data', 'c', 'EBUSY: busy')).toBe(
    'volume "data": the disk of the claim "c" is in use on its node, by another VM or by the node itself (a mount, LVM, RAID or multipath); stop that VM, or let the node leave the device alone. If it is a VM and the guests coordinate writes, set shareable: {} on the disks of both. The kernel reported: EBUSY: busy',
  ))
