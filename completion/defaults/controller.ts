import type { Domain } from '../../api/domain/domain.ts'
import { offers } from '../capabilities.ts'
import { chipsetOf } from './machine.ts'
import { numberOf } from './reading.ts'
import { append, each, fill, list, type Addition, type DeviceOf, type Devices, type Rule, type Values } from './rule.ts'
import { inLibvirtOrder } from './stored-order.ts'
import { isUsbOff } from './usb.ts'

type Controller = DeviceOf<'controllers'>
type ControllerType = NonNullable<Controller['type']>

const indexOf = ({ index }: Controller): number => numberOf(index) ?? 0

export const hasController = (domain: Domain, type: ControllerType, index: number): boolean =>
  list(domain, 'controllers').some((one) => one.type === type && indexOf(one) === index)

/** The controller, if it is missing. */
const unlessThere = (
  domain: Domain,
  devices: Devices,
  type: ControllerType,
  index: number,
  more: Values<Controller> = {},
): Addition[] =>
  hasController(domain, type, index) ? [] : [append(devices, 'controllers', { type, index, ...more } as object)]

export const controllerType = each('controllers')('controller-type', 'A controller without type is for IDE.', () => ({
  type: 'ide',
}))

const usb2 = new Set(['ich9-ehci1', 'ich9-uhci1', 'ich9-uhci2', 'ich9-uhci3'])
const isUsb2 = ({ type, model }: Controller): boolean => type === 'usb' && usb2.has(model ?? '')

/** The first port of the companion's controller that it serves. */
const startPorts: { readonly [model: string]: number } = { 'ich9-uhci1': 0, 'ich9-uhci2': 2, 'ich9-uhci3': 4 }

export const usbCompanion = each('controllers')(
  'usb-companion',
  'The USB 1 parts of a USB 2 controller serve two of its ports each.',
  ({ type, model, master }) => {
    const own = master ? 0 : startPorts[model ?? '']
    const startport = type === 'usb' ? own : undefined
    return startport === undefined ? undefined : { master: { startport } }
  },
)

export const controllerIndex: Rule = {
  name: 'controller-index',
  description:
    'A controller without index gets the first one that is free among its type; the parts of a USB 2 controller that follow each other share one.',
  about: ['controllers'],
  apply: (domain) => {
    const additions: Addition[] = []
    const controllers = list(domain, 'controllers')
    if (controllers.every(({ index }) => index !== undefined)) return additions
    const indexes = new Map<Controller, number>()
    for (const one of controllers) if (one.index !== undefined) indexes.set(one, indexOf(one))
    let previous: Controller | undefined
    for (const { item: one } of inLibvirtOrder('devices.controllers', controllers)) {
      if (!indexes.has(one)) {
        const index = companionIndex(one, previous, indexes) ?? freeIndex(one, indexes)
        indexes.set(one, index)
        additions.push(fill(one, { index }))
      }
      previous = one
    }
    return additions
  },
}

const companionIndex = (
  one: Controller,
  previous: Controller | undefined,
  indexes: ReadonlyMap<Controller, number>,
): number | undefined => {
  if (!previous || !isUsb2(one) || !isUsb2(previous)) return undefined
  const index = indexes.get(previous)
  const hasSame = [...indexes].some(
    ([other, taken]) => other.type === 'usb' && taken === index && other.model === one.model,
  )
  return hasSame ? undefined : index
}

const freeIndex = (one: Controller, indexes: ReadonlyMap<Controller, number>): number => {
  const taken = new Set<number>()
  for (const [other, index] of indexes) if (other.type === one.type) taken.add(index)
  let index = 0
  while (taken.has(index)) index += 1
  return index
}

