import { list } from './device.ts'
import { required } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const lease: Rule = {
  id: 'lease',
  description: 'A lease must have a path where it is stored.',
  about: ['leases'],
  *check({ domain }) {
    for (const [index, { target }] of list(domain, 'leases').entries()) {
      if (target?.path === undefined) yield required(`spec.domain.devices.leases[${index}].target.path`, 'must be set')
    }
  },
  example: example(
    { devices: { leases: [{ lockspace: 'a', key: 'b' }] } },
    { devices: { leases: [{ lockspace: 'a', key: 'b', target: { path: '/lease' } }] } },
  ),
}
