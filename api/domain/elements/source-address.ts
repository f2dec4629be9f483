import { attribute, element } from '../description.ts'
import { hex, oneOf, onOff, uint32, uuid } from '../scalar.ts'
import { busPort } from '../text.ts'

const host = { reach: 'host' } as const

/** The address of a device on the node. The kind of device decides which fields apply. */
export const sourceAddress = element('The address of the device on the node.', {
  type: attribute(oneOf('pci', 'usb'), 'The kind of address, if the device does not determine it.', host),
  domain: attribute(hex(4, 0xffff), 'PCI domain (segment).', host),
  bus: attribute({ ...uint32, hexBeside: { slot: 2 } }, 'Bus: PCI (in hex), USB or SCSI.', host),
  slot: attribute(hex(2, 0x1f), 'PCI slot.', host),
  function: attribute(hex(1, 7), 'PCI function.', host),
  multifunction: attribute(onOff, 'Whether further functions share the PCI slot.', host),
  device: attribute({ ...uint32, hexBeside: {} }, 'USB device number.', host),
  port: attribute(busPort, 'USB port, with a dot per hub.', host),
  target: attribute(uint32, 'SCSI target.', host),
  unit: attribute({ kind: 'integer', min: 0, max: 18_446_744_073_709_551_615n }, 'SCSI LUN.', host),
  uuid: attribute(uuid, 'UUID of a mediated device.', host),
})
