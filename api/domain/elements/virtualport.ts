import { attribute, child, element } from '../description.ts'
import { integer, oneOf, uint8, uuid } from '../scalar.ts'
import { line } from '../text.ts'

const host = { reach: 'host' } as const

const parameters = element('Parameters for the switch. The type decides which fields apply.', {
  managerid: attribute(uint8, 'The database of port types, with 802.1Qbg.', host),
  typeid: attribute(integer({ min: 0, max: 0xffffff }), 'The port type, with 802.1Qbg.', host),
  typeidversion: attribute(uint8, 'Its version, with 802.1Qbg.', host),
  instanceid: attribute(uuid, 'The instance, with 802.1Qbg.', host),
  profileid: attribute(line(39), 'The port profile, with 802.1Qbh and Open vSwitch.', host),
  interfaceid: attribute(uuid, 'The interface, with Open vSwitch and MidoNet.', host),
})

export const virtualport = element('The port of a virtualization-aware switch.', {
  type: attribute(
    oneOf('802.1Qbg', '802.1Qbh', 'openvswitch', 'midonet'),
    'The kind of switch; that of the network if absent.',
    host,
  ),
  parameters: child(parameters, 'Parameters for the switch.'),
})
