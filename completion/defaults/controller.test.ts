import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, i440fx, q35 } from '../../test/applied.ts'
import * as controller from './controller.ts'
import type { Rule } from './rule.ts'
import { virtioSerialAddress } from './virtio-serial.ts'

type Devices = NonNullable<Domain['devices']>
type Controllers = Devices['controllers'] & object

const controllersOf = (rules: readonly Rule[], devices: Devices, os: Domain['os'] & object = q35): Domain['devices'] =>
  applied(rules, { os, devices })?.devices

describe('controllers that a machine always has', () => {
  const rules = [controller.usbController, controller.sataController, controller.pciRoot, controller.usbModel]
  const machine = (name: string) => ({ type: { os: 'hvm', arch: 'x86_64', machine: name } }) as const

  test.each<[string, Domain['os'] & object, Controllers]>([
    [
      'q35',
      q35,
      [
        { type: 'usb', index: 0, model: 'qemu-xhci' },
        { type: 'sata', index: 0 },
        { type: 'pci', index: 0, model: 'pcie-root' },
      ],
    ],
    [
      'i440fx',
      i440fx,
      [
        { type: 'usb', index: 0, model: 'piix3-uhci' },
        { type: 'pci', index: 0, model: 'pci-root' },
      ],
    ],
    [
      'pc',
      machine('pc'),
      [
        { type: 'usb', index: 0, model: 'piix3-uhci' },
        { type: 'pci', index: 0, model: 'pci-root' },
      ],
    ],
  ])('%s', (_, os, expected) => expect(controllersOf(rules, {}, os)?.controllers).toEqual(expected))

  test('isapc has none', () => expect(controllersOf(rules, {}, machine('isapc'))).toEqual({}))

  test('existing ones remain', () => {
    const controllers: Controllers = [
      { type: 'usb', index: 0, model: 'none' },
      { type: 'sata', index: '0' },
      { type: 'pci', model: 'pcie-root' },
    ]
    expect(controllersOf(rules, { controllers })?.controllers).toEqual(controllers)
  })

  test.each([0, 1])('no USB controller is added if one with index %d disables USB', (index) => {
    const controllers: Controllers = [{ type: 'usb', index, model: 'none' }]
    expect(applied([controller.usbController], { os: q35, devices: { controllers } }).devices).toEqual({ controllers })
  })
})

describe('the index', () => {
  test.each<[string, Controllers, unknown[]]>([
    [
      'is the first free one of the type',
      [{ type: 'scsi' }, { type: 'scsi', index: 1 }, { type: 'scsi' }, { type: 'sata' }],
      [0, 1, 2, 0],
    ],
    [
      'is shared by the parts of a USB 2 controller',
      [
        { type: 'usb', model: 'ich9-ehci1' },
        { type: 'usb', model: 'ich9-uhci1' },
        { type: 'usb', model: 'ich9-uhci2' },
      ],
      [0, 0, 0],
    ],
    [
      'differs for a second USB 2 controller',
      [
        { type: 'usb', model: 'ich9-ehci1' },
        { type: 'usb', model: 'ich9-ehci1' },
      ],
      [0, 1],
    ],
  ])('%s', (_, controllers, expected) => {
    expect(
      controllersOf([controller.controllerIndex], { controllers })?.controllers?.map(({ index }) => index),
    ).toEqual(expected)
  })
})

