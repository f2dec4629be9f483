import { attribute, children, element } from '../description.ts'
import { yesNo } from '../scalar.ts'
import { usbVersion } from '../text.ts'

/** In hex, `digits` wide; -1, as if absent, is any. */
const usbNumber = (digits: number, max: number) =>
  ({ kind: 'integer', min: -1, max, hexDigits: digits, hexUpperCase: true }) as const

const usbdev = element('A rule; the first one that fits decides.', {
  class: attribute(usbNumber(2, 0xff), 'The USB class; any if absent.'),
  vendor: attribute(usbNumber(4, 0xffff), 'The vendor; any if absent.'),
  product: attribute(usbNumber(4, 0xffff), 'The product; any if absent.'),
  version: attribute(usbVersion, 'The version of the device, e.g. `1.10`; any if absent.'),
  allow: attribute(yesNo, 'Whether such a device may be redirected.'),
})

export const redirfilter = element('Which devices may be redirected.', {
  usbdevs: children('usbdev', usbdev, 'The rules, in order.', { whole: true }),
})
