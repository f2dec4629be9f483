import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Devices = NonNullable<Domain['devices']>

const os = (machine: string): Domain => ({ os: { type: { os: 'hvm', machine } } })

const onQ35 = (devices: Devices): Domain => ({ ...os('q35'), devices })

const nics = (...addresses: object[]): Devices => ({
  interfaces: addresses.map((address) => ({
    type: 'user',
    model: { type: 'virtio' },
    address: { type: 'pci', ...address },
  })),
})

const pci = (...controllers: Omit<DeviceOf<'controllers'>, 'type'>[]): DeviceOf<'controllers'>[] =>
  controllers.map((controller) => ({ type: 'pci', ...controller }))

const at = (bus: number, slot: number, part = 0) => ({ type: 'pci' as const, bus, slot, function: part })

testRule('pci-address-range', [
  {
    refused: { devices: nics({ bus: 0x100 }) },
    causes: [
      'spec.domain.devices.interfaces[0].address.bus: Invalid value: "0x100": must be at most 0xff, the highest PCI bus',
    ],
    accepted: { devices: nics({ bus: 0 }) },
  },
  {
    refused: { devices: nics({ slot: 0x20 }) },
    causes: [
      'spec.domain.devices.interfaces[0].address.slot: Invalid value: "0x20": must be at most 0x1f: a PCI bus has 32 slots',
    ],
    accepted: { devices: nics({ slot: 0x1f }) },
  },
  {
    refused: { devices: nics({ domain: 1, slot: 9 }) },
    causes: [
      'spec.domain.devices.interfaces[0].address.domain: Invalid value: "0x0001": must be 0: a PC has only one PCI domain',
    ],
    accepted: { devices: nics({ domain: 0, slot: 9 }) },
  },
  {
    refused: { devices: nics({ slot: 0 }) },
    causes: [
      'spec.domain.devices.interfaces[0].address.slot: Invalid value: "0x00": must not be 0 on bus 0: that is the host bridge, and libvirt would assign another address; omit the address to get a free one',
    ],
    accepted: { ...os('q35'), devices: nics({ bus: 1, slot: 0 }) },
  },
])

testRule('pci-address-unique', [
  {
    refused: { devices: nics({ slot: 7 }, { slot: 7 }) },
    causes: [
      'spec.domain.devices.interfaces[1].address: Duplicate value: "0000:00:07.0": is already the PCI address of spec.domain.devices.interfaces[0].address; omit the address to get a free one',
    ],
    accepted: { devices: nics({ slot: 7 }, { slot: 7, function: 1 }) },
  },
  {
    refused: {
      devices: { controllers: pci({ index: 1, model: 'pci-bridge', address: at(0, 7) }), ...nics({ slot: 7 }) },
    },
    causes: [
      'spec.domain.devices.interfaces[0].address: Duplicate value: "0000:00:07.0": is already the PCI address of spec.domain.devices.controllers[0].address; omit the address to get a free one',
    ],
    accepted: {
      devices: { controllers: pci({ index: 1, model: 'pci-bridge', address: at(0, 7) }), ...nics({ bus: 1, slot: 7 }) },
    },
  },
  {
    refused: { devices: nics({ slot: 1 }) },
    causes: [
      'spec.domain.devices.interfaces[0].address: Duplicate value: "0000:00:01.0": is already the PCI address of the ISA bridge of the chipset; omit the address to get a free one',
    ],
    accepted: { devices: nics({ slot: 3 }) },
  },
  {
    refused: { devices: nics({ slot: 1, function: 3 }) },
    causes: [
      'spec.domain.devices.interfaces[0].address: Duplicate value: "0000:00:01.3": is already the PCI address of the power management of the chipset; omit the address to get a free one',
    ],
    accepted: { devices: nics({ slot: 3, function: 3 }) },
  },
  {
    refused: onQ35(nics({ slot: 0x1f })),
    causes: [
      'spec.domain.devices.interfaces[0].address: Duplicate value: "0000:00:1f.0": is already the PCI address of the ISA bridge of the chipset; omit the address to get a free one',
    ],
    accepted: onQ35(nics({ slot: 0x1e })),
  },
  {
    refused: onQ35(nics({ slot: 0x1f, function: 3 })),
    causes: [
      'spec.domain.devices.interfaces[0].address: Duplicate value: "0000:00:1f.3": is already the PCI address of the SMBus of the chipset; omit the address to get a free one',
    ],
    accepted: onQ35(nics({ slot: 0x1f, function: 4 })),
  },
  {
    refused: { devices: { ...nics({ slot: 1, function: 1 }), controllers: [{ type: 'ide', index: 0 }] } },
    causes: [
      'spec.domain.devices.interfaces[0].address: Duplicate value: "0000:00:01.1": is already the PCI address of spec.domain.devices.controllers[0].address; omit the address to get a free one',
    ],
    accepted: { devices: { ...nics({ slot: 3, function: 1 }), controllers: [{ type: 'ide', index: 0 }] } },
  },
])

