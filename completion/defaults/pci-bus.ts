/**
 * PCI buses and which of their slots are free. This file knows no devices: what can be plugged where is expressed as
 * connections, one bit each, that a bus offers and a device requires.
 */

/** What a device needs of a slot, and a bus offers: bits. */
export const connect = {
  /**
   * A place that is given out by itself; a root bus of PCI Express, whose slots cannot be plugged into, is not for
   * plain devices.
   */
  automatic: 1,
  /** May share a slot with others of its kind, a function each. */
  aggregate: 2,
  /** Part of the chipset: on the root bus only. */
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
  /** What can be plugged into the bus. */
  readonly offers: number
  readonly firstSlot: number
  readonly lastSlot: number
  /** What the controller itself requires; 0 for a root. */
  readonly asks: number
}

const { automatic, integrated, pciDevice, pcieDevice, pcieRootPort, pciBridge } = connect
const behindPort = automatic | pcieDevice | connect.switchUpstream | connect.pcieToPciBridge

const models: { readonly [model in PciModel]: ModelOfBus } = {
  'pci-root': {
    offers: automatic | integrated | pciDevice | pciBridge | connect.pciExpander,
    firstSlot: 1,
    lastSlot: 31,
    asks: 0,
  },
  'pcie-root': {
    offers: integrated | pcieDevice | pcieRootPort | connect.dmiBridge | connect.pcieExpander,
    firstSlot: 1,
    lastSlot: 31,
    asks: 0,
  },
  'pci-bridge': { offers: automatic | pciDevice | pciBridge, firstSlot: 1, lastSlot: 31, asks: pciBridge },
  'dmi-to-pci-bridge': { offers: pciDevice | pciBridge, firstSlot: 0, lastSlot: 31, asks: connect.dmiBridge },
  'pcie-to-pci-bridge': {
    offers: automatic | pciDevice | pciBridge,
    firstSlot: 1,
    lastSlot: 31,
    asks: connect.pcieToPciBridge,
  },
  'pcie-root-port': { offers: behindPort, firstSlot: 0, lastSlot: 0, asks: pcieRootPort | connect.aggregate },
  'pcie-switch-upstream-port': {
    offers: connect.switchDownstream,
    firstSlot: 0,
    lastSlot: 31,
    asks: connect.switchUpstream,
  },
  'pcie-switch-downstream-port': { offers: behindPort, firstSlot: 0, lastSlot: 0, asks: connect.switchDownstream },
  'pci-expander-bus': {
    offers: automatic | pciDevice | pciBridge,
    firstSlot: 0,
    lastSlot: 31,
    asks: connect.pciExpander,
  },
  'pcie-expander-bus': {
    offers: pcieRootPort | connect.dmiBridge,
    firstSlot: 0,
    lastSlot: 31,
    asks: connect.pcieExpander,
  },
}

export const isPciModel = (model: string | undefined): model is PciModel => model !== undefined && model in models

/** What can be plugged into the bus of a controller of this model, and its slots. */
export const slotsOf = (model: PciModel): Omit<ModelOfBus, 'asks'> => models[model]

/** What a controller of this model asks of the slot that it is plugged into. */
export const asksOf = (model: PciModel): number => models[model].asks

export interface PciAddress {
  readonly bus: number
  readonly slot: number
  readonly function: number
}

interface Bus {
  readonly model: PciModel
  readonly offers: number
  /** A bit for each function in use, of each slot. */
  readonly functions: Uint8Array
  /** Slots whose first device shares. */
  shared: number
}

