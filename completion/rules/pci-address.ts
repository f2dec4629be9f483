import type { Domain } from '../../api/domain/domain.ts'
import { chipsetOf, hasPci } from '../defaults/machine.ts'
import { connect, isPciModel, slotsOf, type PciAddress, type PciModel } from '../defaults/pci-bus.ts'
import { pciDevices } from '../defaults/pci.ts'
import { numberOf } from '../defaults/reading.ts'
import { allDevices, list } from './device.ts'
import { duplicate, forbidden, invalid, notFound } from './finding.ts'
import { isRoot } from './pci-controller.ts'
import { example, type Finding, type Rule } from './rule.ts'

const known = new WeakMap<Domain, ReturnType<typeof pciDevices>>()

/** The devices of a domain, computed once for all rules. */
const devicesOf = (domain: Domain): ReturnType<typeof pciDevices> => {
  const devices = known.get(domain) ?? pciDevices(domain)
  known.set(domain, devices)
  return devices
}

const nic = (address: object): Domain => ({
  devices: { interfaces: [{ type: 'user', model: { type: 'virtio' }, address: { type: 'pci', ...address } }] },
})

const pciAddressRange: Rule = {
  id: 'pci-address-range',
  description:
    'A PCI address must have a bus of at most 0xff, a slot of at most 0x1f, and domain 0, the only one of a PC.',
  *check({ domain }) {
    for (const { at, device } of allDevices(domain)) {
      const { address } = device
      if (address?.type !== 'pci') continue
      const [bus = 0, slot = 0, segment = 0] = [address.bus, address.slot, address.domain].map(numberOf)
      if (bus > 0xff) yield invalid(`${at}.address.bus`, address.bus, 'must be at most 0xff, the highest PCI bus')
      if (slot > 0x1f) yield invalid(`${at}.address.slot`, address.slot, 'must be at most 0x1f: a PCI bus has 32 slots')
      if (segment !== 0)
        yield invalid(`${at}.address.domain`, address.domain, 'must be 0: a PC has only one PCI domain')
      else if (address.slot !== undefined && bus === 0 && slot === 0) {
        const message = 'must not be 0 on bus 0: that is the host bridge, and libvirt would assign another address'
        yield invalid(`${at}.address.slot`, address.slot, message, 'omit the address to get a free one')
      }
    }
  },
  example: example(nic({ slot: 0x20 }), nic({ slot: 0x1e })),
}

/** A unique number for each address. */
const numberOfPlace = ({ bus, slot, function: part }: PciAddress): number => (part * 0x100 + bus) * 0x20 + slot

const shown = ({ bus, slot, function: part }: PciAddress): string =>
  `0000:${bus.toString(16).padStart(2, '0')}:${slot.toString(16).padStart(2, '0')}.${part}`

/** Devices of the chipset itself on the root bus: slot, function, name. */
const builtIn: { readonly [chipset: string]: readonly (readonly [number, number, string])[] } = {
  i440fx: [
    [1, 0, 'the ISA bridge of the chipset'],
    [1, 3, 'the power management of the chipset'],
  ],
  q35: [
    [0x1f, 0, 'the ISA bridge of the chipset'],
    [0x1f, 3, 'the SMBus of the chipset'],
  ],
}

const pciAddressUnique: Rule = {
  id: 'pci-address-unique',
  description: 'PCI addresses must be unique and must not be those of devices of the chipset.',
  *check({ domain, originOf }) {
    const taken = new Map<number, string>()
    for (const [slot, part, what] of builtIn[chipsetOf(domain)] ?? []) {
      taken.set(numberOfPlace({ bus: 0, slot, function: part }), what)
    }
    for (const { at, address } of devicesOf(domain)) {
      if (!address) continue
      const place = numberOfPlace(address)
      const field = `spec.domain.${at}.address`
      const other = taken.get(place)
      if (other === undefined) {
        taken.set(place, field)
        continue
      }
      // Report the address that was written rather than the one that completion chose.
      const isDefault = originOf(`${field}.slot`).by === 'default'
      const [reported, owner] = isDefault && other.startsWith('spec.') ? [other, field] : [field, other]
      yield duplicate(
        reported,
        shown(address),
        `is already the PCI address of ${owner}`,
        'omit the address to get a free one',
      )
    }
  },
  example: example(
    { devices: { interfaces: [7, 7].map((slot) => ({ type: 'user', address: { type: 'pci', slot } })) } },
    { devices: { interfaces: [7, 8].map((slot) => ({ type: 'user', address: { type: 'pci', slot } })) } },
  ),
}

