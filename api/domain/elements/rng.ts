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
    value: content(path, 'The device, with `random`: `/dev/urandom` if absent.', { reach: 'host' }),
    ...chardevFields,
  },
  { union: chardevUnion },
)

export const rng = element('A source of random numbers for the guest.', {
  model: virtioModel,
  rate: child(
    element('The rate limit for the guest.', {
      bytes: attribute(uint32, 'Bytes per period.'),
      period: attribute(uint32, 'The period in milliseconds; a second if absent.'),
    }),
    'The rate limit for the guest.',
  ),
  backend: child(backend, 'Where the random numbers come from.'),
  driver: child(element('How QEMU serves the device.', virtioFields), 'How QEMU serves it.'),
  ...deviceFields,
})
