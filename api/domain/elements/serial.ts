import { attribute, child, element } from '../description.ts'
import { oneOf, uint32 } from '../scalar.ts'
import { chardevPort } from './chardev-port.ts'

const model = element('The chip of the port.', {
  name: attribute(
    oneOf('isa-serial', 'pci-serial', 'usb-serial', 'isa-debugcon'),
    'The chip; the type of the target decides if absent.',
  ),
})

export const serial = chardevPort('A serial port.', {
  type: attribute(
    oneOf('isa-serial', 'pci-serial', 'usb-serial', 'isa-debug'),
    'The kind of port; `isa-serial` if absent.',
  ),
  port: attribute(uint32, 'Number of the port: 0 is the first (COM1, ttyS0).'),
  model: child(model, 'The chip of the port.'),
})
