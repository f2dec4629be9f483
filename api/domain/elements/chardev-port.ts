import { attribute, child, element, type Fields } from '../description.ts'
import { path } from '../scalar.ts'
import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'

const guestSide = 'What the guest sees.'

/** A port of the guest with a character device at its other end. */
export const chardevPort = <const F extends Fields>(description: string, target: F) =>
  element(
    description,
    {
      type: chardevType,
      tty: attribute(path, 'The terminal, reported by libvirt while the VM runs.', { reach: 'host', live: true }),
      ...chardevFields,
      target: child(element(guestSide, target), guestSide),
      ...deviceFields,
    },
    { union: chardevUnion },
  )
