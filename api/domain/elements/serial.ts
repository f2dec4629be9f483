import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, path, uint32 } from '../scalar.ts'

const model = element('The chip of the port.', {
  name: attribute(
    oneOf('isa-serial', 'pci-serial', 'usb-serial', 'isa-debugcon'),
    'The chip; follows from the type of target when absent.',
  ),
})

const target = element('What the guest sees.', {
  type: attribute(
    oneOf('isa-serial', 'pci-serial', 'usb-serial', 'isa-debug'),
    'The kind of port; `isa-serial` when absent.',
  ),
  port: attribute(uint32, 'Number of the port: 0 is the first (COM1, ttyS0).'),
  model: child(model, 'The chip of the port.'),
})

export const serial = element(
  'A serial port.',
  {
    type: chardevType,
    tty: attribute(path, 'The terminal, reported by libvirt while the VM runs.', { reach: 'host', live: true }),
    ...chardevFields,
    target: child(target, 'What the guest sees.'),
    ...deviceFields,
  },
  { union: chardevUnion },
)
