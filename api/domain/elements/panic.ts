import { deviceFields } from './address.ts'
import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'

export const panic = element('The device with which the guest reports a crash.', {
  model: attribute(oneOf('isa', 'hyperv', 'pvpanic'), 'The device; `isa` when absent.'),
  ...deviceFields,
})
