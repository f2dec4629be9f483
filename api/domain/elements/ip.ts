import { attribute, element } from '../description.ts'
import { ip, oneOf, positive32, uint32 } from '../scalar.ts'

const families = oneOf('ipv4', 'ipv6')

/** An address of an interface, in the guest or at the host end. */
export const interfaceIp = (options: { reach?: 'host' } = {}) =>
  element('An address of the interface.', {
    address: attribute(ip, 'The address.', options),
    family: attribute(families, '`ipv4` if absent.', options),
    prefix: attribute(uint32, 'Length of the prefix in bits.', options),
    peer: attribute(ip, 'The address at the other end of a point-to-point link.', options),
  })

export const interfaceRoute = (options: { reach?: 'host' } = {}) =>
  element('A route through the interface.', {
    family: attribute(families, '`ipv4` if absent.', options),
    address: attribute(ip, 'The network to reach.', options),
    netmask: attribute(ip, 'Its mask, for IPv4.', options),
    prefix: attribute(uint32, 'Its prefix length in bits.', options),
    gateway: attribute(ip, 'The router.', options),
    metric: attribute(positive32, 'The metric; the lowest is preferred.', options),
  })
