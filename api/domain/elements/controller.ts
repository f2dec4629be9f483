import { deviceFields } from './address.ts'
import { attribute, child, element, leaf } from '../description.ts'
import { iothreadMapping } from './iothread-mapping.ts'
import { oneOf, onOff, uint16, uint32, uint64, uint8 } from '../scalar.ts'
import { kibibytes } from './size.ts'
import { virtioFields, virtioModels } from './virtio.ts'

const driver = element('How QEMU serves the controller.', {
  queues: attribute(uint32, 'The number of request queues.'),
  cmdPerLun: attribute(uint32, 'Commands that may be queued per unit.', { xml: 'cmd_per_lun' }),
  maxSectors: attribute(uint32, 'Sectors of 512 bytes that one command may transfer.', { xml: 'max_sectors' }),
  ioeventfd: attribute(onOff, "Whether requests are handled without stopping the guest's CPU."),
  iothread: attribute(uint32, 'The I/O thread that serves it, from 1 up to `iothreads`.'),
  ...virtioFields,
  iothreads: child(iothreadMapping, 'Several I/O threads that serve it.'),
})

const modelName = element('The chip of a PCI controller.', {
  name: attribute(
    oneOf(
      'pci-bridge',
      'i82801b11-bridge',
      'pcie-pci-bridge',
      'ioh3420',
      'pcie-root-port',
      'x3130-upstream',
      'xio3130-downstream',
      'pxb',
      'pxb-pcie',
    ),
    'The chip; the model decides if absent.',
  ),
})

/** libvirt also reads hex, but writes decimal. */
const byte = { ...uint8, hexBeside: {} } as const

const target = element('Properties of a PCI controller.', {
  chassisNr: attribute(byte, 'Chassis number of a PCI bridge.'),
  chassis: attribute(byte, 'Chassis of a PCIe port.'),
  port: attribute({ ...uint8, hexDigits: 1 }, 'Port number of a PCIe port.'),
  busNr: attribute(byte, 'First bus number of an expander bus.'),
  index: attribute(byte, 'Number of a host bridge, on machines that have several.'),
  hotplug: attribute(onOff, 'Whether devices can be added to the port while the guest runs.'),
  memReserve: attribute(uint64, 'Address space reserved behind the port, in KiB.'),
  node: leaf(uint32, 'NUMA node of the guest to which an expander bus belongs.'),
})

/** The models of each type of controller, without those of virtio. */
export const controllerModels = {
  pci: [
    'pci-root',
    'pcie-root',
    'pci-bridge',
    'dmi-to-pci-bridge',
    'pcie-to-pci-bridge',
    'pcie-root-port',
    'pcie-switch-upstream-port',
    'pcie-switch-downstream-port',
    'pci-expander-bus',
    'pcie-expander-bus',
  ],
  usb: [
    'none',
    'piix3-uhci',
    'piix4-uhci',
    'vt82c686b-uhci',
    'pci-ohci',
    'ehci',
    'ich9-ehci1',
    'ich9-uhci1',
    'ich9-uhci2',
    'ich9-uhci3',
    'nec-xhci',
    'qemu-xhci',
  ],
  scsi: [
    'auto',
    'virtio-scsi',
    'lsilogic',
    'lsisas1068',
    'lsisas1078',
    'buslogic',
    'vmpvscsi',
    'ncr53c90',
    'am53c974',
    'dc390',
    'ibmvscsi',
  ],
  ide: ['piix3', 'piix4', 'ich6'],
} as const

export const controller = element('A bus or bus controller.', {
  type: attribute(
    oneOf('pci', 'usb', 'scsi', 'sata', 'ide', 'fdc', 'virtio-serial', 'ccid', 'isa'),
    'The kind of bus.',
  ),
  index: attribute(
    uint32,
    'Its number among the controllers of the type; addresses refer to it. The next free one if absent.',
  ),
  model: attribute(
    oneOf(
      ...virtioModels,
      ...controllerModels.scsi,
      ...controllerModels.usb,
      ...controllerModels.ide,
      ...controllerModels.pci,
    ),
    'The model, from the list of its type; `none` for type usb disables USB.',
  ),
  ports: attribute(uint32, 'Ports of a USB or virtio-serial controller.'),
  vectors: attribute(uint32, 'Interrupt vectors of a virtio-serial controller.'),
  driver: child(driver, 'How QEMU serves the controller.'),
  modelName: child(modelName, 'The chip of a PCI controller.', { xml: 'model' }),
  target: child(target, 'Properties of a PCI controller.'),
  pcihole64: child(kibibytes('Size of the 64-bit PCI hole.'), 'Size of the 64-bit PCI hole; of a root bus.'),
  alias: deviceFields.alias,
  master: child(
    element('The controller of which this one is a companion.', {
      startport: attribute(uint16, 'The first port there that this one serves.'),
    }),
    'The USB 2 controller of which this USB 1 controller is a companion.',
  ),
  acpi: deviceFields.acpi,
  address: deviceFields.address,
})
