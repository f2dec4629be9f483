import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, i440fx, q35 } from '../../test/applied.ts'
import { pciRoot } from './controller.ts'
import { diskBus } from './disk.ts'
import { hotPlugPort, pciAddresses, pciControllers } from './pci.ts'

type Devices = NonNullable<Domain['devices']>
const rules = [pciRoot, pciControllers, pciAddresses]

const isapc = { type: { os: 'hvm', arch: 'x86_64', machine: 'isapc' } } as const

/** `disks[0]: 0:2.0`, with `+` if the slot is shared; controllers as `pci 1 pcie-root-port: 0:1.0+`. */
const places = (os: Domain['os'] & object, devices: Devices): string[] => {
  const all: readonly [string, unknown][] = Object.entries(applied(rules, { os, devices }).devices ?? {})
  return all.flatMap(([key, value]) =>
    (Array.isArray(value) ? value : [value]).map(
      (device: { address?: object; type?: string; index?: number; model?: string }, index) => {
        const name =
          key === 'controllers'
            ? [device.type, device.index, device.model].filter((one) => one !== undefined).join(' ')
            : `${key}[${index}]`
        return device.address ? `${name}: ${place(device.address)}` : name
      },
    ),
  )
}

const place = (address: { bus?: number; slot?: number; function?: number; multifunction?: boolean }): string =>
  `${address.bus}:${address.slot}.${address.function}${address.multifunction === true ? '+' : ''}`

const disk = (dev: string) => ({ target: { dev, bus: 'virtio' } }) as const
const card = (type: string) => ({ type: 'user', model: { type } }) as const
const pci = (bus: number, slot: number, part = 0) => ({ address: { type: 'pci', bus, slot, function: part } }) as const

describe('i440fx', () => {
  test.each<[string, Devices, string[]]>([
    [
      'assigns slots by kind of device, not by their order in the domain',
      { rngs: [{}], disks: [disk('vda')], interfaces: [card('virtio')], sounds: [{ model: 'ich6' }] },
      ['rngs[0]: 0:5.0', 'disks[0]: 0:4.0', 'interfaces[0]: 0:2.0', 'sounds[0]: 0:3.0', 'pci 0 pci-root'],
    ],
    [
      'has the primary video card in slot 2, and IDE and USB in the slot of the chip',
      {
        controllers: [
          { type: 'ide', index: 0 },
          { type: 'usb', index: 0, model: 'piix3-uhci' },
        ],
        videos: [{ model: { type: 'qxl' } }, { model: { type: 'vga', primary: true } }],
      },
      ['ide 0: 0:1.1', 'usb 0 piix3-uhci: 0:1.2', 'pci 0 pci-root', 'videos[0]: 0:3.0', 'videos[1]: 0:2.0'],
    ],
    [
      'retains existing addresses and avoids them',
      { disks: [{ ...disk('vda'), ...pci(0, 2) }, disk('vdb')] },
      ['disks[0]: 0:2.0', 'disks[1]: 0:3.0', 'pci 0 pci-root'],
    ],
    [
      'adds the bridges that an address refers to',
      { disks: [{ ...disk('vda'), ...pci(2, 3) }] },
      ['disks[0]: 2:3.0', 'pci 0 pci-root', 'pci 1 pci-bridge: 0:2.0', 'pci 2 pci-bridge: 0:3.0'],
    ],
    [
      'sets multifunction if functions share a slot',
      {
        disks: [
          { ...disk('vda'), ...pci(0, 5) },
          { ...disk('vdb'), ...pci(0, 5, 1) },
        ],
      },
      ['disks[0]: 0:5.0+', 'disks[1]: 0:5.1', 'pci 0 pci-root'],
    ],
  ])('%s', (_, devices, expected) => expect(places(i440fx, devices)).toEqual(expected))

  test('gets a bridge before its slots are full', () => {
    const interfaces = Array.from({ length: 30 }, () => card('virtio'))
    const found = places(i440fx, { interfaces })
    expect(found.filter((one) => one.startsWith('pci'))).toEqual(['pci 0 pci-root', 'pci 1 pci-bridge: 0:2.0'])
    expect(found.slice(28, 30)).toEqual(['interfaces[28]: 0:31.0', 'interfaces[29]: 1:1.0'])
  })
})

