import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const usb = (...controllers: Omit<DeviceOf<'controllers'>, 'type'>[]): Domain => ({
  devices: { controllers: controllers.map((controller) => ({ type: 'usb', ...controller })) },
})

/** A guest with an xHCI controller of two ports, a hub at port 1 of it, and tablets at these ports. */
const tablets = (...addresses: { readonly bus?: number; readonly port?: string }[]): Domain => ({
  devices: {
    ...usb({ index: 0, model: 'qemu-xhci', ports: 2 }).devices,
    hubs: [{ type: 'usb', address: { type: 'usb', bus: 0, port: '1' } }],
    inputs: addresses.map((address) => ({ type: 'tablet', bus: 'usb', address: { type: 'usb', ...address } })),
  },
})

/** A tablet at a port of the only controller. */
const atPort = (controller: Omit<DeviceOf<'controllers'>, 'type'>, port: string): Domain => ({
  devices: {
    ...usb({ index: 0, ...controller }).devices,
    inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port } }],
  },
})

const master = { startport: 0 }

testRule('usb-master', [
  {
    refused: { devices: { ...usb({ index: 1, model: 'ich9-uhci2', master }).devices, hubs: [{ type: 'usb' }] } },
    causes: [
      'spec.domain.devices.controllers[0].model: Not found: "ich9-uhci2": is a companion controller without a master; add an ich9-ehci1 with the same index',
    ],
    accepted: usb({ index: 1, model: 'ich9-ehci1' }, { index: 1, model: 'ich9-uhci2', master }),
  },
  {
    refused: usb({ index: 0, model: 'ich9-uhci1', master }),
    causes: [
      'spec.domain.devices.controllers[0].model: Not found: "ich9-uhci1": is a companion controller without a master; add an ich9-ehci1 with the same index',
    ],
    accepted: usb({ index: 0, model: 'ich9-ehci1' }, { index: 0, model: 'ich9-uhci1', master }),
  },
])

