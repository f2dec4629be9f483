import { deviceFields } from './address.ts'
import { boot } from './boot.ts'
import { attribute, child, element, present } from '../description.ts'
import { hostdevSource } from './hostdev-source.ts'
import { rom } from './rom.ts'
import { oneOf, onOff, yesNo } from '../scalar.ts'
import { teaming } from './teaming.ts'
import { virtioModels } from './virtio.ts'
import { identifier } from '../text.ts'

const host = { reach: 'host' } as const

const driver = element('The driver of the node that assigns the device.', {
  name: attribute(oneOf('vfio', 'kvm'), 'The kind; only VFIO is still supported.', host),
  model: attribute(identifier, 'The VFIO driver for this device.', host),
})

export const hostdev = element(
  'A device of the node that is assigned to the guest.',
  {
    mode: attribute(oneOf('subsystem'), 'How it is described; by its subsystem if absent.', host),
    type: attribute(
      oneOf('usb', 'pci', 'scsi', 'scsi_host', 'mdev'),
      'The kind of device, which decides the fields of `source`.',
      host,
    ),
    managed: attribute(
      yesNo,
      'Whether libvirt detaches the device from its driver on the node and reattaches it.',
      host,
    ),
    model: attribute(oneOf('vfio-pci', 'vfio-ccw', 'vfio-ap', ...virtioModels), 'How the guest sees it.', host),
    display: attribute(onOff, 'Whether the screen of a mediated graphics card is shown.', host),
    ramfb: attribute(onOff, 'Whether that screen works from the start, through a frame buffer in memory.', host),
    sgio: attribute(oneOf('filtered', 'unfiltered'), 'Whether raw SCSI commands are filtered.', host),
    rawio: attribute(yesNo, 'Whether QEMU may send raw SCSI commands.', host),
    driver: child(driver, 'The driver of the node that assigns the device.'),
    source: child(hostdevSource, 'The device of the node.'),
    teaming: child(teaming, 'The interface that replaces this one during migration.'),
    readonly: present('The guest cannot write to a SCSI unit.', host),
    shareable: present('Several VMs may use the SCSI unit at the same time.', host),
    boot: child(boot, 'The position in the boot order.'),
    rom: child(rom, 'The option ROM.'),
    ...deviceFields,
  },
  {
    union: {
      by: 'type',
      owns: ['source'],
      branches: {
        usb: ['source.vendor', 'source.product', 'source.address', 'source.startupPolicy', 'source.guestReset'],
        pci: ['source.address', 'source.writeFiltering'],
        scsi: [
          'source.protocol',
          'source.name',
          'source.adapter',
          'source.address',
          'source.hosts',
          'source.auth',
          'source.initiator',
        ],
        scsi_host: ['source.protocol', 'source.wwpn'],
        mdev: ['source.address'],
      },
    },
  },
)
