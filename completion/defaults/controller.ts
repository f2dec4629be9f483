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

const hasController = (domain: Domain, type: ControllerType, index: number): boolean =>
  list(domain, 'controllers').some((one) => one.type === type && indexOf(one) === index)

/** Adds the controller if it is missing. */
const unlessThere = (
  domain: Domain,
  devices: Devices,
  type: ControllerType,
  index: number,
  more: Values<Controller> = {},
): Addition[] =>
  hasController(domain, type, index) ? [] : [append(devices, 'controllers', { type, index, ...more } as object)]

export const controllerType = each('controllers')('controller-type', 'The type of a controller is `ide`.', () => ({
  type: 'ide',
}))

const usb2 = new Set(['ich9-ehci1', 'ich9-uhci1', 'ich9-uhci2', 'ich9-uhci3'])
const isUsb2 = ({ type, model }: Controller): boolean => type === 'usb' && usb2.has(model ?? '')

/** The first port of the USB 2 controller that each companion serves. */
const startPorts: { readonly [model: string]: number } = { 'ich9-uhci1': 0, 'ich9-uhci2': 2, 'ich9-uhci3': 4 }

export const usbCompanion = each('controllers')(
  'usb-companion',
  'Each USB 1 companion of a USB 2 controller serves two of its ports.',
  ({ type, model, master }) => {
    const own = master ? 0 : startPorts[model ?? '']
    const startport = type === 'usb' ? own : undefined
    return startport === undefined ? undefined : { master: { startport } }
  },
)

export const controllerIndex: Rule = {
  name: 'controller-index',
  description:
    'A controller without an index gets the first free one of its type; consecutive parts of a USB 2 controller share an index.',
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
    'A machine with USB has a USB controller, unless one of model `none` disables USB: on q35 xHCI if QEMU has it, else EHCI; on others that of the chipset.',
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
  description: 'Every PC with PCI has a root controller: `pci-root` on i440fx, `pcie-root` on q35.',
  apply: (domain) => {
    const chipset = chipsetOf(domain)
    if (!domain.devices || (chipset !== 'i440fx' && chipset !== 'q35')) return []
    const model = chipset === 'q35' ? 'pcie-root' : 'pci-root'
    return unlessThere(domain, domain.devices, 'pci', 0, { model })
  },
}

export const usbModel = each('controllers')(
  'usb-controller-model',
  'The model of a USB controller is `piix3-uhci` if QEMU has it, else `pci-ohci`.',
  ({ type, model }, _, { capabilities }) => {
    if (type !== 'usb' || model !== undefined) return undefined
    if (offers(capabilities, 'piix3-usb-uhci')) return { model: 'piix3-uhci' }
    return offers(capabilities, 'pci-ohci') ? { model: 'pci-ohci' } : undefined
  },
)

export const scsiModel = each('controllers')(
  'scsi-controller-model',
  'The model of a SCSI controller is `lsilogic` (LSI 53C895A) if QEMU has it, else `virtio-scsi`.',
  ({ type, model }, _, { capabilities }) =>
    type === 'scsi' && (model === undefined || model === 'auto')
      ? { model: offers(capabilities, 'lsi') ? 'lsilogic' : 'virtio-scsi' }
      : undefined,
)

/** Controller types and disk buses with drive addresses. All controllers up to the highest number in use are added. */
const diskControllers = [
  ['scsi', 'scsi'],
  ['fdc', 'fdc'],
  ['ide', 'ide'],
  ['sata', 'sata'],
] as const

/** No machine has more controllers. Rules report an address with a higher number. */
const maxController = 255

const lastOf = (used: readonly number[]): number => Math.max(-1, ...used.filter((index) => index <= maxController))

export const diskController: Rule = {
  name: 'disk-controller',
  description:
    'Every disk on a SCSI, IDE, SATA or floppy bus has a controller, and so does every lower controller number.',
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
  description: 'Virtio channels and consoles have a controller.',
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
  description: 'Smart cards have a controller.',
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
  description: 'SCSI host devices have controllers, whose model is that of the last existing one that they use.',
  about: ['hostdevs'],
  *apply(domain) {
    const { devices } = domain
    if (!devices) return
    const controllers = list(domain, 'controllers').filter(({ type }) => type === 'scsi')
    let last = -1
    let model: Controller['model']
    for (const { type, address } of list(domain, 'hostdevs')) {
      // A device without an address will use the first controller with a free unit.
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

/** Applied again after host devices have addresses. */
export const fullHostdevController: Rule = {
  ...hostdevController,
  name: 'hostdev-scsi-controller-full',
  description: 'If the SCSI controllers are full, another one is added for host devices.',
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
  'Each model of PCI controller has its own chip.',
  ({ type, model }, _, { capabilities }) => {
    if (type !== 'pci') return undefined
    const name = model === 'pcie-root-port' && !offers(capabilities, 'pcie-root-port') ? 'ioh3420' : chips[model ?? '']
    return name === undefined ? undefined : { modelName: { name } }
  },
)

export const pciTarget = each('controllers')(
  'pci-controller-target',
  'The chassis number of a bridge or port is its index; the port number follows from its address.',
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

/** Bus numbers are assigned from the top, each with room for one bus behind it. */
const firstUnusedBusNumber = 256

export const expanderBusNumber: Rule = {
  name: 'pci-expander-bus-number',
  description: 'An expander bus gets the highest bus number that leaves room for a bus behind it.',
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
