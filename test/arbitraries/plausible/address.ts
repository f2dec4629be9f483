import fc from 'fast-check'
import { part, small, weighted, type Parts } from './part.ts'

export const pci = weighted(
  [3, part({ type: fc.constant('pci'), slot: fc.integer({ min: 1, max: 9 }) }, { multifunction: fc.boolean() })],
  [
    1,
    part(
      { type: fc.constant('pci'), slot: small(9) },
      { bus: small(3), function: small(7), multifunction: fc.boolean(), domain: fc.constant('0x0000') },
    ),
  ],
  [1, fc.constant({ type: 'pci' })],
)

export const drive = part({
  type: fc.constant('drive'),
  controller: small(1),
  bus: small(1),
  target: small(1),
  unit: small(7),
})

export const usbAddress = part({ type: fc.constant('usb'), bus: small(1) }, { port: fc.constantFrom('1', '2', '1.1') })

export const virtioSerial = part(
  { type: fc.constant('virtio-serial'), controller: weighted([5, fc.constant(0)], [1, small(1)]), bus: fc.constant(0) },
  { port: fc.constantFrom('0', '1', '2', '3') },
)

export const virtioOptions: Parts = { iommu: fc.boolean(), ats: fc.boolean(), packed: fc.boolean() }

export const virtioDevice: Parts = { address: pci, driver: part({}, virtioOptions) }
