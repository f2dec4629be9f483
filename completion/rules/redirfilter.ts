import type { Domain } from '../../api/domain/domain.ts'
import { invalid } from './finding.ts'
import { example, type Rule } from './rule.ts'

/** -1 is any, as where there is none. */
const version = /^(?:\d{1,2}\.\d{1,2}|-1)$/

const allowing = (one: string): Domain => ({ devices: { redirfilter: { usbdevs: [{ version: one, allow: true }] } } })

export const redirfilterVersion: Rule = {
  id: 'redirfilter-version',
  description: 'The version of a USB device is two numbers below 100 with a dot between them.',
  about: ['redirfilter'],
  *check({ domain: { devices } }) {
    for (const [index, one] of (devices?.redirfilter?.usbdevs ?? []).entries()) {
      if (one.version === undefined || version.test(one.version)) continue
      const field = `spec.domain.devices.redirfilter.usbdevs[${index}].version`
      yield invalid(field, one.version, 'must be two numbers below 100 with a dot between them, e.g. 1.10')
    }
  },
  example: example(allowing('1.100'), allowing('1.10')),
}
