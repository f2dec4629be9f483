import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, onOff, positive32 } from '../scalar.ts'
import { virtioFields, virtioModels } from './virtio.ts'

export const memballoon = element('The device by which memory is taken from the guest and given back.', {
  model: attribute(oneOf(...virtioModels, 'none'), 'The variant; `none` disables the balloon.'),
  autodeflate: attribute(onOff, 'Whether the guest gets memory back before it kills a process for want of it.'),
  freePageReporting: attribute(onOff, 'Whether the guest reports the pages that it does not use.'),
  stats: child(
    element('Statistics from the guest.', { period: attribute(positive32, 'Seconds between two reports.') }),
    'Statistics from the guest.',
  ),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
