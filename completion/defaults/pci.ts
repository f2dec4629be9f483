import type { Domain } from '../../api/domain/domain.ts'
import { isHostUsbCard } from './interface.ts'
import { chipsetOf, type Chipset } from './machine.ts'
import {
  needsOf,
  connect,
  createBuses,
  hasFreeSlot,
  hasOtherFunctions,
  isPciModel,
  isSlotUsed,
  reserve,
  reserveNext,
  type Buses,
  type PciAddress,
} from './pci-bus.ts'
import {
  connectionsOf,
  controllerConnection,
  hostdevConnection,
  interfaceConnection,
  iommuConnection,
  memoryConnection,
  panicConnection,
  soundConnection,
  videoConnection,
  virtioConnection,
  type Connections,
} from './pci-connection.ts'
import { isOn, numberOf } from './reading.ts'
import { append, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'
import { inLibvirtOrder } from './stored-order.ts'

type Controller = DeviceOf<'controllers'>
type Address = NonNullable<Controller['address']>

/** A device that is or will be on a PCI bus. */
interface PciDevice {
  readonly at: string
  readonly device: { readonly address?: Address }
  /** What it requires of a slot; 0 for a root, which has none. */
  readonly needs: number
  /** Its address, set by the user or assigned here. */
  address: PciAddress | undefined
  /** Whether the address was assigned here. */
  isNew: boolean
  /** Allows further functions in the slot, whether they exist or not. */
  multifunction?: true
}

/** All devices on PCI, grouped by the order in which they get addresses. */
interface Plan {
  readonly chipset: Chipset
  /** Whether the root bus is PCI Express. */
  readonly isExpress: boolean
  readonly controllers: readonly (PciDevice & { readonly controller: Controller })[]
  readonly bridges: readonly (PciDevice & { readonly controller: Controller })[]
  readonly videos: readonly PciDevice[]
  readonly sounds: readonly (PciDevice & { readonly isIch9: boolean })[]
  /** The other devices in the order of assignment: before the controllers, and after them. */
  readonly before: readonly PciDevice[]
  readonly after: readonly PciDevice[]
}

/** The highest numbers of PCI buses and slots. Rules report higher ones. */
const lastBus = 0xff
const lastSlot = 0x1f

/** The address that is set; undefined if there is none, or only its type, or if it is invalid. */
const written = (address: Address | undefined): PciAddress | undefined => {
  if (address?.type !== 'pci') return undefined
  const [bus, slot] = [numberOf(address.bus) ?? 0, numberOf(address.slot) ?? 0]
  if (bus > lastBus || slot > lastSlot) return undefined
  return bus === 0 && slot === 0 && (numberOf(address.domain) ?? 0) === 0
    ? undefined
    : { bus, slot, function: numberOf(address.function) ?? 0 }
}

/** Whether the device is on PCI: a device with an address of another type is not. */
const mayBePci = (address: Address | undefined): boolean => address?.type === undefined || address.type === 'pci'

/** The PCI root, which users can also add to machines that have none. */
const rootOf = (domain: Domain): Controller | undefined =>
  list(domain, 'controllers').find(({ type, index }) => type === 'pci' && (numberOf(index) ?? 0) === 0)

/** @param read the domain before any default was filled in */
const planOf = (domain: Domain, read: Domain): Plan => {
  const { devices } = domain
  const chipset = chipsetOf(domain)
  const isExpress = rootOf(domain)?.model === 'pcie-root'
  const connections = connectionsOf(isExpress)
  const controllers = sortedControllers(domain)
  const videos = sortedVideos(domain, connections)
  return {
    chipset,
    isExpress,
    bridges: controllers.filter(({ controller: { type } }) => type === 'pci'),
    controllers: controllers
      .filter(({ controller: { type } }) => type !== 'pci')
      .map((one) => ({ ...one, needs: controllerConnection(one.controller, connections) }))
      .filter(({ needs }) => needs !== 0),
    videos,
    sounds: devicesIn('sounds', devices?.sounds, (sound) => soundConnection(sound, connections)).map((one) => ({
      ...one,
      isIch9: one.source.model === 'ich9',
    })),
    before: [
      ...devicesIn('filesystems', devices?.filesystems, ({ model, driver }) =>
        driver?.type === 'mtp' ? 0 : virtioConnection(model, connections),
      ),
      ...devicesIn('interfaces', devices?.interfaces, ({ type, model }) =>
        type === 'hostdev' ? undefined : interfaceConnection(model?.type, connections),
      ),
    ],
    after: [...sortedDisks(domain, read, connections), ...laterDevices(domain, connections, videos)],
  }
}

const laterDevices = (domain: Domain, connections: Connections, videos: readonly PciDevice[]): PciDevice[] => {
  const { devices = {} } = domain
  const virtio = (model: string | undefined): number => virtioConnection(model, connections)
  const { memballoon, vsock, iommu, pstore } = devices
  return [
    ...devicesIn('interfaces', devices.interfaces, (one) =>
      one.type === 'hostdev' && !isHostUsbCard(one) ? connections.pcie : undefined,
    ),
    ...devicesIn('hostdevs', devices.hostdevs, (hostdev) => hostdevConnection(hostdev, connections)),
    ...single('memballoon', memballoon, memballoon?.model === 'none' ? 0 : virtio(memballoon?.model)),
    ...devicesIn('rngs', devices.rngs, ({ model }) => virtio(model)),
    ...devicesIn('watchdogs', devices.watchdogs, ({ model }) => (model === 'i6300esb' ? connections.pci : 0)),
    ...videos,
    ...devicesIn('shmems', devices.shmems, () => connections.pci),
    ...devicesIn('inputs', devices.inputs, ({ bus, model }) => (bus === 'virtio' ? virtio(model) : 0)),
    ...devicesIn('serials', devices.serials, ({ target }) => (target?.type === 'pci-serial' ? connections.pci : 0)),
    ...single('vsock', vsock, virtio(vsock?.model)),
    ...devicesIn('memories', devices.memories, ({ model }) => memoryConnection(model, connections)),
    ...single('iommu', iommu, iommuConnection(iommu?.model, connections)),
    ...devicesIn('cryptos', devices.cryptos, () => connections.pci),
    ...devicesIn('panics', devices.panics, ({ model }) => panicConnection(model, connections)),
    ...single('pstore', pstore, connections.pci & ~connect.automatic),
  ]
}

const pciDevice = (at: string, device: { readonly address?: Address }, needs: number): PciDevice => ({
  at,
  device,
  needs,
  address: written(device.address),
  isNew: false,
})

const devicesIn = <D extends { readonly address?: Address }>(
  key: string,
  devices: readonly D[] | undefined,
  /** undefined if the device belongs to another list. */
  needsOfDevice: (device: D) => number | undefined,
): (PciDevice & { readonly source: D })[] => {
  const found: (PciDevice & { readonly source: D })[] = []
  devices?.forEach((source, index) => {
    const needs = needsOfDevice(source)
    // A device that is on no PCI bus but has an address on one still occupies it.
    if (needs === undefined || (needs === 0 && !written(source.address)) || !mayBePci(source.address)) return
    found.push({ ...pciDevice(`devices.${key}[${index}]`, source, needs), source })
  })
  return found
}

const single = (key: string, device: { readonly address?: Address } | undefined, needs: number): PciDevice[] =>
  device && needs !== 0 && mayBePci(device.address) ? [pciDevice(`devices.${key}`, device, needs)] : []

/** Addresses are assigned in libvirt's order of the list, not in the stored order. */
const sortedControllers = (domain: Domain): (PciDevice & { controller: Controller })[] =>
  inLibvirtOrder('devices.controllers', list(domain, 'controllers'))
    .filter(({ item }) => mayBePci(item.address))
    .map(({ item, index }) => ({
      ...pciDevice(`devices.controllers[${index}]`, item, isPciModel(item.model) ? needsOf(item.model) : 0),
      controller: item,
    }))

/**
 * libvirt sorts disks while it reads them, by the buses that are set at that time, and assigns addresses once all have
 * one.
 */
const sortedDisks = (domain: Domain, read: Domain, connections: Connections): PciDevice[] => {
  const disks = list(domain, 'disks')
  return inLibvirtOrder(
    'devices.disks',
    // A new object for each disk, because the domain that was read may share one in two places.
    list(read, 'disks').map(({ target }) => ({ target })),
  ).flatMap(({ index }) => {
    const disk = disks[index]
    return disk?.target?.bus === 'virtio' && mayBePci(disk.address)
      ? [pciDevice(`devices.disks[${index}]`, disk, virtioConnection(disk.model, connections))]
      : []
  })
}

/** The card that the firmware uses comes first. */
const sortedVideos = (domain: Domain, connections: Connections): PciDevice[] => {
  const videos = devicesIn('videos', domain.devices?.videos, ({ model }) => videoConnection(model?.type, connections))
  const isPrimary = ({ source }: { source: DeviceOf<'videos'> }): boolean => isOn(source.model?.primary) === true
  return [...videos.filter(isPrimary), ...videos.filter((one) => !isPrimary(one))]
}

/** The buses, as defined by the controllers. Gaps in the numbers are filled as libvirt would. */
const busesOf = (plan: Plan, canGrow: boolean): Buses => {
  const known = new Map(
    plan.bridges
      .map(({ controller }) => [numberOf(controller.index) ?? 0, controller] as const)
      .filter(([index]) => index <= lastBus),
  )
  const models = Array.from({ length: Math.max(0, ...known.keys()) + 1 }, (_, index) => {
    const model = known.get(index)?.model
    const filler = index === 0 ? 'pci-root' : plan.isExpress ? 'pcie-root-port' : 'pci-bridge'
    return isPciModel(model) ? model : filler
  })
  return createBuses(models, canGrow)
}

/** Every device on a PCI bus, with what it requires of its slot (0: nothing) and its address. */
export const pciDevices = (domain: Domain): readonly Pick<PciDevice, 'at' | 'needs' | 'address'>[] =>
  all(planOf(domain, domain))

const all = (plan: Plan): PciDevice[] => [
  ...plan.bridges,
  ...plan.before,
  ...plan.sounds,
  ...plan.controllers,
  ...plan.after,
]

const take = (buses: Buses, one: PciDevice, address: PciAddress): void => {
  reserve(buses, address, one.needs)
  one.address = address
  one.isNew = true
}

const takeNext = (buses: Buses, one: PciDevice, wanted?: number): void => {
  if (one.address || one.needs === 0) return
  const address = reserveNext(buses, one.needs, wanted)
  if (!address) return
  one.address = address
  one.isNew = true
}

/** Assigns addresses to all devices on PCI that have none, as libvirt does. Modifies the devices of the plan. */
const assign = (plan: Plan, buses: Buses, isTrial: boolean): void => {
  for (const one of all(plan))
    if (one.address && !isOfChipset(plan.chipset, one)) reserve(buses, one.address, one.needs)
  if (plan.chipset === 'q35') placeQ35(plan, buses)
  if (plan.chipset === 'i440fx') placeI440fx(plan, buses)
  // libvirt reserves a slot for hot-plug.
  if (isTrial && !plan.isExpress && hasFreeSlot(buses)) reserveNext(buses, connect.pciDevice | connect.automatic)
  for (const bridge of plan.bridges) takeNext(buses, bridge)
  for (const one of plan.before) takeNext(buses, one)
  for (const one of plan.sounds) takeNext(buses, one)
  placeControllers(plan, buses)
  for (const one of plan.after) takeNext(buses, one)
}

/** The IDE and USB controllers of the PIIX3 chip, whose addresses are reserved with the chip. */
const isOfChipset = (chipset: Chipset, one: PciDevice): boolean =>
  chipset === 'i440fx' && one.address !== undefined && one.address.bus === 0 && one.address.slot === 1

const isPiix3 = ({ type, index, model }: Controller): boolean =>
  (numberOf(index) ?? 0) === 0 && (type === 'ide' || (type === 'usb' && (model ?? 'piix3-uhci') === 'piix3-uhci'))

const placeI440fx = (plan: Plan, buses: Buses): void => {
  for (const one of plan.controllers) {
    if (one.address || !isPiix3(one.controller)) continue
    one.address = { bus: 0, slot: 1, function: one.controller.type === 'ide' ? 1 : 2 }
    one.isNew = true
  }
  // The ISA bridge, IDE, USB and power management are one chip in one slot.
  for (const index of [0, 1, 2, 3]) reserve(buses, { bus: 0, slot: 1, function: index }, 0)
  placePrimaryVideo(plan, buses, 2)
}

const placePrimaryVideo = ({ videos: [primary] }: Plan, buses: Buses, slot: number): void => {
  if (!primary || primary.address) return
  const address = { bus: 0, slot, function: 0 }
  if (isSlotUsed(buses, address)) takeNext(buses, primary)
  else take(buses, primary, address)
}

/** Assigns the parts of the ICH9 chip the addresses that they have on a real board. */
const placeQ35 = (plan: Plan, buses: Buses): void => {
  for (const one of plan.controllers) {
    const { type, model, index } = one.controller
    if (one.address) continue
    if (type === 'sata' && (numberOf(index) ?? 0) === 0) take(buses, one, { bus: 0, slot: 0x1f, function: 2 })
    if (type === 'usb' && model === 'ich9-uhci1') {
      const free = [0x1d, 0x1a].find((slot) => !isSlotUsed(buses, { bus: 0, slot, function: 0 }))
      if (free === undefined) continue
      take(buses, one, { bus: 0, slot: free, function: 0 })
      one.multifunction = true
    }
  }
  const dmi = plan.bridges.find(({ controller, address }) => controller.model === 'dmi-to-pci-bridge' && !address)
  if (dmi && !isSlotUsed(buses, { bus: 0, slot: 0x1e, function: 0 })) {
    take(buses, dmi, { bus: 0, slot: 0x1e, function: 0 })
  }
  // The ISA bridge and the SMBus.
  for (const index of [0, 3]) reserve(buses, { bus: 0, slot: 0x1f, function: index }, 0)
  placePrimaryVideo(plan, buses, 1)
  const ich9 = plan.sounds.find(({ isIch9, address }) => isIch9 && !address)
  if (ich9 && !isSlotUsed(buses, { bus: 0, slot: 0x1b, function: 0 })) {
    take(buses, ich9, { bus: 0, slot: 0x1b, function: 0 })
  }
}

/** The functions in one slot of the parts of a USB 2 controller. */
const usb2Functions = new Map([
  ['ich9-uhci1', 0],
  ['ich9-uhci2', 1],
  ['ich9-uhci3', 2],
  ['ich9-ehci1', 7],
])

const placeControllers = (plan: Plan, buses: Buses): void => {
  /** The slot of each USB 2 controller, by its index. */
  const slots = new Map<number, PciAddress>()
  for (const { controller, address } of plan.controllers) {
    const index = numberOf(controller.index) ?? 0
    if (usb2Functions.has(controller.model ?? '') && address && !slots.has(index)) slots.set(index, address)
  }
  for (const one of plan.controllers) {
    const wanted = usb2Functions.get(one.controller.model ?? '')
    if (wanted === undefined) {
      takeNext(buses, one)
      continue
    }
    if (one.address) continue
    const index = numberOf(one.controller.index) ?? 0
    const slot = slots.get(index)
    if (slot) take(buses, one, { ...slot, function: wanted })
    else takeNext(buses, one, wanted)
    if (one.address) slots.set(index, one.address)
    if (wanted === 0) one.multifunction = true
  }
}

/**
 * Controllers to add so that every device gets an address: those that addresses refer to, and as many as are needed.
 */
const missingControllers = (domain: Domain, read: Domain): { readonly index: number; readonly model: string }[] => {
  const plan = planOf(domain, read)
  const numbers = new Set(plan.bridges.map(({ controller }) => numberOf(controller.index) ?? 0))
  const buses = busesOf(plan, true)
  assign(plan, buses, true)
  // A machine without a port of its own gets one that remains empty for hot-plug.
  if (plan.isExpress && Math.max(...numbers) <= 0 && buses.list.length > 1) {
    reserveNext(buses, connect.pcieDevice | connect.automatic)
  }
  const missing: { index: number; model: string }[] = []
  for (let index = 1; index < buses.list.length; index += 1) {
    const model = buses.list[index]?.model
    if (numbers.has(index) || model === undefined) continue
    missing.push({ index, model })
    if (needsOf(model) !== 0) reserveNext(buses, needsOf(model))
  }
  return missing
}

export const pciControllers: Rule = {
  name: 'pci-controllers',
  description:
    'PCI bridges and PCI Express root ports are added until every device has a slot. A machine with PCI Express but without a port of its own gets one more, left empty for hot-plug.',
  *apply(domain, _, read) {
    const { devices } = domain
    if (!devices || !rootOf(domain)) return
    for (const { index, model } of missingControllers(domain, read)) {
      yield append(devices, 'controllers', { type: 'pci', index, model } as object)
    }
  },
}

export const pciAddresses: Rule = {
  name: 'pci-address',
  description:
    'Every PCI device without an address gets the first free slot of a compatible bus: bridges first, then file systems, interfaces, sound cards, controllers, virtio disks, host devices and the rest. Chipset devices, the primary video card and the parts of a USB 2 controller have fixed addresses; root ports share slots.',
  apply: (domain, _, read) => {
    if (!rootOf(domain)) return []
    const plan = planOf(domain, read)
    const buses = busesOf(plan, false)
    assign(plan, buses, false)
    const additions: Addition[] = []
    for (const one of all(plan)) {
      const values = one.address && addressValues(one, one.address, buses)
      if (values) additions.push(fill(one.device, { address: values }))
    }
    return additions
  },
}

/** A running machine gets no more. Each takes 300 bytes of the stored VM. */
const hotPlugPorts = 4

export const hotPlugPort: Rule = {
  name: 'hot-plug-port',
  description: `A machine with PCI Express has ${hotPlugPorts} free root ports for disks that are attached later, unless the user or a preset adds PCI controllers. This default is virtset’s; libvirt’s is one.`,
  *apply(domain, context, read) {
    const { devices } = domain
    if (context.isOurs !== true || !devices || rootOf(domain)?.model !== 'pcie-root' || hasOwnPorts(read)) return
    const plan = planOf(domain, read)
    const buses = busesOf(plan, false)
    assign(plan, buses, false)
    const missing = hotPlugPorts - freePorts(buses)
    const next = buses.list.length
    for (let index = next; index < next + missing && index <= lastBus; index += 1) {
      // Without a slot, the port could not be placed.
      if (reserveNext(buses, needsOf('pcie-root-port')) === undefined) break
      yield append(devices, 'controllers', { type: 'pci', index, model: 'pcie-root-port' })
    }
    yield* pciAddresses.apply(domain, context, read)
  },
}

/** Whether the domain states its PCI controllers, beside the root that every machine has. */
const hasOwnPorts = (domain: Domain): boolean =>
  list(domain, 'controllers').some(({ type, model }) => type === 'pci' && model !== 'pcie-root')

/** The root ports to which nothing is connected. */
const freePorts = ({ list: buses }: Buses): number =>
  buses.filter(({ model, functions }) => model === 'pcie-root-port' && functions.every((used) => used === 0)).length

const addressValues = (one: PciDevice, address: PciAddress, buses: Buses): object | undefined => {
  const isShared = one.multifunction ?? (address.function === 0 && hasOtherFunctions(buses, address))
  const multifunction = isShared ? { multifunction: true } : {}
  return { type: 'pci', domain: 0, ...address, ...multifunction }
}
