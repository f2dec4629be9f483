import { chipsetOf } from '../defaults/machine.ts'
import { forbidden, invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

const field = 'spec.domain.devices.iommu'
const q35 = { os: { type: { os: 'hvm' as const, machine: 'q35' } } }

const iommuModel: Rule = {
  id: 'iommu-model',
  description: 'An IOMMU is on a q35 machine; the virtio one is a PCI device without options.',
  about: ['iommu'],
  *check({ domain }) {
    const { iommu } = domain.devices ?? {}
    if (!iommu) return
    const { model, address, driver } = iommu
    if (model === undefined) yield required(`${field}.model`, 'must be given: intel or virtio')
    else if (chipsetOf(domain) !== 'q35') {
      yield invalid(`${field}.model`, model, `is possible on machine type q35 only, not on ${domain.os?.type?.machine}`)
    }
    if (model === 'intel' && address?.type !== undefined)
      yield forbidden(`${field}.address`, undefined, 'may not be given for model intel')
    if (model !== 'virtio') return
    if (domain.features?.acpi === undefined)
      yield required('spec.domain.features.acpi', 'must be given: a virtio IOMMU is described by ACPI')
    if (address?.type !== undefined && address.type !== 'pci')
      yield invalid(`${field}.address.type`, address.type, 'must be pci for model virtio')
    for (const key of ['intremap', 'cachingMode', 'eim', 'iotlb', 'awBits', 'dmaTranslation'] as const) {
      if (driver?.[key] !== undefined)
        yield forbidden(`${field}.driver.${key}`, driver[key], 'may be given for model intel only')
    }
  },
  example: example(
    { os: { type: { os: 'hvm', machine: 'pc' } }, devices: { iommu: { model: 'intel' } } },
    { ...q35, devices: { iommu: { model: 'intel' } } },
  ),
}

const iommuInterrupts: Rule = {
  id: 'iommu-interrupts',
  description: 'Interrupts are remapped with a split I/O APIC, and the extended mode needs them remapped.',
  about: ['iommu'],
  *check({ domain: { devices, features } }) {
    const { iommu } = devices ?? {}
    if (iommu?.model !== 'intel') return
    const { intremap, eim } = iommu.driver ?? {}
    if (intremap === true && features?.ioapic?.driver !== 'qemu') {
      yield required('spec.domain.features.ioapic.driver', 'must be qemu, since the IOMMU remaps interrupts')
    }
    if (eim === true && intremap !== true)
      yield invalid(`${field}.driver.eim`, true, 'is possible with intremap on only')
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