export const usbController: Rule = {
  name: 'usb-controller',
  description:
    'A machine with USB has a controller, unless one of model `none` switches USB off: q35 an xHCI one if QEMU has it, else EHCI; others the one that the chipset has.',
  apply: (domain, { capabilities }) => {
    const { devices } = domain
    const chipset = chipsetOf(domain)
    if (!devices || isUsbOff(domain) || chipset === 'isapc') return []
    if (chipset !== 'q35') return unlessThere(domain, devices, 'usb', 0)
    const model = (['qemu-xhci', 'nec-xhci', 'ich9-ehci1'] as const).find((one) =>
      offers(capabilities, one === 'ich9-ehci1' ? 'ich9-usb-ehci1' : one === 'nec-xhci' ? 'nec-usb-xhci' : one),
    )
    return model === undefined ? [] : unlessThere(domain, devices, 'usb', 0, { model })
  },
}

export const sataController: Rule = {
  name: 'sata-controller',
  description: 'Every q35 machine has a SATA controller.',
  apply: (domain) =>
    domain.devices && chipsetOf(domain) === 'q35' ? unlessThere(domain, domain.devices, 'sata', 0) : [],
}

export const pciRoot: Rule = {
  name: 'pci-root',
  description: 'Every PC with PCI has its root: `pci-root` on i440fx, `pcie-root` on q35.',
  apply: (domain) => {
    const chipset = chipsetOf(domain)
    if (!domain.devices || (chipset !== 'i440fx' && chipset !== 'q35')) return []
    const model = chipset === 'q35' ? 'pcie-root' : 'pci-root'
    return unlessThere(domain, domain.devices, 'pci', 0, { model })
  },
}

export const usbModel = each('controllers')(
  'usb-controller-model',
  'A USB controller without model is the one of the PIIX3 chip, else OHCI.',
  ({ type, model }, _, { capabilities }) => {
    if (type !== 'usb' || model !== undefined) return undefined
    if (offers(capabilities, 'piix3-usb-uhci')) return { model: 'piix3-uhci' }
    return offers(capabilities, 'pci-ohci') ? { model: 'pci-ohci' } : undefined
  },
)

export const scsiModel = each('controllers')(
  'scsi-controller-model',
  'A SCSI controller without a model is an LSI 53C895A, or a virtio one if QEMU does not have that.',
  ({ type, model }, _, { capabilities }) =>
    type === 'scsi' && (model === undefined || model === 'auto')
      ? { model: offers(capabilities, 'lsi') ? 'lsilogic' : 'virtio-scsi' }
      : undefined,
)

/** Controllers with a drive address: one of the type for each number that a disk uses, and those below it. */
const diskControllers = [
  ['scsi', 'scsi'],
  ['fdc', 'fdc'],
  ['ide', 'ide'],
  ['sata', 'sata'],
] as const

/** No machine has more; rules report an address with a higher number. */
const maxController = 255

const lastOf = (used: readonly number[]): number => Math.max(-1, ...used.filter((index) => index <= maxController))

export const diskController: Rule = {
  name: 'disk-controller',
  description: 'Every disk on SCSI, IDE, SATA or a floppy bus has its controller, and so have the numbers below.',
  about: ['disks'],
  *apply(domain) {
    const { devices } = domain
    if (!devices) return
    for (const [type, bus] of diskControllers) {
      const used = list(domain, 'disks').flatMap(({ target, address }) =>
        target?.bus === bus && address?.type === 'drive' ? [numberOf(address.controller) ?? 0] : [],
      )
      for (let index = 0; index <= lastOf(used); index += 1) yield* unlessThere(domain, devices, type, index)
    }
  },
}

export const virtioSerialController: Rule = {
  name: 'virtio-serial-controller',
  description: 'Channels and consoles on virtio have their controller.',
  about: ['channels', 'consoles'],
  *apply(domain) {
    const { devices } = domain
    if (!devices) return
    for (const one of [...list(domain, 'channels'), ...list(domain, 'consoles')]) {
      if (one.target?.type !== 'virtio') continue
      const index = one.address?.type === 'virtio-serial' ? (numberOf(one.address.controller) ?? 0) : 0
      yield* unlessThere(domain, devices, 'virtio-serial', index)
    }
  },
}

export const smartcardController: Rule = {
  name: 'ccid-controller',
  description: 'Smart cards have their controller.',
  about: ['smartcards'],
  *apply(domain) {
    const { devices } = domain
    if (!devices) return
    for (const { address } of list(domain, 'smartcards')) {
      const index = address?.type === 'ccid' ? (numberOf(address.controller) ?? 0) : 0
      yield* unlessThere(domain, devices, 'ccid', index)
    }
  },
}

