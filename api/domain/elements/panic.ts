import { deviceFields } from './address.ts'
import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'

export const panic = element('The device that lets the guest report a crash.', {
  model: attribute(oneOf('isa', 'hyperv', 'pvpanic'), 'The device; `isa` if absent.'),
  ...deviceFields,
})
