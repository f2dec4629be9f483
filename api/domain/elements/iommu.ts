import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, onOff, uint8 } from '../scalar.ts'

const driver = element('What the IOMMU can do.', {
  intremap: attribute(onOff, 'Whether interrupts are remapped; needs a split I/O APIC.'),
  cachingMode: attribute(onOff, 'Whether it supports assigned devices of the node.', { xml: 'caching_mode' }),
  eim: attribute(onOff, 'Whether more than 255 CPUs are supported.'),
  iotlb: attribute(onOff, 'Whether devices may cache translations.'),
  awBits: attribute(uint8, 'Width of an address in bits: 39 or 48.', { xml: 'aw_bits' }),
  dmaTranslation: attribute(onOff, 'Whether addresses are translated at all.', { xml: 'dma_translation' }),
})

export const iommu = element('The IOMMU of the guest.', {
  model: attribute(oneOf('intel', 'virtio'), 'The kind; `intel` on q35 only.'),
  driver: child(driver, 'What it can do.'),
  ...deviceFields,
})