testRule('usb-disabled', [
  {
    refused: usb({ index: 1, model: 'qemu-xhci' }, { index: 0, model: 'none' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Forbidden: conflicts with another USB controller, whose model none disables USB',
    ],
    accepted: usb({ index: 0, model: 'none' }),
  },
  {
    refused: usb({ index: 0, model: 'none' }, { index: 1, model: 'qemu-xhci' }),
    causes: [
      'spec.domain.devices.controllers[1].model: Forbidden: conflicts with another USB controller, whose model none disables USB',
    ],
    accepted: usb({ index: 0, model: 'none' }),
  },
  {
    refused: usb({ index: 0, model: 'none' }, { index: 1, model: 'none' }),
    causes: [
      'spec.domain.devices.controllers[1].model: Forbidden: conflicts with another USB controller, whose model none disables USB',
    ],
    accepted: usb({ index: 0, model: 'none' }),
  },
  {
    refused: { devices: { ...usb({ index: 0, model: 'none' }).devices, hubs: [{ type: 'usb' }] } },
    causes: [
      'spec.domain.devices.hubs[0]: Forbidden: is a USB device, but a USB controller with model none disables USB',
    ],
    accepted: { devices: { ...usb({ index: 0, model: 'qemu-xhci' }).devices, hubs: [{ type: 'usb' }] } },
  },
  {
    refused: {
      devices: { ...usb({ index: 0, model: 'none' }).devices, inputs: [{ type: 'tablet', bus: 'usb' }] },
    },
    causes: [
      'spec.domain.devices.inputs[0]: Forbidden: is a USB device, but a USB controller with model none disables USB',
    ],
    accepted: {
      devices: { ...usb({ index: 0, model: 'none' }).devices, inputs: [{ type: 'tablet', bus: 'virtio' }] },
    },
  },
])

testRule('usb-off-index', [
  {
    refused: usb({ index: 1, model: 'none' }),
    causes: ['spec.domain.devices.controllers[0].index: Invalid value: 1: must be 0: model none disables all of USB'],
    accepted: usb({ index: 0, model: 'none' }),
  },
])

testRule('usb-controller-model', [
  {
    refused: usb({ index: 0, model: 'vt82c686b-uhci' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "vt82c686b-uhci": QEMU on this node has no such USB controller; it has piix3-uhci, piix4-uhci, ehci, ich9-ehci1, ich9-uhci1, ich9-uhci2, ich9-uhci3, pci-ohci, nec-xhci, qemu-xhci [node without USB controller vt82c686b-uhci]',
    ],
    accepted: usb({ index: 0, model: 'piix4-uhci' }),
  },
  {
    refused: usb({ index: 0, model: 'auto' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "auto": QEMU on this node has no such USB controller; it has piix3-uhci, piix4-uhci, ehci, ich9-ehci1, ich9-uhci1, ich9-uhci2, ich9-uhci3, pci-ohci, nec-xhci, qemu-xhci [node without USB controller auto]',
    ],
    accepted: usb({ index: 0, model: 'nec-xhci' }),
  },
])

testRule('usb-ports', [
  {
    refused: usb({ index: 0, model: 'qemu-xhci', ports: 16 }),
    causes: ['spec.domain.devices.controllers[0].ports: Invalid value: 16: must be at most 15 for model qemu-xhci'],
    accepted: usb({ index: 0, model: 'qemu-xhci', ports: 15 }),
  },
  {
    refused: usb({ index: 0, model: 'nec-xhci', ports: 16 }),
    causes: ['spec.domain.devices.controllers[0].ports: Invalid value: 16: must be at most 15 for model nec-xhci'],
    accepted: usb({ index: 0, model: 'ich9-ehci1', ports: 16 }),
  },
])

testRule('usb-controller-unique', [
  {
    refused: usb({ index: 0, model: 'qemu-xhci' }, { index: 0, model: 'ich9-ehci1' }),
    causes: [
      'spec.domain.devices.controllers[1].index: Duplicate value: 0: is already the index of another USB controller, spec.domain.devices.controllers[0].index',
    ],
    accepted: usb({ index: 0, model: 'qemu-xhci' }, { index: 1, model: 'ich9-ehci1' }),
  },
])

testRule('usb-address', [
  {
    refused: {
      devices: {
        ...usb({ index: 0, model: 'ich9-ehci1' }, { index: 0, model: 'ich9-uhci1', master }).devices,
        inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port: '7' } }],
      },
    },
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "7": USB controller 0 has ports 1 to 6'],
    accepted: atPort({ model: 'ich9-ehci1' }, '6'),
  },
  {
    refused: tablets({ bus: 1 }),
    causes: ['spec.domain.devices.inputs[0].address.bus: Not found: 1: no USB controller has this index'],
    accepted: tablets({ bus: 0 }),
  },
  {
    refused: tablets({ bus: 1, port: '1' }),
    causes: ['spec.domain.devices.inputs[0].address.bus: Not found: 1: no USB controller has this index'],
    accepted: tablets({ bus: 0, port: '2' }),
  },
  {
    refused: tablets({ port: '3' }),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "3": USB controller 0 has ports 1 to 2'],
    accepted: tablets({ port: '2' }),
  },
  {
    refused: tablets({ port: '0' }),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "0": USB controller 0 has ports 1 to 2'],
    accepted: tablets({ port: '2' }),
  },
  {
    refused: tablets({ port: '2.1' }),
    causes: ['spec.domain.devices.inputs[0].address.port: Not found: "2.1": there is no hub at port 2 of USB bus 0'],
    accepted: tablets({ port: '1.1' }),
  },
  {
    refused: tablets({ port: '1.9' }),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "1.9": the hub at 1 has ports 1 to 8'],
    accepted: tablets({ port: '1.8' }),
  },
  {
    refused: tablets({ port: '1' }),
    causes: [
      'spec.domain.devices.hubs[0].address.port: Duplicate value: "1": is already the port of spec.domain.devices.inputs[0] on USB bus 0',
    ],
    accepted: tablets({ port: '2' }),
  },
  {
    refused: tablets({ port: '2' }, { port: '2' }),
    causes: [
      'spec.domain.devices.inputs[1].address.port: Duplicate value: "2": is already the port of spec.domain.devices.inputs[0] on USB bus 0',
    ],
    accepted: tablets({ port: '2' }, { port: '1.2' }),
  },
  {
    refused: atPort({ model: 'qemu-xhci' }, '5'),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "5": USB controller 0 has ports 1 to 4'],
    accepted: atPort({ model: 'qemu-xhci' }, '4'),
  },
  {
    refused: atPort({ model: 'nec-xhci' }, '5'),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "5": USB controller 0 has ports 1 to 4'],
    accepted: atPort({ model: 'nec-xhci' }, '4'),
  },
  {
    refused: atPort({ model: 'ehci' }, '7'),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "7": USB controller 0 has ports 1 to 6'],
    accepted: atPort({ model: 'ehci' }, '6'),
  },
  {
    refused: atPort({ model: 'ich9-ehci1' }, '7'),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "7": USB controller 0 has ports 1 to 6'],
    accepted: atPort({ model: 'ich9-ehci1' }, '6'),
  },
  {
    refused: atPort({ model: 'pci-ohci' }, '4'),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "4": USB controller 0 has ports 1 to 3'],
    accepted: atPort({ model: 'pci-ohci' }, '3'),
  },
  {
    refused: atPort({ model: 'piix3-uhci' }, '3'),
    causes: ['spec.domain.devices.inputs[0].address.port: Invalid value: "3": USB controller 0 has ports 1 to 2'],
    accepted: atPort({ model: 'piix3-uhci' }, '2'),
  },
])

const companion = { ...usb({ index: 0, model: 'ich9-ehci1' }, { index: 1, model: 'ich9-uhci1', master }).devices }

testSilent('usb-off-index', [{ devices: { controllers: [{ type: 'scsi', index: 1, model: 'none' }] } }])
testSilent('usb-address', [
  atPort({ model: 'none' }, '9'),
  { devices: { ...companion, inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 1, port: '3' } }] } },
  {
    devices: {
      ...usb({ index: 1, model: 'qemu-xhci' }).devices,
      inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb' } }],
    },
  },
])
