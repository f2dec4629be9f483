import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, child, content, element } from '../description.ts'
import { oneOf, path, uint32 } from '../scalar.ts'
import { virtioFields, virtioModel } from './virtio.ts'

const backend = element(
  'Where the random numbers come from.',
  {
    model: attribute(oneOf('random', 'egd', 'builtin'), 'A device of the node, a daemon, or QEMU itself.', {
      reachOf: { egd: 'host' },
    }),
    type: chardevType,
    value: content(path, 'The device, with `random`: `/dev/urandom` when absent.', { reach: 'host' }),
    ...chardevFields,
  },
  { union: chardevUnion },
)

export const rng = element('A source of random numbers for the guest.', {
  model: virtioModel,
  rate: child(
    element('How much the guest may take.', {
      bytes: attribute(uint32, 'Bytes in a period.'),
      period: attribute(uint32, 'The period in milliseconds; a second when absent.'),
    }),
    'How much the guest may take.',
  ),
  backend: child(backend, 'Where the random numbers come from.'),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
