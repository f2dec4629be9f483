import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, path, uint32 } from '../scalar.ts'

const target = element('What the guest sees.', {
  type: attribute(oneOf('serial', 'virtio'), 'A serial port or a virtio console; `serial` when absent.'),
  port: attribute(uint32, 'Number of the console; 0 is the first.'),
})

export const guestConsole = element(
  'A console. The first one, if serial, is the first of `serials` under another name.',
  {
    type: chardevType,
    tty: attribute(path, 'The terminal, reported by libvirt while the VM runs.', { reach: 'host', live: true }),
    ...chardevFields,
    target: child(target, 'What the guest sees.'),
    ...deviceFields,
  },
  { union: chardevUnion },
)
