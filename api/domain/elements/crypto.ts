import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, positive32 } from '../scalar.ts'
import { virtioFields } from './virtio.ts'

const backend = element('The backend.', {
  model: attribute(oneOf('builtin', 'lkcf'), 'QEMU itself, or the kernel of the node.', { reachOf: { lkcf: 'host' } }),
  queues: attribute(positive32, 'The number of queues.'),
})

export const crypto = element('A device that encrypts for the guest.', {
  model: attribute(oneOf('virtio'), 'The device.'),
  type: attribute(oneOf('qemu'), 'The implementation.'),
  backend: child(backend, 'The backend.'),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