describe('q35', () => {
  test.each<[string, Devices, string[]]>([
    [
      'gives each PCI Express device a root port, and adds one for hot-plug',
      { interfaces: [card('virtio')], disks: [disk('vda')] },
      [
        'interfaces[0]: 1:0.0',
        'disks[0]: 2:0.0',
        'pci 0 pcie-root',
        'pci 1 pcie-root-port: 0:1.0+',
        'pci 2 pcie-root-port: 0:1.1',
        'pci 3 pcie-root-port: 0:1.2',
      ],
    ],
    [
      'puts a PCI device behind a bridge',
      { interfaces: [card('rtl8139')] },
      [
        'interfaces[0]: 2:1.0',
        'pci 0 pcie-root',
        'pci 1 pcie-root-port: 0:1.0+',
        'pci 2 pcie-to-pci-bridge: 1:0.0',
        'pci 3 pcie-root-port: 0:1.1',
      ],
    ],
    [
      'puts a transitional device on PCI, and a non-transitional one on PCI Express',
      { rngs: [{ model: 'virtio-transitional' }, { model: 'virtio-non-transitional' }] },
      [
        'rngs[0]: 2:1.0',
        'rngs[1]: 3:0.0',
        'pci 0 pcie-root',
        'pci 1 pcie-root-port: 0:1.0+',
        'pci 2 pcie-to-pci-bridge: 1:0.0',
        'pci 3 pcie-root-port: 0:1.1',
        'pci 4 pcie-root-port: 0:1.2',
      ],
    ],
    [
      'has the parts of its chipset at the addresses of a real board',
      {
        controllers: [
          { type: 'sata', index: 0 },
          { type: 'usb', index: 0, model: 'ich9-ehci1' },
          { type: 'usb', index: 0, model: 'ich9-uhci1', master: { startport: 0 } },
          { type: 'usb', index: 0, model: 'ich9-uhci2', master: { startport: 2 } },
        ],
        sounds: [{ model: 'ich9' }],
        videos: [{ model: { type: 'vga', primary: true } }],
        panics: [{ model: 'pvpanic' }],
      },
      [
        'sata 0: 0:31.2',
        'usb 0 ich9-ehci1: 0:29.7',
        'usb 0 ich9-uhci1: 0:29.0+',
        'usb 0 ich9-uhci2: 0:29.1',
        'pci 0 pcie-root',
        'sounds[0]: 0:27.0',
        'videos[0]: 0:1.0',
        'panics[0]: 0:2.0',
      ],
    ],
    [
      'uses existing ports, and adds only those that are needed',
      { controllers: [{ type: 'pci', index: 1, model: 'pcie-root-port' }], disks: [disk('vda')] },
      ['pci 1 pcie-root-port: 0:1.0', 'pci 0 pcie-root', 'disks[0]: 1:0.0'],
    ],
    [
      'fills gaps in the numbers with ports',
      { controllers: [{ type: 'pci', index: 2, model: 'pcie-root-port' }] },
      ['pci 2 pcie-root-port: 0:1.1', 'pci 0 pcie-root', 'pci 1 pcie-root-port: 0:1.0+'],
    ],
  ])('%s', (_, devices, expected) => expect(places(q35, devices)).toEqual(expected))
})

/** As libvirt itself assigns them. */
test.each([
  ['vdb vda:virtio', 'vdb vda'],
  ['vdc vdb:virtio vda vdd:virtio', 'vda vdc vdb vdd'],
  ['hda vdb:virtio hdb vda:virtio vdc', 'vdc vda vdb'],
  ['vdb:virtio hdb vda', 'vdb vda'],
  ['sdb:scsi vdb vda', 'vda vdb'],
])('disks get slots by the buses that are set: %s', (names, expected) => {
  const disks = names.split(' ').map((name) => {
    const [dev = '', bus] = name.split(':')
    return { target: bus === undefined ? { dev } : { dev, bus: bus as 'virtio' } }
  })
  const found = applied([pciRoot, diskBus, pciControllers, pciAddresses], { os: i440fx, devices: { disks } })
  const onPci = (found.devices?.disks ?? []).filter(({ address }) => address?.type === 'pci')
  const bySlot = onPci.toSorted((a, b) => Number(a.address?.slot) - Number(b.address?.slot))
  expect(bySlot.map(({ target }) => target?.dev).join(' ')).toBe(expected)
})

