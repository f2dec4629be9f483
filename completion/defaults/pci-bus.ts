/**
 * PCI buses and their free slots. Independent of device types: compatibility is expressed as connections, one bit each,
 * that a bus offers and a device requires.
 */

/** Bits for what a device requires of a slot and a bus offers. */
export const connect = {
  /**
   * Slots that are assigned automatically. A PCI Express root bus, whose slots do not support hot-plug, does not offer
   * them to ordinary devices.
   */
  automatic: 1,
  /** May share a slot with others of its kind, one function each. */
  aggregate: 2,
  /** Part of the chipset: only on the root bus. */
  integrated: 4,
  pciDevice: 8,
  pcieDevice: 16,
  pcieRootPort: 32,
  switchUpstream: 64,
  switchDownstream: 128,
  dmiBridge: 256,
  pciExpander: 512,
  pcieExpander: 1024,
  pciBridge: 2048,
  pcieToPciBridge: 4096,
} as const

const kinds = ~(connect.automatic | connect.aggregate | connect.integrated)

export type PciModel =
  | 'pci-root'
  | 'pcie-root'
  | 'pci-bridge'
  | 'dmi-to-pci-bridge'
  | 'pcie-to-pci-bridge'
  | 'pcie-root-port'
  | 'pcie-switch-upstream-port'
  | 'pcie-switch-downstream-port'
  | 'pci-expander-bus'
  | 'pcie-expander-bus'

interface ModelOfBus {
  /** The connections that the bus offers. */
  readonly offers: number
  readonly firstSlot: number
  readonly lastSlot: number
  /** What the controller itself requires; 0 for a root. */
  readonly needs: number
}

const { automatic, integrated, pciDevice, pcieDevice, pcieRootPort, pciBridge } = connect
const behindPort = automatic | pcieDevice | connect.switchUpstream | connect.pcieToPciBridge

const models: { readonly [model in PciModel]: ModelOfBus } = {
  'pci-root': {
    offers: automatic | integrated | pciDevice | pciBridge | connect.pciExpander,
    firstSlot: 1,
    lastSlot: 31,
    needs: 0,
  },
  'pcie-root': {
    offers: integrated | pcieDevice | pcieRootPort | connect.dmiBridge | connect.pcieExpander,
    firstSlot: 1,
    lastSlot: 31,
    needs: 0,
  },
  'pci-bridge': { offers: automatic | pciDevice | pciBridge, firstSlot: 1, lastSlot: 31, needs: pciBridge },
  'dmi-to-pci-bridge': { offers: pciDevice | pciBridge, firstSlot: 0, lastSlot: 31, needs: connect.dmiBridge },
  'pcie-to-pci-bridge': {
    offers: automatic | pciDevice | pciBridge,
    firstSlot: 1,
    lastSlot: 31,
    needs: connect.pcieToPciBridge,
  },
  'pcie-root-port': { offers: behindPort, firstSlot: 0, lastSlot: 0, needs: pcieRootPort | connect.aggregate },
  'pcie-switch-upstream-port': {
    offers: connect.switchDownstream,
    firstSlot: 0,
    lastSlot: 31,
    needs: connect.switchUpstream,
  },
  'pcie-switch-downstream-port': { offers: behindPort, firstSlot: 0, lastSlot: 0, needs: connect.switchDownstream },
  'pci-expander-bus': {
    offers: automatic | pciDevice | pciBridge,
    firstSlot: 0,
    lastSlot: 31,
    needs: connect.pciExpander,
  },
  'pcie-expander-bus': {
    offers: pcieRootPort | connect.dmiBridge,
    firstSlot: 0,
    lastSlot: 31,
    needs: connect.pcieExpander,
  },
}

export const isPciModel = (model: string | undefined): model is PciModel => model !== undefined && model in models

/** The connections and slots that the bus of a controller of this model offers. */
export const slotsOf = (model: PciModel): Omit<ModelOfBus, 'needs'> => models[model]

/** The connections that a controller of this model requires of its own slot. */
export const needsOf = (model: PciModel): number => models[model].needs

export interface PciAddress {
  readonly bus: number
  readonly slot: number
  readonly function: number
}

interface Bus {
  readonly model: PciModel
  readonly offers: number
  /** A bit for each function in use, per slot. */
  readonly functions: Uint8Array
  /** A bit for each slot whose first device may share it. */
  shared: number
}

export interface Buses {
  readonly list: Bus[]
  /** Whether a bus may be added if all are full. */
  readonly canGrow: boolean
  /** The first bus that may have room, by connection. Buses only fill up, so no search needs to start before it. */
  readonly searched: Map<number, number>
  /** Addresses reserved on buses that do not exist yet. They are marked when the bus is added. */
  readonly early: { readonly address: PciAddress; readonly needs: number }[]
}

export const createBuses = (controllers: readonly PciModel[], canGrow: boolean): Buses => ({
  list: controllers.map(createBus),
  canGrow,
  searched: new Map(),
  early: [],
})

