import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { integer, yesNo } from '../scalar.ts'
import { virtioFields, virtioModel } from './virtio.ts'

const host = { reach: 'host' } as const

const cid = element('The context ID of the guest, unique on the node.', {
  auto: attribute(yesNo, 'Whether libvirt assigns it.', host),
  address: attribute(integer({ min: 3, max: 4_294_967_295 }), 'The number.', host),
})

export const vsock = element('Sockets between the guest and the node.', {
  model: virtioModel,
  cid: child(cid, 'The context ID of the guest, unique on the node.'),
  driver: child(element('How the device is served.', virtioFields), 'How it is served.'),
  ...deviceFields,
})