test('a machine without PCI has no PCI addresses', () => {
  expect(places(isapc, { interfaces: [card('ne2k_isa')] })).toEqual(['interfaces[0]'])
})

test('devices that are not on PCI, or have an address of another type, get no PCI address', () => {
  const devices: Devices = {
    disks: [{ target: { dev: 'sda', bus: 'sata' } }, { ...disk('vda'), address: { type: 'virtio-mmio' } }],
    interfaces: [card('usb-net')],
    sounds: [{ model: 'usb' }, { model: 'sb16' }],
    videos: [{ model: { type: 'ramfb' } }],
    watchdogs: [{ model: 'itco' }],
  }
  expect(applied([pciAddresses], { os: q35, devices }).devices).toEqual(devices)
})

describe('ports for disks that are attached later', () => {
  const withPorts = [...rules, hotPlugPort]
  /** The number of root ports, and of those to which nothing is connected. */
  const portsOf = ({ devices = {} }: Domain) => {
    const ports = (devices.controllers ?? []).filter(({ model }) => model === 'pcie-root-port')
    const used = new Set(
      Object.values(devices).flatMap((all: unknown) =>
        (Array.isArray(all) ? all : [all]).flatMap(({ address }: { address?: { type: string; bus: number } }) =>
          address?.type === 'pci' ? [address.bus] : [],
        ),
      ),
    )
    return { all: ports.length, free: ports.filter(({ index }) => !used.has(Number(index))).length }
  }
  const serial = { type: 'virtio-serial', index: 0 } as const
  const virtio: Devices = { controllers: [serial], disks: [disk('vda')] }

  test.each<[string, Domain['os'] & object, Devices, { all: number; free: number }]>([
    ['a machine with devices', q35, virtio, { all: 6, free: 4 }],
    ['a machine without devices', q35, {}, { all: 4, free: 4 }],
    [
      'a machine whose ports the user states',
      q35,
      { ...virtio, controllers: [serial, { type: 'pci', index: 1, model: 'pcie-root-port' }] },
      { all: 2, free: 0 },
    ],
    [
      'a machine whose root the user states',
      q35,
      { controllers: [{ type: 'pci', index: 0, model: 'pcie-root' }] },
      { all: 4, free: 4 },
    ],
    ['a machine without PCI Express', i440fx, virtio, { all: 0, free: 0 }],
    ['a machine without PCI', isapc, {}, { all: 0, free: 0 }],
  ])('%s', (_, os, devices, expected) => {
    const domain = applied(withPorts, { os, devices }, { isOurs: true })
    expect(portsOf(domain)).toEqual(expected)
    expect(applied(withPorts, domain, { isOurs: true })).toEqual(domain)
  })

  test('the places of other devices are those that libvirt gives them', () => {
    const libvirts = applied(rules, { os: q35, devices: virtio }).devices ?? {}
    const ours = applied(withPorts, { os: q35, devices: virtio }, { isOurs: true }).devices ?? {}
    const { controllers = [], ...others } = libvirts
    expect(ours).toMatchObject(others)
    expect(ours.controllers?.slice(0, controllers.length)).toEqual(controllers)
    expect(ours.controllers?.slice(controllers.length)).toEqual(
      [4, 5, 6].map((index) => ({
        type: 'pci',
        index,
        model: 'pcie-root-port',
        address: { type: 'pci', domain: 0, bus: 0, slot: 1, function: index - 1 },
      })),
    )
  })

  test('where libvirt judges, libvirt’s only', () => {
    expect(portsOf(applied(withPorts, { os: q35, devices: virtio }))).toEqual({ all: 3, free: 1 })
  })
})
