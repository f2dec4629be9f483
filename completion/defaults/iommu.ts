import type { Domain } from '../../api/domain/domain.ts'
import { chipsetOf } from './machine.ts'
import { isOn, numberOf } from './reading.ts'
import { rule } from './rule.ts'

/** With more virtual CPUs than this, interrupts require an IOMMU that can address them. */
const mostCpusWithout = 255

const isLarge = (domain: Domain): boolean =>
  chipsetOf(domain) === 'q35' && (numberOf(domain.vcpu?.value) ?? 1) > mostCpusWithout

export const largeIommu = rule('iommu', 'A q35 machine with more than 255 virtual CPUs has an Intel IOMMU.', (domain) =>
  isLarge(domain) ? { devices: { iommu: { model: 'intel' } } } : undefined,
)

export const interruptRemapping = rule(
  'iommu-remapping',
  'The Intel IOMMU of a machine with more than 255 virtual CPUs remaps interrupts in extended interrupt mode.',
  (domain) =>
    isLarge(domain) && domain.devices?.iommu?.model === 'intel'
      ? { devices: { iommu: { driver: { intremap: true, eim: true } } } }
      : undefined,
)

export const splitIoapic = rule(
  'ioapic',
  'If interrupts are remapped, QEMU emulates the I/O APIC.',
  ({ devices, features }) =>
    isOn(devices?.iommu?.driver?.intremap) === true && !features?.ioapic
      ? { features: { ioapic: { driver: 'qemu' } } }
      : undefined,
)