const endpoints = connect.pciDevice | connect.pcieDevice

const wanted: readonly (readonly [number, string])[] = [
  [connect.pcieRootPort, 'a pcie-root-port'],
  [connect.switchUpstream, 'a pcie-switch-upstream-port'],
  [connect.switchDownstream, 'a pcie-switch-downstream-port'],
  [connect.dmiBridge, 'a dmi-to-pci-bridge'],
  [connect.pciExpander, 'a pci-expander-bus'],
  [connect.pcieExpander, 'a pcie-expander-bus'],
  [connect.pciBridge, 'a pci-bridge'],
  [connect.pcieToPciBridge, 'a pcie-to-pci-bridge'],
  [connect.pcieDevice, 'a PCI Express device'],
  [connect.pciDevice, 'a PCI device'],
]

const controllersOf = (domain: Domain): ReadonlyMap<number, PciModel> => {
  const models = new Map<number, PciModel>()
  for (const { index, model } of list(domain, 'controllers')) {
    const number = numberOf(index)
    if (number !== undefined && isPciModel(model)) models.set(number, model)
  }
  return models
}

const pciConnection: Rule = {
  id: 'pci-connection',
  description:
    'The PCI address of a device must name an existing controller, one of its slots, and a bus that takes such devices.',
  *check({ domain }) {
    if (!hasPci(domain)) return
    const models = controllersOf(domain)
    for (const { at, needs, address } of devicesOf(domain)) {
      if (!address || needs === 0) continue
      yield* checkAddress(`spec.domain.${at}.address`, needs, address, models)
    }
  },
  example: example(
    {
      devices: {
        controllers: [
          { type: 'pci', index: 1, model: 'pci-bridge' },
          { type: 'pci', index: 2, model: 'pci-expander-bus', address: { type: 'pci', bus: 1, slot: 1 } },
        ],
      },
    },
    {
      devices: {
        controllers: [
          { type: 'pci', index: 1, model: 'pci-bridge' },
          { type: 'pci', index: 2, model: 'pci-expander-bus', address: { type: 'pci', bus: 0, slot: 7 } },
        ],
      },
    },
  ),
}

function* checkAddress(
  field: string,
  needs: number,
  address: { readonly bus: number; readonly slot: number },
  models: ReadonlyMap<number, PciModel>,
): Iterable<Finding> {
  const model = models.get(address.bus)
  if (model === undefined) {
    yield notFound(`${field}.bus`, address.bus, 'no PCI controller has this index')
    return
  }
  const { offers, firstSlot, lastSlot } = slotsOf(model)
  // An address that the user writes can put a PCI device into a PCI Express slot and vice versa.
  const taken = offers & endpoints ? offers | endpoints : offers
  const kinds = wanted.filter(([kind]) => needs & kind)
  if (!kinds.some(([kind]) => taken & kind)) {
    const what = kinds.map(([, name]) => name).join(' or ')
    yield invalid(`${field}.bus`, address.bus, `is a ${model}, which does not take ${what}`)
    return
  }
  if (address.slot < firstSlot || address.slot > lastSlot) {
    const range = firstSlot === lastSlot ? `${firstSlot}` : `from ${firstSlot} to ${lastSlot}`
    yield invalid(`${field}.slot`, address.slot, `must be ${range} on a ${model}`)
  }
}

