import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'

const pstore = (value: number, more: object = {}): Domain => ({
  devices: { pstore: { backend: 'acpi-erst', size: { unit: 'KiB', value }, ...more } },
})

testRule('pstore-size', [
  {
    refused: pstore(300),
    causes: ['spec.domain.devices.pstore.size.value: Invalid value: 300: must be a power of two and at least 4 KiB'],
    accepted: pstore(256),
  },
  {
    refused: pstore(2),
    causes: ['spec.domain.devices.pstore.size.value: Invalid value: 2: must be a power of two and at least 4 KiB'],
    accepted: pstore(4),
  },
  {
    refused: pstore(256, { address: { type: 'isa' } }),
    causes: ['spec.domain.devices.pstore.address.type: Invalid value: "isa": must be pci'],
    accepted: pstore(256, { address: { type: 'pci', slot: 9 } }),
  },
])

testSilent('pstore-size', [{ os: { type: { os: 'hvm', machine: 'isapc' } }, ...pstore(4) }])
