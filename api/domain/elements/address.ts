import { attribute, child, element } from '../description.ts'
import { hex, oneOf, onOff, uint32, uint8, uuid } from '../scalar.ts'
import { busPort, fileIdentifier } from '../text.ts'

/**
 * Where a device sits, in the guest. One element for all buses, as libvirt has it: `type` decides which fields apply.
 */
export const address = element(
  'Where the device sits on its bus in the guest. Assigned if absent; a value that is set is not changed.',
  {
    type: attribute(
      oneOf(
        'pci',
        'drive',
        'virtio-serial',
        'ccid',
        'usb',
        'spapr-vio',
        'virtio-s390',
        'ccw',
        'virtio-mmio',
        'isa',
        'dimm',
        'unassigned',
        'mdev',
      ),
      'The kind of bus.',
    ),
    domain: attribute(hex(4, 0xffff), 'PCI domain (segment).'),
    controller: attribute(uint32, 'Index of the controller, on buses with controllers.'),
    bus: attribute({ ...uint32, hexFor: { pci: 2 } }, 'Bus number; in hex for PCI, where it is at most 0xff.'),
    target: attribute(uint32, 'SCSI target.'),
    unit: attribute(uint32, 'Unit on the bus (SCSI LUN, IDE 0 or 1).'),
    slot: attribute({ ...uint8, hexFor: { pci: 2 } }, 'Slot; in hex for PCI, where it is at most 0x1f.'),
    function: attribute(hex(1, 7), 'PCI function.'),
    multifunction: attribute(onOff, 'Whether further functions share this PCI slot.'),
    port: attribute(busPort, 'USB port, in dots below hubs (1.2), or the port of a virtio-serial device.'),
    iobase: attribute(hex(1, 0xffff), 'ISA I/O port.'),
    irq: attribute(hex(1, 0xff), 'ISA interrupt.'),
    reg: attribute(hex(8, 0xffffffffffffffffn), 'Register of a spapr-vio device.'),
    base: attribute(hex(1, 0xffffffffffffffffn), 'Guest-physical address of a memory device.'),
    uuid: attribute(uuid, 'UUID of a mediated device.'),
  },
)

export const alias = element('A name for this device.', {
  name: attribute(
    fileIdentifier,
    'A user alias begins with `ua-`; any other is given by libvirt while the domain runs.',
    { reach: 'pod' },
  ),
})

const acpi = element('How ACPI names the device.', {
  index: attribute(uint32, 'ACPI index of a PCI device: guests derive stable names from it (`eno1`).'),
})

/** The fields that every device of the guest has. */
export const deviceFields = {
  alias: child(alias, 'A name by which presets and tools find the device.'),
  acpi: child(acpi, 'How ACPI names the device.'),
  address: child(address, 'Where the device sits in the guest.'),
} as const
