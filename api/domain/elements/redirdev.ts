import { deviceFields } from './address.ts'
import { boot } from './boot.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf } from '../scalar.ts'

export const redirdev = element(
  'A USB device that is plugged in at the viewer.',
  {
    bus: attribute(oneOf('usb'), 'The bus.'),
    type: chardevType,
    ...chardevFields,
    boot: child(boot, 'When the firmware tries this device.'),
    ...deviceFields,
  },
  { union: chardevUnion },
)
