import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, onOff, positive32 } from '../scalar.ts'
import { virtioFields, virtioModels } from './virtio.ts'

export const memballoon = element('The device that reclaims memory from the guest and returns it.', {
  model: attribute(oneOf(...virtioModels, 'none'), 'The variant; `none` disables the balloon.'),
  autodeflate: attribute(
    onOff,
    'Whether the guest gets memory back before it kills a process because it is out of memory.',
  ),
  freePageReporting: attribute(onOff, 'Whether the guest reports its unused pages.'),
  stats: child(
    element('Statistics from the guest.', {
      period: attribute(positive32, 'The interval between reports in seconds.'),
    }),
    'Statistics from the guest.',
  ),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
