import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

type Iommu = NonNullable<NonNullable<Domain['devices']>['iommu']>

const onQ35 = (iommu: Iommu, features: Domain['features'] = { acpi: {} }): Domain => ({
  os: { type: { os: 'hvm', machine: 'q35' } },
  features,
  devices: { iommu },
})

testRule('iommu-model', [
  {
    refused: { ...onQ35({ model: 'virtio' }), os: { type: { os: 'hvm', machine: 'isapc' } } },
    causes: [
      'spec.domain.devices.iommu.model: Invalid value: "virtio": is only supported on machine type q35, not on isapc',
    ],
    accepted: onQ35({ model: 'virtio' }),
  },
  {
    refused: onQ35({ driver: { iotlb: true } }),
    causes: ['spec.domain.devices.iommu.model: Required value: must be set: intel or virtio'],
    accepted: onQ35({ model: 'intel', driver: { iotlb: true } }),
  },
  {
    refused: { ...onQ35({ model: 'intel' }), os: { type: { os: 'hvm', machine: 'pc' } } },
    causes: [
      'spec.domain.devices.iommu.model: Invalid value: "intel": is only supported on machine type q35, not on pc',
    ],
    accepted: onQ35({ model: 'intel' }),
  },
  {
    refused: onQ35({ model: 'intel', address: { type: 'pci', slot: 9 } }),
    causes: ['spec.domain.devices.iommu.address: Forbidden: must not be set for model intel'],
    accepted: onQ35({ model: 'virtio', address: { type: 'pci', slot: 9 } }),
  },
  {
    refused: onQ35({ model: 'virtio' }, {}),
    causes: ['spec.domain.features.acpi: Required value: must be set: a virtio IOMMU requires ACPI'],
    accepted: onQ35({ model: 'virtio' }),
  },
  {
    refused: onQ35({ model: 'virtio', address: { type: 'isa' } }),
    causes: ['spec.domain.devices.iommu.address.type: Invalid value: "isa": must be pci for model virtio'],
    accepted: onQ35({ model: 'virtio', address: { type: 'pci', slot: 9 } }),
  },
  {
    refused: onQ35({
      model: 'virtio',
      driver: { intremap: false, cachingMode: true, eim: false, iotlb: true, awBits: 48, dmaTranslation: false },
    }),
    causes: [
      'spec.domain.devices.iommu.driver.intremap: Forbidden: can only be set for model intel',
      'spec.domain.devices.iommu.driver.cachingMode: Forbidden: can only be set for model intel',
      'spec.domain.devices.iommu.driver.eim: Forbidden: can only be set for model intel',
      'spec.domain.devices.iommu.driver.iotlb: Forbidden: can only be set for model intel',
      'spec.domain.devices.iommu.driver.awBits: Forbidden: can only be set for model intel',
      'spec.domain.devices.iommu.driver.dmaTranslation: Forbidden: can only be set for model intel',
    ],
    accepted: onQ35({
      model: 'intel',
      driver: { intremap: false, cachingMode: true, eim: false, iotlb: true, awBits: 48, dmaTranslation: false },
    }),
  },
])

testRule('iommu-interrupts', [
  {
    refused: onQ35({ model: 'intel', driver: { intremap: true } }, { ioapic: { driver: 'kvm' } }),
    causes: ['spec.domain.features.ioapic.driver: Required value: must be qemu when the IOMMU remaps interrupts'],
    accepted: onQ35({ model: 'intel', driver: { intremap: true } }, { ioapic: { driver: 'qemu' } }),
  },
  {
    refused: onQ35({ model: 'intel', driver: { eim: true } }),
    causes: ['spec.domain.devices.iommu.driver.eim: Invalid value: true: requires intremap'],
    accepted: onQ35({ model: 'intel', driver: { eim: true, intremap: true } }, { ioapic: { driver: 'qemu' } }),
  },
])
