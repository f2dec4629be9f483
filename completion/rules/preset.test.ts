import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { olderCapabilities } from '../../test/node-profile.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { neverValid } from './preset.ts'

const rows: [string, Domain, string[]][] = [
  ['what a VM completes is no fault of the preset', { cpu: { topology: { sockets: 2, cores: 2, threads: 1 } } }, []],
  ['nor is a disk without source', { devices: { disks: [{ target: { dev: 'vda' }, driver: { cache: 'none' } }] } }, []],
  ['nor features without ACPI', { os: { firmware: 'efi' } }, []],
  [
    'a machine type that is none',
    { os: { type: { machine: 'q53' } } },
    [
      'no VM with this can run: spec.domain.os.type.machine: Unsupported value: "q53": is no machine type of the QEMU here; q…',
    ],
  ],
  [
    'a queue of an odd size',
    { devices: { interfaces: [{ driver: { rxQueueSize: 511 } }] } },
    [
      'no VM with this can run: spec.domain.devices.interfaces[0].driver.rxQueueSize: Invalid value: 511: must be a power of …',
    ],
  ],
]

test.each(rows)('%s', (_, domain, lines) => {
  expect(neverValid(domain, [bundledCapabilities])).toEqual(lines)
})

test('what one kind of node can run is no fault of a preset', () => {
  const domain: Domain = { os: { type: { os: 'hvm', machine: 'pc-q35-10.0' } } }
  const older = olderCapabilities('10.0')
  expect(neverValid(domain, [older])).toHaveLength(1)
  expect(neverValid(domain, [older, bundledCapabilities])).toEqual([])
})
