import { attribute } from '../description.ts'
import { oneOf, uint32 } from '../scalar.ts'
import { chardevPort } from './chardev-port.ts'

export const guestConsole = chardevPort(
  'A console. The first one, if serial, is the first of `serials` under another name.',
  {
    type: attribute(oneOf('serial', 'virtio'), 'A serial port or a virtio console; `serial` if absent.'),
    port: attribute(uint32, 'Number of the console; 0 is the first.'),
  },
)
