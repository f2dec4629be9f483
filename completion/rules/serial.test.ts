import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Target = NonNullable<DeviceOf<'serials'>['target']>

const serials = (...targets: Target[]): Domain => ({
  devices: { serials: targets.map((target) => ({ type: 'pty', target })) },
})

const addressed = (target: Target, address: DeviceOf<'serials'>['address'] & {}): Domain => ({
  devices: { serials: [{ type: 'pty', target, address }] },
})

testRule('serial-target', [
  {
    refused: serials({ type: 'isa-serial', model: { name: 'pci-serial' } }),
    causes: [
      'spec.domain.devices.serials[0].target.model.name: Invalid value: "pci-serial": must be isa-serial for target type isa-serial',
    ],
    accepted: serials({ type: 'pci-serial', model: { name: 'pci-serial' } }),
  },
  {
    refused: serials({ type: 'isa-debug', model: { name: 'isa-serial' } }),
    causes: [
      'spec.domain.devices.serials[0].target.model.name: Invalid value: "isa-serial": must be isa-debugcon for target type isa-debug',
    ],
    accepted: serials({ type: 'isa-debug', model: { name: 'isa-debugcon' } }),
  },
  {
    refused: addressed({ type: 'usb-serial' }, { type: 'pci', slot: 9 }),
    causes: [
      'spec.domain.devices.serials[0].address.type: Invalid value: "pci": must be usb for target type usb-serial',
    ],
    accepted: addressed({ type: 'usb-serial' }, { type: 'usb', bus: 0, port: '1' }),
  },
  {
    refused: addressed({ type: 'pci-serial' }, { type: 'isa', iobase: '0x3f8' }),
    causes: [
      'spec.domain.devices.serials[0].address.type: Invalid value: "isa": must be pci for target type pci-serial',
    ],
    accepted: addressed({ type: 'pci-serial' }, { type: 'pci', slot: 9 }),
  },
])

testRule('serial-ports', [
  {
    refused: serials({}, {}, {}, {}, {}, { type: 'pci-serial' }),
    causes: [
      'spec.domain.devices.serials[4]: Too many: at most 4 ISA serial ports are supported; target: {type: pci-serial}',
    ],
    accepted: serials({}, {}, {}, {}, { type: 'pci-serial' }),
  },
  {
    refused: serials({}, {}, {}, {}, {}),
    causes: [
      'spec.domain.devices.serials[4]: Too many: at most 4 ISA serial ports are supported; target: {type: pci-serial}',
    ],
    accepted: serials({}, {}, {}, {}, { type: 'pci-serial' }),
  },
  {
    refused: serials({ port: 4 }),
    causes: [
      'spec.domain.devices.serials[0].target.port: Invalid value: 4: must be less than 4, the number of ISA serial ports; target: {type: pci-serial}',
    ],
    accepted: serials({ port: 3 }),
  },
  {
    refused: serials({ port: 1 }, { port: 1 }),
    causes: [
      'spec.domain.devices.serials[1].target.port: Duplicate value: 1: is already the port of spec.domain.devices.serials[0]',
    ],
    accepted: serials({ port: 1 }, { port: 2 }),
  },
  {
    refused: serials({ type: 'pci-serial', port: 5 }, { type: 'pci-serial', port: 5 }),
    causes: [
      'spec.domain.devices.serials[1].target.port: Duplicate value: 5: is already the port of spec.domain.devices.serials[0]',
    ],
    accepted: serials({ type: 'pci-serial', port: 5 }, { type: 'usb-serial', port: 5 }),
  },
])

const spice: Domain['devices'] = { graphics: [{ type: 'spice' }] }

testRule('spicevmc-place', [
  {
    refused: { devices: { ...spice, serials: [{ type: 'spicevmc' }] } },
    causes: [
      'spec.domain.devices.serials[0].type: Unsupported value: "spicevmc": is only supported for channels; use devices.channels',
      `spec.domain.devices.consoles[0].type: Unsupported value: "spicevmc": is only supported for channels (libvirt's default, console-serial); use devices.channels`,
    ],
    accepted: { devices: { ...spice, channels: [{ type: 'spicevmc', target: { type: 'virtio' } }] } },
  },
  {
    refused: { devices: { ...spice, parallels: [{ type: 'spicevmc' }] } },
    causes: [
      'spec.domain.devices.parallels[0].type: Unsupported value: "spicevmc": is only supported for channels; use devices.channels',
    ],
    accepted: { devices: { ...spice, parallels: [{ type: 'pty' }] } },
  },
])

testSilent('serial-target', [serials({})])
