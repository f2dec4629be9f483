import { scaled } from '../../api/domain/elements/size.ts'
import { invalid } from './finding.ts'
import { example, type Rule } from './rule.ts'

const inKibibytes = { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } as const

export const pstoreSize: Rule = {
  id: 'pstore-size',
  description: 'The size of persistent storage for crash records must be a power of two; its address must be on PCI.',
  about: ['pstore'],
  *check({ domain }) {
    const size = domain.devices?.pstore?.size
    const kibibytes = scaled(inKibibytes, size?.value, size?.unit)?.value
    if (kibibytes !== undefined && (kibibytes < 4n || (kibibytes & (kibibytes - 1n)) !== 0n)) {
      yield invalid('spec.domain.devices.pstore.size.value', size?.value, 'must be a power of two and at least 4 KiB')
    }
    const type = domain.devices?.pstore?.address?.type
    if (type !== undefined && type !== 'pci')
      yield invalid('spec.domain.devices.pstore.address.type', type, 'must be pci')
  },
  example: example(
    { devices: { pstore: { backend: 'acpi-erst', size: { unit: 'KiB', value: 300 } } } },
    { devices: { pstore: { backend: 'acpi-erst', size: { unit: 'KiB', value: 256 } } } },
  ),
}
