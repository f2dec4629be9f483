import { expect, test } from 'vitest'
import { placeDeviceState } from './device-state.ts'

const os = { firmware: 'efi', type: { os: 'hvm', machine: 'q35' } } as const

test.each([
  [
    'that completion has set is in the pod',
    { format: 'raw', template: '/usr/share/vars.fd', value: '/var/lib/libvirt/qemu/nvram/vm_VARS.fd' } as const,
    { format: 'raw', template: '/usr/share/vars.fd', value: '/private/nvram/vm_VARS.fd' },
  ],
  ['elsewhere is not moved', { value: '/var/lib/libvirt/qemu/nvram.fd' }, { value: '/var/lib/libvirt/qemu/nvram.fd' }],
  [
    'that is not a file is not moved',
    { type: 'block', source: { dev: '/dev/vars' } } as const,
    { type: 'block', source: { dev: '/dev/vars' } },
  ],
])('a variable store %s', (_, nvram, expected) => {
  expect(placeDeviceState({ type: 'qemu', os: { ...os, nvram } }, '/private/nvram')).toEqual({
    type: 'qemu',
    os: { ...os, nvram: expected },
  })
})

test('a domain without a variable store is not changed', () => {
  expect(placeDeviceState({ type: 'qemu' }, '/private/nvram')).toEqual({ type: 'qemu' })
})
