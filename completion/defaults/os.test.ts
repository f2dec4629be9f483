import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { architecture, boot, machine } from './os.ts'

test.each<[string, Domain, Domain]>([
  [
    'a VM boots from its disk, on the default machine',
    {},
    { os: { type: { arch: 'x86_64', machine: 'pc-i440fx-10.0' }, boots: [{ dev: 'hd' }] } },
  ],
  ['what is set does not change', { os: { type: { arch: 'x86_64', machine: 'q35' }, boots: [{ dev: 'cdrom' }] } }, {}],
  [
    'an empty list counts as missing',
    { os: { type: { arch: 'x86_64', machine: 'q35' }, boots: [] } },
    { os: { type: { arch: 'x86_64', machine: 'q35' }, boots: [{ dev: 'hd' }] } },
  ],
  [
    'nothing is added if a device has a boot order',
    { os: { type: { arch: 'x86_64', machine: 'q35' } }, devices: { disks: [{ boot: { order: 1 } }] } },
    {},
  ],
])('%s', (_, domain, expected) => {
  expect(applied([architecture, machine, boot], domain)).toEqual({ ...domain, ...expected })
})
