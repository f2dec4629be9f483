import { attribute, element } from '../description.ts'
import { integer } from '../scalar.ts'
import { bootParameter } from '../text.ts'

export const boot = element('When the firmware tries to boot from this device; excludes `os.boots`.', {
  order: attribute(integer({ min: 1, max: 4_294_967_295 }), 'The position in the boot order; 1 is first.'),
  loadparm: attribute(bootParameter, 'The parameter of the boot loader, on machines that support one.'),
})
