import { attribute } from '../description.ts'
import { uint32 } from '../scalar.ts'
import { chardevPort } from './chardev-port.ts'

export const parallel = chardevPort('A parallel port.', {
  port: attribute(uint32, 'Number of the port; 0 is the first.'),
})
