import { attribute, child, children, element } from '../description.ts'
import { interfaceIp, interfaceRoute } from './ip.ts'
import { reconnect } from './reconnect.ts'
import { hex, int64, ip, oneOf, port, socketPath, uuid, yesNo } from '../scalar.ts'
import { sourceAddress } from './source-address.ts'
import { anyPath, line } from '../text.ts'

const host = { reach: 'host' } as const

const local = element('The local end of a UDP tunnel.', {
  address: attribute(ip, 'The address.', host),
  port: attribute(port, 'The port.', host),
})

const usbId = (description: string) => element(description, { id: attribute(hex(4, 0xffff), description, host) })

export const interfaceSource = element(
  'What the interface is connected to. The `type` of the interface decides which fields apply.',
  {
    bridge: attribute(line(255), 'The bridge of the node, with `bridge`.', host),
    dev: attribute(anyPath, 'The network interface of the node, with `direct`, `vdpa` and `user`.', host),
    network: attribute(line(255), 'The libvirt network, with `network`.', host),
    portgroup: attribute(line(255), 'The port group of that network.', host),
    portid: attribute(
      line(255),
      'The port of that network, reported by libvirt; with `vds`, the port of the switch.',
      host,
    ),
    switchid: attribute(uuid, 'The switch, with `vds`.', host),
    portgroupid: attribute(line(255), 'The port group of the switch, with `vds`.', host),
    connectionid: attribute(int64, 'The connection, with `vds`.', host),
    macTableManager: attribute(oneOf('kernel', 'libvirt'), "Who maintains the bridge's table of MAC addresses.", host),
    name: attribute(line(255), 'The internal network, with `internal`.', host),
    mode: attribute(
      oneOf('vepa', 'bridge', 'private', 'passthrough', 'client', 'server'),
      'How `direct` interfaces reach each other; with `vhostuser`, whether QEMU is client or server.',
      host,
    ),
    type: attribute(oneOf('unix'), 'The kind of socket, with `vhostuser`.', host),
    path: attribute(socketPath, 'The socket, with `vhostuser`.', host),
    missing: attribute(yesNo, 'Reported by libvirt: the device of type `hostdev` was missing.', {
      ...host,
      live: true,
    }),
    ipAddress: attribute(ip, 'The address of the tunnel, with `server`, `client`, `mcast` and `udp`.', {
      xml: 'address',
      reach: 'host',
    }),
    port: attribute(port, 'The port of the tunnel.', host),
    local: child(local, 'The local end of a UDP tunnel.'),
    address: child(sourceAddress, 'The device of the node, with `hostdev`.'),
    vendor: child(usbId('The USB vendor, with `hostdev`.'), 'The USB vendor, with `hostdev`.'),
    product: child(usbId('The USB product, with `hostdev`.'), 'The USB product, with `hostdev`.'),
    reconnect: child(reconnect, 'Whether to reconnect after the connection is lost.'),
    ips: children('ip', interfaceIp(host), 'Addresses of the host end, with `ethernet`.'),
    routes: children('route', interfaceRoute(host), 'Routes of the host end, with `ethernet`.'),
  },
)