testRule('pci-connection', [
  {
    refused: onQ35({ ...nics({ bus: 1, slot: 0 }), controllers: pci({ index: 1, model: 'virtio' }) }),
    causes: ['spec.domain.devices.interfaces[0].address.bus: Not found: 1: no PCI controller has this index'],
    accepted: onQ35({ ...nics({ bus: 1, slot: 0 }), controllers: pci({ index: 1, model: 'pcie-root-port' }) }),
  },
  {
    refused: {
      devices: {
        controllers: pci({ index: 1, model: 'pci-bridge' }, { index: 2, model: 'pci-expander-bus', address: at(1, 1) }),
      },
    },
    causes: [
      'spec.domain.devices.controllers[1].address.bus: Invalid value: 1: is a pci-bridge, which does not take a pci-expander-bus',
    ],
    accepted: {
      devices: {
        controllers: pci({ index: 1, model: 'pci-bridge' }, { index: 2, model: 'pci-expander-bus', address: at(0, 7) }),
      },
    },
  },
  {
    refused: onQ35({
      controllers: pci({ index: 1, model: 'pcie-root-port' }, { index: 2, model: 'pcie-root-port', address: at(1, 0) }),
    }),
    causes: [
      'spec.domain.devices.controllers[1].address.bus: Invalid value: 1: is a pcie-root-port, which does not take a pcie-root-port',
    ],
    accepted: onQ35({
      controllers: pci({ index: 1, model: 'pcie-root-port' }, { index: 2, model: 'pcie-root-port', address: at(0, 7) }),
    }),
  },
  {
    refused: onQ35({
      ...nics({ bus: 2, slot: 0 }),
      controllers: pci({ index: 1, model: 'pcie-root-port' }, { index: 2, model: 'pcie-switch-upstream-port' }),
    }),
    causes: [
      'spec.domain.devices.interfaces[0].address.bus: Invalid value: 2: is a pcie-switch-upstream-port, which does not take a PCI Express device',
    ],
    accepted: onQ35({
      ...nics({ bus: 1, slot: 0 }),
      controllers: pci({ index: 1, model: 'pcie-root-port' }, { index: 2, model: 'pcie-switch-upstream-port' }),
    }),
  },
  {
    refused: onQ35({ ...nics({ bus: 1, slot: 1 }), controllers: pci({ index: 1, model: 'pcie-root-port' }) }),
    causes: ['spec.domain.devices.interfaces[0].address.slot: Invalid value: 1: must be 0 on a pcie-root-port'],
    accepted: onQ35({ ...nics({ bus: 1, slot: 0 }), controllers: pci({ index: 1, model: 'pcie-root-port' }) }),
  },
  {
    refused: { devices: { controllers: pci({ index: 1, model: 'pci-bridge' }), ...nics({ bus: 1, slot: 0 }) } },
    causes: ['spec.domain.devices.interfaces[0].address.slot: Invalid value: 0: must be from 1 to 31 on a pci-bridge'],
    accepted: { devices: { controllers: pci({ index: 1, model: 'pci-bridge' }), ...nics({ bus: 1, slot: 1 }) } },
  },
])

const ide = (address: ReturnType<typeof at>): Domain => ({
  devices: { controllers: [{ type: 'ide', index: 0, address }] },
})

testRule('pci-fixed-address', [
  {
    refused: ide(at(0, 7)),
    causes: [
      'spec.domain.devices.controllers[0].address: Invalid value: "0000:00:07.0": must be 0000:00:01.1, the address of this controller in the chipset',
    ],
    accepted: ide(at(0, 1, 1)),
  },
  {
    refused: { devices: { controllers: [{ type: 'usb', index: 0, model: 'piix3-uhci', address: at(0, 7) }] } },
    causes: [
      'spec.domain.devices.controllers[0].address: Invalid value: "0000:00:07.0": must be 0000:00:01.2, the address of this controller in the chipset',
    ],
    accepted: { devices: { controllers: [{ type: 'usb', index: 0, model: 'piix4-uhci', address: at(0, 7) }] } },
  },
  {
    refused: onQ35({ controllers: [{ type: 'sata', index: 0, address: at(0, 7) }] }),
    causes: [
      'spec.domain.devices.controllers[0].address: Invalid value: "0000:00:07.0": must be 0000:00:1f.2, the address of this controller in the chipset',
    ],
    accepted: onQ35({ controllers: [{ type: 'sata', index: 0, address: at(0, 0x1f, 2) }] }),
  },
  {
    refused: onQ35({ controllers: [{ type: 'usb', index: 0, model: 'piix3-uhci', address: at(0, 1, 2) }] }),
    causes: [
      'spec.domain.devices.controllers[0].address: Invalid value: "0000:00:01.2": is the address of this controller in the chipset of machine type pc, not of q35; remove the address, so that a free one is assigned',
    ],
    accepted: onQ35({ controllers: [{ type: 'usb', index: 0, model: 'piix3-uhci', address: at(0, 7) }] }),
  },
])

