import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { allDevices } from './device.ts'

test('all devices are those of lists and single ones, each with its path', () => {
  const domain: Domain = {
    devices: {
      emulator: '/usr/bin/qemu',
      disks: [{ device: 'cdrom' }],
      memballoon: { model: 'none' },
      interfaces: [{ type: 'user' }, { type: 'vdpa' }],
    },
  }
  const devices = [
    { kind: 'disks', at: 'spec.domain.devices.disks[0]', device: { device: 'cdrom' } },
    { kind: 'memballoon', at: 'spec.domain.devices.memballoon', device: { model: 'none' } },
    { kind: 'interfaces', at: 'spec.domain.devices.interfaces[0]', device: { type: 'user' } },
    { kind: 'interfaces', at: 'spec.domain.devices.interfaces[1]', device: { type: 'vdpa' } },
  ]
  expect(allDevices(domain)).toEqual(devices)
  expect(allDevices(domain)).toBe(allDevices(domain))
  expect(allDevices({})).toEqual([])
})