const createBus = (model: PciModel): Bus => ({
  model,
  offers: models[model].offers,
  functions: new Uint8Array(32),
  shared: 0,
})

export const isSlotUsed = (buses: Buses, { bus, slot }: PciAddress): boolean =>
  (buses.list[bus]?.functions[slot] ?? 0) !== 0

/** Whether another function of the slot is in use. */
export const hasOtherFunctions = (buses: Buses, { bus, slot, function: own }: PciAddress): boolean =>
  ((buses.list[bus]?.functions[slot] ?? 0) & ~(1 << own)) !== 0

/** Whether any slot of any bus is free. */
export const hasFreeSlot = ({ list }: Buses): boolean =>
  list.some(({ model, functions }) => {
    const { firstSlot, lastSlot } = models[model]
    const free = functions.indexOf(0, firstSlot)
    return free >= 0 && free <= lastSlot
  })

/** Reserves an address, even if another device has it: rules report duplicate addresses. */
export const reserve = (buses: Buses, address: PciAddress, needs: number): void => {
  if (buses.canGrow && address.bus >= buses.list.length) grow(buses, address.bus, needs)
  const bus = buses.list[address.bus]
  if (bus) mark(bus, address, needs)
  else buses.early.push({ address, needs })
}

const mark = (bus: Bus, address: PciAddress, needs: number): void => {
  const used = bus.functions[address.slot]
  if (used === undefined) return
  if (used === 0 && needs & connect.aggregate) bus.shared |= 1 << address.slot
  bus.functions[address.slot] = used | (1 << address.function)
}

/**
 * Reserves the next free address for a device; `wanted` requests that function of a slot.
 * @returns undefined if all buses are full and none can be added
 */
export const reserveNext = (buses: Buses, needs: number, wanted?: number): PciAddress | undefined => {
  const key = needs * 8 + (wanted ?? 0)
  for (let index = buses.searched.get(key) ?? 0; index < buses.list.length; index += 1) {
    const found = nextOn(buses, index, needs, wanted)
    if (found) {
      buses.searched.set(key, index)
      reserve(buses, found, needs)
      return found
    }
  }
  buses.searched.set(key, buses.list.length)
  const bus = buses.canGrow ? grow(buses, buses.list.length, needs) : undefined
  const added = bus === undefined ? undefined : buses.list[bus]
  if (bus === undefined || !added) return undefined
  const address = { bus, slot: models[added.model].firstSlot, function: wanted ?? 0 }
  if (isSlotUsed(buses, address)) return reserveNext(buses, needs, wanted)
  reserve(buses, address, needs)
  return address
}

const isCompatible = (offers: number, needs: number): boolean =>
  (needs & offers & kinds) !== 0 &&
  (needs & automatic) <= (offers & automatic) &&
  (needs & integrated) <= (offers & integrated)

const nextOn = (buses: Buses, index: number, needs: number, wanted: number | undefined): PciAddress | undefined => {
  const bus = buses.list[index]
  if (!bus || !isCompatible(bus.offers, needs)) return undefined
  const { firstSlot, lastSlot } = models[bus.model]
  for (let slot = firstSlot; slot <= lastSlot; slot += 1) {
    const used = bus.functions[slot] ?? 0
    if (used === 0) return { bus: index, slot, function: wanted ?? 0 }
    if (!(needs & connect.aggregate) || !(bus.shared & (1 << slot)) || used === 0xff) continue
    const free = wanted ?? lowestFree(used)
    if ((used & (1 << free)) === 0) return { bus: index, slot, function: free }
  }
  return undefined
}

const lowestFree = (used: number): number => 31 - Math.clz32(~used & -~used)

/**
 * Adds buses up to number `bus`, of a model that offers what `needs` requires. On a machine with only PCI Express, a
 * PCI device first needs a bridge in a root port of its own.
 * @returns the number of the bus for the device; undefined if no controller can be added for it
 */
const grow = (buses: Buses, bus: number, needs: number): number | undefined => {
  const { list } = buses
  const model = modelFor(buses, needs)
  if (model === undefined) return undefined
  if (model === 'pci-bridge' && !list.some(({ offers }) => offers & pciBridge)) {
    addBus(buses, 'pcie-root-port')
    addBus(buses, 'pcie-to-pci-bridge')
    if (bus < list.length) return list.length - 1
  }
  while (list.length <= bus) addBus(buses, model)
  return bus
}

const addBus = ({ list, early }: Buses, model: PciModel): void => {
  const bus = createBus(model)
  for (const { address, needs } of early) if (address.bus === list.length) mark(bus, address, needs)
  list.push(bus)
}

const modelFor = (buses: Buses, needs: number): PciModel | undefined => {
  if (needs & integrated) return undefined
  if (needs & pciDevice) return 'pci-bridge'
  if (needs & pciBridge && buses.list[0]?.model === 'pcie-root') return 'dmi-to-pci-bridge'
  if (needs & (pcieDevice | connect.switchUpstream | connect.pcieToPciBridge)) return 'pcie-root-port'
  return undefined
}
