import { attribute, children, content, element } from '../description.ts'
import { maxVcpus } from '../limits.ts'
import { cpuset, integer, oneOf, uint32, yesNo } from '../scalar.ts'

export const vcpu = element('The virtual CPUs.', {
  placement: attribute(oneOf('static', 'auto'), '`auto` asks numad of the node where to run them.', {
    reachOf: { auto: 'host' },
  }),
  cpuset: attribute(cpuset, 'The CPUs of the node on which the guest may run.', { reach: 'host' }),
  current: attribute(uint32, 'How many are plugged in at start; all where absent.'),
  value: content(integer({ min: 1, max: 0xffff_ffff }), 'How many there can be.'),
})

const oneVcpu = element('One virtual CPU.', {
  id: attribute(uint32, 'Its number, from 0.'),
  enabled: attribute(yesNo, 'Whether it is plugged in at start.'),
  hotpluggable: attribute(yesNo, 'Whether it can be unplugged.'),
  order: attribute(uint32, 'In which order it is plugged in, from 1.'),
})

export const vcpus = element('The state of single virtual CPUs.', {
  vcpus: children('vcpu', oneVcpu, 'Each virtual CPU.', { key: [['id']], maxItems: maxVcpus }),
})
