import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, child, element } from '../description.ts'
import { ip, oneOf, uint16 } from '../scalar.ts'
import { fileName } from '../text.ts'

const target = element('What the guest sees.', {
  type: attribute(oneOf('virtio', 'guestfwd'), 'A named virtio port, or a TCP address of the user network.'),
  name: attribute(
    fileName,
    'The name in the guest, e.g. `org.qemu.guest_agent.0`, with `virtio`; with type `unix` also the name of the socket in the pod.',
    { reach: 'pod' },
  ),
  state: attribute(
    oneOf('connected', 'disconnected'),
    'Whether the guest has opened the channel; reported by libvirt.',
    {
      live: true,
    },
  ),
  address: attribute(ip, 'The address to which the guest connects, with `guestfwd`.'),
  port: attribute(uint16, 'The port to which the guest connects, with `guestfwd`.'),
})

export const channel = element(
  'A private channel between guest and node, e.g. for the guest agent.',
  {
    type: chardevType,
    ...chardevFields,
    target: child(target, 'What the guest sees.'),
    ...deviceFields,
  },
  { union: chardevUnion },
)
