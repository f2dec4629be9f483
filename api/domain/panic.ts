import { deviceFields } from './address.ts'
import { attribute, element } from './description.ts'
import { oneOf } from './scalar.ts'

export const panic = element('The device by which the guest tells that it has crashed.', {
  model: attribute(oneOf('isa', 'hyperv', 'pvpanic'), 'The device; `isa` when absent.'),
  ...deviceFields,
})
