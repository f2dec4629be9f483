import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const input = (one: DeviceOf<'inputs'>, features?: Domain['features']): Domain => ({
  ...(features === undefined ? {} : { features }),
  devices: { inputs: [one] },
})

testRule('input', [
  {
    refused: input({ bus: 'usb' }),
    causes: ['spec.domain.devices.inputs[0].type: Required value: must be set, e.g. tablet'],
    accepted: input({ type: 'tablet', bus: 'usb' }),
  },
  {
    refused: input({ type: 'tablet', bus: 'ps2' }),
    causes: [
      'spec.domain.devices.inputs[0].bus: Invalid value: "ps2": is only supported for mouse and keyboard, not for tablet; did you mean "usb"?',
    ],
    accepted: input({ type: 'tablet', bus: 'usb' }),
  },
  {
    refused: input({ type: 'mouse', bus: 'ps2' }, { ps2: { state: false } }),
    causes: ['spec.domain.devices.inputs[0].bus: Invalid value: "ps2": is disabled by features.ps2.state'],
    accepted: input({ type: 'mouse', bus: 'ps2' }, { ps2: { state: true } }),
  },
  {
    refused: input({ type: 'keyboard', bus: 'ps2' }, { ps2: { state: false } }),
    causes: ['spec.domain.devices.inputs[0].bus: Invalid value: "ps2": is disabled by features.ps2.state'],
    accepted: input({ type: 'keyboard', bus: 'usb' }, { ps2: { state: false } }),
  },
  {
    refused: { ...input({ type: 'keyboard', bus: 'ps2' }), os: { type: { os: 'hvm', machine: 'microvm' } } },
    causes: [
      'spec.domain.devices.inputs[0].bus: Invalid value: "ps2": is not supported by machine type microvm, which has no PS/2 controller',
    ],
    accepted: { ...input({ type: 'keyboard', bus: 'ps2' }), os: { type: { os: 'hvm', machine: 'pc' } } },
  },
  {
    refused: input({ type: 'passthrough', bus: 'usb', source: { evdev: '/dev/input/event0' } }),
    causes: ['spec.domain.devices.inputs[0].bus: Invalid value: "usb": must be virtio for type passthrough'],
    accepted: input({ type: 'passthrough', bus: 'virtio', source: { evdev: '/dev/input/event0' } }),
  },
  {
    refused: input({ type: 'mouse', bus: 'usb', model: 'virtio' }),
    causes: ['spec.domain.devices.inputs[0].model: Forbidden: can only be set for bus virtio, not for usb'],
    accepted: input({ type: 'mouse', bus: 'virtio', model: 'virtio' }),
  },
  {
    refused: input({ type: 'keyboard', bus: 'virtio', model: 'virtio-transitional' }),
    causes: [
      'spec.domain.devices.inputs[0].model: Unsupported value: "virtio-transitional": must be virtio for type keyboard',
    ],
    accepted: input({ type: 'keyboard', bus: 'virtio', model: 'virtio' }),
  },
  {
    refused: input({ type: 'evdev', bus: 'virtio', source: { dev: '/dev/input/event0' } }),
    causes: [
      'spec.domain.devices.inputs[0].bus: Forbidden: must not be set for type evdev, which forwards to other devices',
    ],
    accepted: input({ type: 'evdev', source: { dev: '/dev/input/event0' } }),
  },
  {
    refused: input({ type: 'tablet', bus: 'usb', address: { type: 'pci', slot: 9 } }),
    causes: ['spec.domain.devices.inputs[0].address.type: Invalid value: "pci": must be usb for bus usb'],
    accepted: input({ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port: '1' } }),
  },
  {
    refused: input({ type: 'passthrough', bus: 'virtio' }),
    causes: ['spec.domain.devices.inputs[0].source.evdev: Required value: must be set for type passthrough'],
    accepted: input({ type: 'passthrough', bus: 'virtio', source: { evdev: '/dev/input/event0' } }),
  },
  {
    refused: input({ type: 'evdev' }),
    causes: ['spec.domain.devices.inputs[0].source.dev: Required value: must be set for type evdev'],
    accepted: input({ type: 'evdev', source: { dev: '/dev/input/event0' } }),
  },
  {
    refused: input({ type: 'mouse', bus: 'virtio', source: { evdev: '/dev/input/event0' } }),
    causes: [
      'spec.domain.devices.inputs[0].source: Forbidden: must not be set for type mouse, only for evdev and passthrough',
    ],
    accepted: input({ type: 'mouse', bus: 'virtio' }),
  },
  {
    refused: input({ type: 'evdev', source: { dev: '/dev/input/event0', evdev: '/dev/input/event1' } }),
    causes: [
      'spec.domain.devices.inputs[0].source.evdev: Forbidden: must not be set for type evdev, whose device file is dev',
    ],
    accepted: input({ type: 'evdev', source: { dev: '/dev/input/event0', grab: 'all', repeat: true } }),
  },
  {
    refused: input({
      type: 'passthrough',
      bus: 'virtio',
      source: {
        evdev: '/dev/input/event0',
        dev: '/dev/input/event1',
        grab: 'all',
        grabToggle: 'alt-alt',
        repeat: true,
      },
    }),
    causes: ['dev', 'grab', 'grabToggle', 'repeat'].map(
      (field) =>
        `spec.domain.devices.inputs[0].source.${field}: Forbidden: must not be set for type passthrough, only for evdev`,
    ),
    accepted: input({ type: 'passthrough', bus: 'virtio', source: { evdev: '/dev/input/event0' } }),
  },
])

// Completion adds PS/2 devices even without a display that needs them, and the user cannot move them to another bus.
testSilent('input', [{ features: { ps2: { state: false } }, devices: { graphics: [{ type: 'vnc' }] } }])
