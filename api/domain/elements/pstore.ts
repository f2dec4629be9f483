import { deviceFields } from './address.ts'
import { attribute, child, element, leaf } from '../description.ts'
import { oneOf, path } from '../scalar.ts'
import { kibibytes } from './size.ts'

export const pstore = element('Memory in which the guest stores a record of its crash.', {
  backend: attribute(oneOf('acpi-erst'), 'The device.'),
  path: leaf(path, 'The file that backs it; libvirt generates one if absent.', { reach: 'host' }),
  size: child(kibibytes('The size.'), 'The size.', { ofGrant: [] }),
  ...deviceFields,
})
