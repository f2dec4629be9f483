import { deviceFields } from './address.ts'
import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'

export const hub = element('A USB hub.', {
  type: attribute(oneOf('usb'), 'The bus.'),
  ...deviceFields,
})