const withoutBalloon = (machine: string, devices: Devices = {}): Domain => ({
  ...os(machine),
  devices: { memballoon: { model: 'none' }, ...devices },
})

const usbOff = { type: 'usb', index: 0, model: 'none' } as const

testRule('pci-none', [
  {
    refused: withoutBalloon('isapc', { controllers: pci({ index: 1, model: 'pci-bridge' }) }),
    causes: [
      'spec.domain.devices.controllers[0]: Forbidden: is a PCI device, but machine type isapc has no PCI bus; remove the device, or use machine type pc or q35',
    ],
    accepted: withoutBalloon('isapc'),
  },
  {
    refused: os('isapc'),
    causes: [
      'spec.domain.devices.memballoon: Forbidden: is a PCI device, but machine type isapc has no PCI bus; memballoon: {model: none}',
    ],
    accepted: withoutBalloon('isapc'),
  },
  {
    refused: withoutBalloon('isapc', { rngs: [{ model: 'virtio', backend: { model: 'builtin' } }] }),
    causes: [
      'spec.domain.devices.rngs[0]: Forbidden: is a PCI device, but machine type isapc has no PCI bus; remove the device, or use machine type pc or q35',
    ],
    accepted: withoutBalloon('isapc', {
      rngs: [{ model: 'virtio', backend: { model: 'builtin' } }],
      controllers: pci({ index: 0, model: 'pci-root' }),
    }),
  },
  {
    refused: { ...os('microvm'), devices: { controllers: [usbOff] } },
    causes: [
      'spec.domain.devices.memballoon: Forbidden: is a PCI device, but machine type microvm has no PCI bus; memballoon: {model: none}',
    ],
    accepted: withoutBalloon('microvm', { controllers: [usbOff] }),
  },
])

const indexed = (...indexes: number[]): Domain => ({
  devices: { interfaces: indexes.map((index) => ({ type: 'user', acpi: { index } })) },
})

const passedThrough = (more: DeviceOf<'hostdevs'>): Domain => {
  const source = { vendor: { id: '0x1234' }, product: { id: '0x5678' } }
  const address = { type: 'usb' as const, bus: 0, port: '1' }
  return { devices: { hostdevs: [{ mode: 'subsystem', type: 'usb', source, address, ...more }] } }
}

testRule('acpi-index-unique', [
  {
    refused: indexed(1, 1),
    causes: [
      'spec.domain.devices.interfaces[1].acpi.index: Duplicate value: 1: is already the ACPI index of spec.domain.devices.interfaces[0]',
    ],
    accepted: indexed(1, 2),
  },
  {
    refused: passedThrough({ acpi: { index: 1 } }),
    causes: ['spec.domain.devices.hostdevs[0].acpi.index: Forbidden: can only be set for PCI devices'],
    accepted: passedThrough({}),
  },
])

const isapc = (devices: Devices): Domain => ({ ...os('isapc'), devices })
const rng = { model: 'virtio', backend: { model: 'builtin' }, address: at(0, 9) } as const
const usbNet: Devices = { interfaces: [{ type: 'user', model: { type: 'usb-net' }, address: at(0, 9) }] }

testSilent('pci-address-range', [{ devices: nics({ bus: 0xff }) }])
testSilent('pci-connection', [isapc({ rngs: [rng] }), { devices: usbNet }])
testSilent('pci-fixed-address', [
  { devices: { controllers: [{ type: 'usb', index: 1, model: 'piix3-uhci', address: at(0, 7) }] } },
  { devices: { controllers: [{ type: 'ide', index: 0, address: { type: 'isa' } }] } },
  ide(at(0, 0)),
  onQ35({ controllers: [{ type: 'ide', index: 0, address: at(0, 7) }] }),
  onQ35({ controllers: [{ type: 'usb', index: 0, model: 'piix3-uhci', address: at(0, 7) }] }),
  { devices: { controllers: [{ type: 'sata', index: 0, address: at(0, 7) }] } },
])
testSilent('pci-none', [withoutBalloon('isapc', usbNet)])
testSilent('acpi-index-unique', [{ ...os('isapc'), ...indexed(1) }])
