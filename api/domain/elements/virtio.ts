import { attribute } from '../description.ts'
import { oneOf, onOff } from '../scalar.ts'

/** The PCI variants of a virtio device. */
export const virtioModels = ['virtio', 'virtio-transitional', 'virtio-non-transitional'] as const

export const virtioModel = attribute(
  oneOf(...virtioModels),
  'The virtio variant: as the bus decides, also for old drivers, or for virtio 1.0 drivers only.',
)

/** Driver options of any virtio device. */
export const virtioFields = {
  iommu: attribute(onOff, 'Whether the device uses the IOMMU of the guest.'),
  ats: attribute(onOff, 'Whether it may cache translations of the IOMMU (address translation service).'),
  packed: attribute(onOff, 'Whether it uses packed virtqueues.'),
  pagePerVq: attribute(onOff, 'Whether each virtqueue has a notification page of its own.', { xml: 'page_per_vq' }),
} as const