export interface Buses {
  readonly list: Bus[]
  /** Whether a bus may be added where all are full. */
  readonly canGrow: boolean
  /**
   * For each connection: the buses before this one have no room for it. A bus only fills up, so no search begins before
   * it.
   */
  readonly searched: Map<number, number>
  /** What is taken on buses that there are not; should one be added, it is taken there. */
  readonly early: { readonly address: PciAddress; readonly asks: number }[]
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

/** Whether any slot of any bus is still free. */
export const hasFreeSlot = ({ list }: Buses): boolean =>
  list.some(({ model, functions }) => {
    const { firstSlot, lastSlot } = models[model]
    const free = functions.indexOf(0, firstSlot)
    return free >= 0 && free <= lastSlot
  })

/** Takes an address, even if another device has it: the rules report two devices with one address. */
export const reserve = (buses: Buses, address: PciAddress, asks: number): void => {
  if (buses.canGrow && address.bus >= buses.list.length) grow(buses, address.bus, asks)
  const bus = buses.list[address.bus]
  if (bus) mark(bus, address, asks)
  else buses.early.push({ address, asks })
}

const mark = (bus: Bus, address: PciAddress, asks: number): void => {
  const used = bus.functions[address.slot]
  if (used === undefined) return
  if (used === 0 && asks & connect.aggregate) bus.shared |= 1 << address.slot
  bus.functions[address.slot] = used | (1 << address.function)
}

/**
 * The next free address for a device, which it takes; with `function`, that one of a slot.
 * @returns undefined where all buses are full and none can be added
 */
export const reserveNext = (buses: Buses, asks: number, wanted?: number): PciAddress | undefined => {
  const key = asks * 8 + (wanted ?? 0)
  for (let index = buses.searched.get(key) ?? 0; index < buses.list.length; index += 1) {
    const found = nextOn(buses, index, asks, wanted)
    if (found) {
      buses.searched.set(key, index)
      reserve(buses, found, asks)
      return found
    }
  }
  buses.searched.set(key, buses.list.length)
  const bus = buses.canGrow ? grow(buses, buses.list.length, asks) : undefined
  const added = bus === undefined ? undefined : buses.list[bus]
  if (bus === undefined || !added) return undefined
  const address = { bus, slot: models[added.model].firstSlot, function: wanted ?? 0 }
  if (isSlotUsed(buses, address)) return reserveNext(buses, asks, wanted)
  reserve(buses, address, asks)
  return address
}

const isCompatible = (offers: number, asks: number): boolean =>
  (asks & offers & kinds) !== 0 &&
  (asks & automatic) <= (offers & automatic) &&
  (asks & integrated) <= (offers & integrated)

const nextOn = (buses: Buses, index: number, asks: number, wanted: number | undefined): PciAddress | undefined => {
  const bus = buses.list[index]
  if (!bus || !isCompatible(bus.offers, asks)) return undefined
  const { firstSlot, lastSlot } = models[bus.model]
  for (let slot = firstSlot; slot <= lastSlot; slot += 1) {
    const used = bus.functions[slot] ?? 0
    if (used === 0) return { bus: index, slot, function: wanted ?? 0 }
    if (!(asks & connect.aggregate) || !(bus.shared & (1 << slot)) || used === 0xff) continue
    const free = wanted ?? lowestFree(used)
    if ((used & (1 << free)) === 0) return { bus: index, slot, function: free }
  }
  return undefined
}

const lowestFree = (used: number): number => 31 - Math.clz32(~used & -~used)

/**
 * Adds buses up to number `bus`, of the model that what `asks` can be plugged into. A PCI device on a machine that has
 * PCI Express only first needs a bridge in a port of its own.
 * @returns the number of the bus that the device goes to; undefined where no controller can be added for it
 */
const grow = (buses: Buses, bus: number, asks: number): number | undefined => {
  const { list } = buses
  const model = modelFor(buses, asks)
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
  for (const { address, asks } of early) if (address.bus === list.length) mark(bus, address, asks)
  list.push(bus)
}

const modelFor = (buses: Buses, asks: number): PciModel | undefined => {
  if (asks & integrated) return undefined
  if (asks & pciDevice) return 'pci-bridge'
  if (asks & pciBridge && buses.list[0]?.model === 'pcie-root') return 'dmi-to-pci-bridge'
  if (asks & (pcieDevice | connect.switchUpstream | connect.pcieToPciBridge)) return 'pcie-root-port'
  return undefined
}