describe('controllers that devices need', () => {
  const disk = (bus: 'sata' | 'scsi' | 'ide' | 'fdc', index: number) =>
    ({ target: { dev: 'sda', bus }, address: { type: 'drive', controller: index } }) as const

  test.each<[string, Rule, Devices, Controllers | undefined]>([
    [
      'a disk: its own and those with lower numbers',
      controller.diskController,
      { disks: [disk('scsi', 2)] },
      [0, 1, 2].map((index) => ({ type: 'scsi', index })),
    ],
    [
      'a disk on virtio: none',
      controller.diskController,
      { disks: [{ target: { dev: 'vda', bus: 'virtio' } }] },
      undefined,
    ],
    [
      'a channel',
      controller.virtioSerialController,
      { channels: [{ target: { type: 'virtio' } }] },
      [{ type: 'virtio-serial', index: 0 }],
    ],
    [
      'a channel at an address',
      controller.virtioSerialController,
      { channels: [{ target: { type: 'virtio' }, address: { type: 'virtio-serial', controller: 3 } }] },
      [{ type: 'virtio-serial', index: 3 }],
    ],
    ['a smart card', controller.smartcardController, { smartcards: [{ mode: 'host' }] }, [{ type: 'ccid', index: 0 }]],
    [
      'a SCSI host device',
      controller.hostdevController,
      { hostdevs: [{ type: 'scsi' }] },
      [{ type: 'scsi', index: 0 }],
    ],
  ])('%s', (_, rule, devices, expected) => expect(controllersOf([rule], devices)?.controllers).toEqual(expected))

  test('an added one for a SCSI host device has the model of the last in use', () => {
    const controllers: Controllers = [{ type: 'scsi', index: 0, model: 'virtio-scsi' }]
    const hostdevs: Devices['hostdevs'] = [
      { type: 'scsi', address: { type: 'drive', controller: 0 } },
      { type: 'scsi', address: { type: 'drive', controller: 1 } },
    ]
    expect(controllersOf([controller.hostdevController], { controllers, hostdevs })?.controllers).toEqual([
      ...controllers,
      { type: 'scsi', index: 1, model: 'virtio-scsi' },
    ])
  })
})

test('PCI controllers have a chip and a target', () => {
  const controllers: Controllers = [
    { type: 'pci', index: 1, model: 'pcie-root-port', address: { type: 'pci', slot: 2, function: 1 } },
    { type: 'pci', index: 2, model: 'pci-bridge' },
    { type: 'pci', index: 3, model: 'pcie-switch-downstream-port', address: { type: 'pci', slot: 4 } },
    { type: 'pci', index: 4, model: 'pcie-expander-bus' },
    { type: 'pci', index: 5, model: 'pcie-expander-bus' },
  ]
  const rules = [controller.pciChip, controller.pciTarget, controller.expanderBusNumber]
  expect(controllersOf(rules, { controllers })?.controllers).toEqual([
    { ...controllers[0], modelName: { name: 'pcie-root-port' }, target: { chassis: 1, port: 17 } },
    { ...controllers[1], modelName: { name: 'pci-bridge' }, target: { chassisNr: 2 } },
    { ...controllers[2], modelName: { name: 'xio3130-downstream' }, target: { chassis: 3, port: 4 } },
    { ...controllers[3], modelName: { name: 'pxb-pcie' }, target: { busNr: 254 } },
    { ...controllers[4], modelName: { name: 'pxb-pcie' }, target: { busNr: 252 } },
  ])
})

describe('ports of virtio-serial', () => {
  const channel = { target: { type: 'virtio' } } as const
  const at = (port: number | string, index = 0) =>
    ({ type: 'virtio-serial', controller: index, bus: 0, port: String(port) }) as const
  const serial: Controllers = [{ type: 'virtio-serial', index: 0 }]

  test.each<[string, Devices, (object | undefined)[]]>([
    ['begin with 1', { controllers: serial, channels: [channel, channel] }, [at(1), at(2)]],
    ['skip those in use', { controllers: serial, channels: [channel, { ...channel, address: at(1) }] }, [at(2), at(1)]],
    [
      'are on the controller that is set',
      {
        controllers: [...serial, { type: 'virtio-serial', index: 1 }],
        channels: [{ ...channel, address: { type: 'virtio-serial', controller: 1 } }],
      },
      [at(1, 1)],
    ],
    ['are not for other channels', { controllers: serial, channels: [{ target: { type: 'guestfwd' } }] }, [undefined]],
  ])('%s', (_, devices, expected) => {
    expect(controllersOf([virtioSerialAddress], devices)?.channels?.map(({ address }) => address)).toEqual(expected)
  })

  test('run out: another controller is added', () => {
    const devices: Devices = { controllers: [{ ...serial[0], ports: 2 }], channels: [channel, channel] }
    expect(controllersOf([virtioSerialAddress], devices)).toEqual({
      controllers: [...(devices.controllers ?? []), { type: 'virtio-serial', index: 1 }],
      channels: [
        { ...channel, address: at(1) },
        { ...channel, address: at(1, 1) },
      ],
    })
  })
})
