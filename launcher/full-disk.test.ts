import { describe, expect, test } from 'vitest'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { hasRoom, pausedMessage } from './full-disk.ts'
import type { DiskError } from './libvirt/domain.ts'

const disk = (dev: string, source: object) => ({ target: { dev }, source })
const spec: VirtualMachineSpec = {
  domain: { devices: { disks: [disk('vda', { volume: 'root' }), disk('vdb', { pool: 'p', volume: 'other' })] } },
  volumes: [{ name: 'root', image: { reference: 'a' } }],
}
const full = (target: string): DiskError => ({ target, isFull: true })

describe('the message for a paused guest', () => {
  test.each<[string, readonly DiskError[], string]>([
    [
      'names the volume',
      [full('vda')],
      'the guest is paused: disk vda (volume "root") has no space left; it continues when there is space',
    ],
    [
      'names disks without a volume of the VM',
      [full('vdb')],
      'the guest is paused: disk vdb has no space left; it continues when there is space',
    ],
    [
      'promises nothing after another error',
      [full('vda'), { target: 'vdz', isFull: false }],
      'the guest is paused: disk vda (volume "root") has no space left, disk vdz has an I/O error',
    ],
    ['does not need the disk', [], 'the guest is paused by an I/O error of a disk'],
  ])('%s', (_, errors, message) => expect(pausedMessage(errors, spec)).toBe(message))
})

describe('a disk', () => {
  const domain = (source: object) => ({
    devices: { disks: [disk('vda', source), disk('vdb', { file: '/proc/self/stat' })] },
  })

  test.each<[string, string, object, boolean]>([
    ['on a file system with space has room', 'vda', { file: import.meta.filename }, true],
    ['on a file system without space has none', 'vda', { file: '/proc/self/stat' }, false],
    ['on a device may have room', 'vda', { dev: '/dev/sdx' }, true],
    ['that is not there does not matter', 'vdc', {}, true],
  ])('%s', async (_, target, source, expected) => expect(await hasRoom([target], domain(source))).toBe(expected))
})
