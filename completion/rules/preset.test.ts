import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { olderCapabilities } from '../../test/node-profile.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { neverValid } from './preset.ts'

const rows: [string, Domain, string[]][] = [
  ['a field that the VM can complete is not a cause', { cpu: { topology: { sockets: 2, cores: 2, threads: 1 } } }, []],
  [
    'neither is a disk without source',
    { devices: { disks: [{ target: { dev: 'vda' }, driver: { cache: 'none' } }] } },
    [],
  ],
  ['neither are features without ACPI', { os: { firmware: 'efi' } }, []],
  [
    'an unknown machine type',
    { os: { type: { machine: 'q53' } } },
    [
      'no VM with this can run: spec.domain.os.type.machine: Unsupported value: "q53": QEMU on this node has no such machine …',
    ],
  ],
  [
    'a queue size that is not a power of two',
    { devices: { interfaces: [{ driver: { rxQueueSize: 511 } }] } },
    [
      'no VM with this can run: spec.domain.devices.interfaces[0].driver.rxQueueSize: Invalid value: 511: must be a power of …',
    ],
  ],
]

test.each(rows)('%s', (_, domain, lines) => {
  expect(neverValid(domain, [bundledCapabilities])).toEqual(lines)
})

test('a part that one kind of node can run is not a cause', () => {
  const domain: Domain = { os: { type: { os: 'hvm', machine: 'pc-q35-10.0' } } }
  const older = olderCapabilities('10.0')
  expect(neverValid(domain, [older])).toHaveLength(1)
  expect(neverValid(domain, [older, bundledCapabilities])).toEqual([])
})
