import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, child, element } from '../description.ts'
import { path, uint32 } from '../scalar.ts'

const target = element('What the guest sees.', { port: attribute(uint32, 'Number of the port; 0 is the first.') })

export const parallel = element(
  'A parallel port.',
  {
    type: chardevType,
    tty: attribute(path, 'The terminal, reported by libvirt while the VM runs.', { reach: 'host', live: true }),
    ...chardevFields,
    target: child(target, 'What the guest sees.'),
    ...deviceFields,
  },
  { union: chardevUnion },
)
