import { auth } from './auth.ts'
import { attribute, child, children, element } from '../description.ts'
import { initiator } from './disk-source.ts'
import { hex, hostName, oneOf, port, uint32, yesNo } from '../scalar.ts'
import { sourceAddress } from './source-address.ts'
import { line } from '../text.ts'

const host = { reach: 'host' } as const
const wwn = { kind: 'wwn' } as const

const parentaddr = element('The PCI card by its address.', {
  uniqueId: attribute(uint32, 'The host adapter on the card.', { xml: 'unique_id', reach: 'host' }),
  address: child(sourceAddress, 'The PCI address of the card.'),
})

const adapter = element('The SCSI host adapter of the node.', {
  name: attribute(line(255), 'Its name: `scsi_host2`.', host),
  type: attribute(oneOf('scsi_host', 'fc_host'), 'Its kind.', host),
  managed: attribute(yesNo, 'Whether a virtual adapter is deleted with the VM.', host),
  parent: attribute(line(255), 'The parent of a virtual adapter.', host),
  parentWwnn: attribute(wwn, 'The parent by its node name.', { xml: 'parent_wwnn', reach: 'host' }),
  parentWwpn: attribute(wwn, 'The parent by its port name.', { xml: 'parent_wwpn', reach: 'host' }),
  parentFabricWwn: attribute(wwn, 'The parent by its fabric.', { xml: 'parent_fabric_wwn', reach: 'host' }),
  wwnn: attribute(wwn, 'The node name of a virtual adapter.', host),
  wwpn: attribute(wwn, 'The port name of a virtual adapter.', host),
  parentaddr: child(parentaddr, 'The PCI card by its address.'),
})

const target = element('A server that provides the SCSI unit.', {
  name: attribute(hostName, 'Host name or IP address.', host),
  port: attribute(port, 'TCP port; the default of the protocol if absent.', host),
})

const usbId = (description: string) => element(description, { id: attribute(hex(4, 0xffff), description, host) })

export const hostdevSource = element('The device of the node. The `type` beside it decides which fields apply.', {
  protocol: attribute(
    oneOf('adapter', 'iscsi', 'vhost'),
    'How a SCSI device is accessed; through an adapter of the node if absent.',
    host,
  ),
  name: attribute(line(), 'The iSCSI unit: `IQN/LUN`.', host),
  wwpn: attribute(line(255), 'The vhost-scsi port of the node: `naa.…`.', host),
  startupPolicy: attribute(
    oneOf('mandatory', 'requisite', 'optional'),
    'What happens if a USB device is missing: fail, fail only at boot, or start without it.',
  ),
  guestReset: attribute(oneOf('off', 'uninitialized', 'on'), 'Whether the guest may reset a USB device.', host),
  writeFiltering: attribute(yesNo, 'Whether writes to the PCI configuration space are filtered.', host),
  vendor: child(usbId('The USB vendor.'), 'The USB vendor.'),
  product: child(usbId('The USB product.'), 'The USB product.'),
  adapter: child(adapter, 'The SCSI host adapter of the node.'),
  address: child(sourceAddress, 'The address of the device on the node.'),
  hosts: children('host', target, 'The servers that provide an iSCSI unit.', { single: 'host' }),
  auth: child(auth, 'How QEMU authenticates to the iSCSI server.'),
  initiator: child(initiator, "QEMU's identity towards an iSCSI target."),
})
