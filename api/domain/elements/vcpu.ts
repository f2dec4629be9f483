import { attribute, children, content, element } from '../description.ts'
import { maxVcpus } from '../limits.ts'
import { cpuset, integer, oneOf, uint32, yesNo } from '../scalar.ts'

export const vcpu = element('The virtual CPUs.', {
  placement: attribute(oneOf('static', 'auto'), '`auto` lets numad on the node place them.', {
    reachOf: { auto: 'host' },
  }),
  cpuset: attribute(cpuset, 'The CPUs of the node on which the guest may run.', { reach: 'host' }),
  current: attribute(uint32, 'The number that is plugged in at start; all if absent.'),
  value: content(integer({ min: 1, max: 0xffff_ffff }), 'The maximum number.'),
})

const oneVcpu = element('One virtual CPU.', {
  id: attribute(uint32, 'Its number, from 0.'),
  enabled: attribute(yesNo, 'Whether it is plugged in at start.'),
  hotpluggable: attribute(yesNo, 'Whether it can be unplugged.'),
  order: attribute(uint32, 'The position in the order of plugging, from 1.'),
})

export const vcpus = element('The state of individual virtual CPUs.', {
  vcpus: children('vcpu', oneVcpu, 'Each virtual CPU.', { key: [['id']], maxItems: maxVcpus }),
})