const pciFixedAddress: Rule = {
  id: 'pci-fixed-address',
  description: 'The IDE, USB and SATA controllers of the chipset have fixed PCI addresses.',
  *check({ domain }) {
    const chipset = chipsetOf(domain)
    for (const [index, controller] of list(domain, 'controllers').entries()) {
      const { type, model, address } = controller
      if (numberOf(controller.index) !== 0 || address?.type !== 'pci') continue
      const ofPiix3 =
        type === 'ide'
          ? { bus: 0, slot: 1, function: 1 }
          : type === 'usb' && (model ?? 'piix3-uhci') === 'piix3-uhci'
            ? { bus: 0, slot: 1, function: 2 }
            : undefined
      const ofQ35 = type === 'sata' ? { bus: 0, slot: 0x1f, function: 2 } : undefined
      const fixed = chipset === 'i440fx' ? ofPiix3 : chipset === 'q35' ? ofQ35 : undefined
      const given = {
        bus: numberOf(address.bus) ?? 0,
        slot: numberOf(address.slot) ?? 0,
        function: numberOf(address.function) ?? 0,
      }
      const field = `spec.domain.devices.controllers[${index}].address`
      if (chipset === 'q35' && ofPiix3 !== undefined && shown(given) === shown(ofPiix3)) {
        const message = 'is the address of this controller in the chipset of machine type pc, not of q35'
        yield invalid(field, shown(given), message, 'remove the address, so that a free one is assigned')
      }
      if (!fixed || shown(given) === shown(fixed) || shown(given) === shown({ bus: 0, slot: 0, function: 0 })) continue
      yield invalid(field, shown(given), `must be ${shown(fixed)}, the address of this controller in the chipset`)
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'ide', index: 0, address: { type: 'pci', slot: 7 } }] } },
    { devices: { controllers: [{ type: 'ide', index: 0, address: { type: 'pci', slot: 1, function: 1 } }] } },
  ),
}

const pciNone: Rule = {
  id: 'pci-none',
  description: 'Machine types without a PCI bus (isapc, microvm) do not support PCI devices.',
  *check({ domain }) {
    const machine = chipsetOf(domain)
    if (machine !== 'isapc' && machine !== 'microvm') return
    if (list(domain, 'controllers').some(({ model }) => isRoot(model))) return
    for (const { at, needs } of devicesOf(domain)) {
      if (needs === 0) continue
      const isBalloon = at === 'devices.memballoon'
      const suggestion = isBalloon ? 'memballoon: {model: none}' : 'remove the device, or use machine type pc or q35'
      yield forbidden(
        `spec.domain.${at}`,
        undefined,
        `is a PCI device, but machine type ${machine} has no PCI bus`,
        suggestion,
      )
    }
  },
  example: example(
    { os: { type: { os: 'hvm', machine: 'isapc' } } },
    { os: { type: { os: 'hvm', machine: 'isapc' } }, devices: { memballoon: { model: 'none' } } },
  ),
}

const acpiIndexUnique: Rule = {
  id: 'acpi-index-unique',
  description: 'ACPI indexes must be unique; only PCI devices have one.',
  about: ['acpi'],
  *check({ domain }) {
    const taken = new Map<number, string>()
    for (const { at, device } of allDevices(domain)) {
      const index = numberOf(device.acpi?.index)
      if (index === undefined) continue
      const other = taken.get(index)
      if (other !== undefined) yield duplicate(`${at}.acpi.index`, index, `is already the ACPI index of ${other}`)
      else taken.set(index, at)
      const type = device.address?.type
      if (type !== undefined && type !== 'pci') {
        yield forbidden(`${at}.acpi.index`, index, 'can only be set for PCI devices')
      }
    }
  },
  example: example(
    { devices: { interfaces: [1, 1].map((index) => ({ type: 'user', acpi: { index } })) } },
    { devices: { interfaces: [1, 2].map((index) => ({ type: 'user', acpi: { index } })) } },
  ),
}

export const pciAddressRules: readonly Rule[] = [
  pciAddressRange,
  pciAddressUnique,
  pciConnection,
  pciFixedAddress,
  pciNone,
  acpiIndexUnique,
]