export const hostdevController: Rule = {
  name: 'hostdev-scsi-controller',
  description: 'SCSI devices of the host have controllers, of the model that the last of those in use has.',
  about: ['hostdevs'],
  *apply(domain) {
    const { devices } = domain
    if (!devices) return
    const controllers = list(domain, 'controllers').filter(({ type }) => type === 'scsi')
    let last = -1
    let model: Controller['model']
    for (const { type, address } of list(domain, 'hostdevs')) {
      // One without an address will be on the first that has room.
      const index = address?.type === 'drive' ? (numberOf(address.controller) ?? 0) : 0
      if (type !== 'scsi' || index <= last || index > maxController) continue
      last = index
      model = controllers.find((one) => indexOf(one) === index)?.model ?? model
    }
    for (let index = 0; index <= last; index += 1) {
      yield* unlessThere(domain, devices, 'scsi', index, model === undefined ? {} : { model })
    }
  },
}

/** Again, when devices of the host have got their addresses. */
export const fullHostdevController: Rule = {
  ...hostdevController,
  name: 'hostdev-scsi-controller-full',
  description: 'Where the SCSI controllers are full, there is one more for devices of the host.',
}

/** The chip of each model of PCI controller. */
const chips: { readonly [model: string]: NonNullable<NonNullable<Controller['modelName']>['name']> } = {
  'pci-bridge': 'pci-bridge',
  'dmi-to-pci-bridge': 'i82801b11-bridge',
  'pcie-to-pci-bridge': 'pcie-pci-bridge',
  'pcie-root-port': 'pcie-root-port',
  'pcie-switch-upstream-port': 'x3130-upstream',
  'pcie-switch-downstream-port': 'xio3130-downstream',
  'pci-expander-bus': 'pxb',
  'pcie-expander-bus': 'pxb-pcie',
}

export const pciChip = each('controllers')(
  'pci-controller-chip',
  'Each kind of PCI controller is a certain chip.',
  ({ type, model }, _, { capabilities }) => {
    if (type !== 'pci') return undefined
    const name = model === 'pcie-root-port' && !offers(capabilities, 'pcie-root-port') ? 'ioh3420' : chips[model ?? '']
    return name === undefined ? undefined : { modelName: { name } }
  },
)

export const pciTarget = each('controllers')(
  'pci-controller-target',
  'Bridges and ports are in the chassis of their index; the port number follows from where the port sits.',
  (controller) => {
    const { type, model, address } = controller
    if (type !== 'pci') return undefined
    const index = indexOf(controller)
    const [slot, part] = [numberOf(address?.slot) ?? 0, numberOf(address?.function) ?? 0]
    if (model === 'pci-bridge') return { target: { chassisNr: index } }
    if (model === 'pcie-root-port') return { target: { chassis: index, port: slot * 8 + part } }
    return model === 'pcie-switch-downstream-port' ? { target: { chassis: index, port: slot } } : undefined
  },
)

/** Bus numbers are given from the top, each with room for the one bus behind it. */
const firstUnusedBusNumber = 256

export const expanderBusNumber: Rule = {
  name: 'pci-expander-bus-number',
  description: 'An expander bus takes the highest bus number that leaves room for a bus behind it.',
  about: ['controllers'],
  *apply(domain) {
    const controllers = list(domain, 'controllers')
    for (const one of controllers) {
      if (!isExpander(one) || one.target?.busNr !== undefined) continue
      const taken = controllers.flatMap((other) =>
        isExpander(other) && other.target?.busNr !== undefined ? [numberOf(other.target.busNr) ?? 0] : [],
      )
      const busNr = Math.min(firstUnusedBusNumber, ...taken) - 2
      yield fill(one, { target: { busNr } })
    }
  },
}

const isExpander = ({ model }: Controller): boolean => model === 'pci-expander-bus' || model === 'pcie-expander-bus'
