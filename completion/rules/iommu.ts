import { chipsetOf } from '../defaults/machine.ts'
import { forbidden, invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

const field = 'spec.domain.devices.iommu'
const q35 = { os: { type: { os: 'hvm' as const, machine: 'q35' } } }

const iommuModel: Rule = {
  id: 'iommu-model',
  description:
    'An IOMMU requires machine type q35; the virtio model is a PCI device, requires ACPI, and has no options.',
  about: ['iommu'],
  *check({ domain }) {
    const { iommu } = domain.devices ?? {}
    if (!iommu) return
    const { model, address, driver } = iommu
    if (model === undefined) yield required(`${field}.model`, 'must be set: intel or virtio')
    else if (chipsetOf(domain) !== 'q35') {
      yield invalid(
        `${field}.model`,
        model,
        `is only supported on machine type q35, not on ${domain.os?.type?.machine}`,
      )
    }
    if (model === 'intel' && address?.type !== undefined)
      yield forbidden(`${field}.address`, undefined, 'must not be set for model intel')
    if (model !== 'virtio') return
    if (domain.features?.acpi === undefined)
      yield required('spec.domain.features.acpi', 'must be set: a virtio IOMMU requires ACPI')
    if (address?.type !== undefined && address.type !== 'pci')
      yield invalid(`${field}.address.type`, address.type, 'must be pci for model virtio')
    for (const key of ['intremap', 'cachingMode', 'eim', 'iotlb', 'awBits', 'dmaTranslation'] as const) {
      if (driver?.[key] !== undefined)
        yield forbidden(`${field}.driver.${key}`, driver[key], 'can only be set for model intel')
    }
  },
  example: example(
    { os: { type: { os: 'hvm', machine: 'pc' } }, devices: { iommu: { model: 'intel' } } },
    { ...q35, devices: { iommu: { model: 'intel' } } },
  ),
}

const iommuInterrupts: Rule = {
  id: 'iommu-interrupts',
  description:
    'Interrupt remapping requires a split I/O APIC; the extended interrupt mode requires interrupt remapping.',
  about: ['iommu'],
  *check({ domain: { devices, features } }) {
    const { iommu } = devices ?? {}
    if (iommu?.model !== 'intel') return
    const { intremap, eim } = iommu.driver ?? {}
    if (intremap === true && features?.ioapic?.driver !== 'qemu') {
      yield required('spec.domain.features.ioapic.driver', 'must be qemu when the IOMMU remaps interrupts')
    }
    if (eim === true && intremap !== true) yield invalid(`${field}.driver.eim`, true, 'requires intremap')
  },
  example: example(
    { ...q35, devices: { iommu: { model: 'intel', driver: { eim: true } } } },
    {
      ...q35,
      features: { ioapic: { driver: 'qemu' } },
      devices: { iommu: { model: 'intel', driver: { eim: true, intremap: true } } },
    },
  ),
}

export const iommuRules: readonly Rule[] = [iommuModel, iommuInterrupts]
