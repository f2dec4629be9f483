import { attribute, element } from '../description.ts'
import { onOff, path, yesNo } from '../scalar.ts'

export const rom = element('The option ROM of a PCI device.', {
  enabled: attribute(yesNo, 'Whether the device has an option ROM at all; the device decides if absent.'),
  bar: attribute(onOff, 'Whether the ROM is visible in the memory map of the guest.'),
  file: attribute(path, 'The image of the ROM.', { reach: 'host' }),
})
