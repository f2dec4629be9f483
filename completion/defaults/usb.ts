import type { Domain } from '../../api/domain/domain.ts'
import { isHostUsbCard } from './interface.ts'
import { numberOf } from './reading.ts'
import { append, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'
import { inLibvirtOrder } from './stored-order.ts'

type Address = NonNullable<DeviceOf<'inputs'>['address']>

interface UsbDevice {
  readonly at: string
  readonly device: { readonly address?: Address }
}

/** The ports of a controller or hub: those in use, and the hubs on them. Ports are numbered from 1. */
interface Ports {
  readonly count: number
  readonly taken: Set<number>
  readonly hubs: Map<number, Ports>
}

/** The number of ports by controller model. The USB 1 companions of a USB 2 controller share its ports. */
const portsOfModel: { readonly [model: string]: number } = {
  'piix3-uhci': 2,
  'piix4-uhci': 2,
  'vt82c686b-uhci': 2,
  'pci-ohci': 3,
  ehci: 6,
  'ich9-ehci1': 6,
  'nec-xhci': 4,
  'qemu-xhci': 4,
}

const hubPorts = 8

/** The maximum number of ports in a path: USB allows no deeper chain of hubs. */
const maxDepth = 4

const portsOf = ({ model, ports }: DeviceOf<'controllers'>): number =>
  model === 'nec-xhci' || model === 'qemu-xhci'
    ? (numberOf(ports) ?? portsOfModel[model] ?? 0)
    : (portsOfModel[model ?? 'piix3-uhci'] ?? 0)

const devicesIn = <D extends { readonly address?: Address }>(
  key: string,
  devices: readonly D[],
  isUsb: (device: D) => boolean,
): UsbDevice[] =>
  devices.flatMap((device, index) => (isUsb(device) ? [{ at: `devices.${key}[${index}]`, device }] : []))

/** All USB devices except hubs, in the order in which ports are assigned. */
const usbDevices = (domain: Domain): UsbDevice[] => [
  ...inLibvirtOrder('devices.disks', list(domain, 'disks'), ({ target }) => target?.bus === 'usb').map(
    ({ item, index }) => ({ at: `devices.disks[${index}]`, device: item }),
  ),
  ...devicesIn(
    'interfaces',
    list(domain, 'interfaces'),
    (one) => isHostUsbCard(one) || one.model?.type?.toLowerCase() === 'usb-net',
  ),
  ...devicesIn('sounds', list(domain, 'sounds'), ({ model }) => model === 'usb'),
  ...devicesIn('hostdevs', list(domain, 'hostdevs'), ({ type }) => type === 'usb'),
  ...inLibvirtOrder('devices.controllers', list(domain, 'controllers'), ({ type }) => type === 'ccid').map(
    ({ item, index }) => ({ at: `devices.controllers[${index}]`, device: item }),
  ),
  ...devicesIn('serials', list(domain, 'serials'), ({ target }) => target?.type === 'usb-serial'),
  ...devicesIn('inputs', list(domain, 'inputs'), ({ bus }) => bus === 'usb'),
  ...devicesIn('filesystems', list(domain, 'filesystems'), ({ driver }) => driver?.type === 'mtp'),
  ...devicesIn('redirdevs', list(domain, 'redirdevs'), () => true),
]

const hubsOf = (domain: Domain): UsbDevice[] => devicesIn('hubs', list(domain, 'hubs'), () => true)

/** A controller of model `none` disables USB. */
export const isUsbOff = (domain: Domain): boolean =>
  list(domain, 'controllers').some(({ type, model }) => type === 'usb' && model === 'none')

/** The paths of all USB devices, relative to the domain. */
export const usbPaths = (domain: Domain): readonly string[] =>
  [...hubsOf(domain), ...usbDevices(domain)].map(({ at }) => at)

export const usbHubs: Rule = {
  name: 'usb-hub',
  description: 'If a new VM has more USB devices than ports, hubs are added.',
  *apply(domain, { isNew }) {
    const { devices } = domain
    if (!devices || isNew !== true) return
    const hubs = hubsOf(domain)
    const controllers = list(domain, 'controllers').filter(({ type }) => type === 'usb')
    // Without USB no hub can be plugged in. Rules report devices that need one.
    if (isUsbOff(domain)) return
    const available = controllers.reduce((sum, one) => sum + portsOf(one), 0) + hubs.length * hubPorts
    const missing = usbDevices(domain).length + hubs.length - available
    if (missing <= 0) return
    // Each new hub occupies a port itself, and one port is left free.
    for (let count = Math.ceil((missing + 1) / (hubPorts - 1)); count > 0; count -= 1) {
      yield append(devices, 'hubs', { type: 'usb' })
    }
  },
}

export const usbAddresses: Rule = {
  name: 'usb-address',
  description:
    'Each USB device of a new VM gets the first free port of the first controller that has one; hubs come first.',
  *apply(domain, { isNew }) {
    if (isNew !== true) return
    const buses = busesOf(domain)
    const [hubs, devices] = [hubsOf(domain), usbDevices(domain)]
    for (const one of hubs) plug(buses, one.device.address, createPorts(hubPorts))
    for (const one of devices) plug(buses, one.device.address)
    for (const one of hubs) yield* assign(buses, one, createPorts(hubPorts))
    for (const one of devices) yield* assign(buses, one)
  },
}

const createPorts = (count: number): Ports => ({ count, taken: new Set(), hubs: new Map() })

const busesOf = (domain: Domain): Map<number, Ports> => {
  const buses = new Map<number, Ports>()
  for (const one of list(domain, 'controllers')) {
    const count = one.type === 'usb' ? portsOf(one) : 0
    if (count > 0) buses.set(numberOf(one.index) ?? 0, createPorts(count))
  }
  return new Map([...buses].toSorted(([a], [b]) => a - b))
}

/** Reserves the port of an existing address. */
const plug = (buses: ReadonlyMap<number, Ports>, address: Address | undefined, hub?: Ports): void => {
  const bus = buses.get(numberOf(address?.bus) ?? 0)
  if (address?.type !== 'usb' || address.port === undefined || !bus) return
  occupy(bus, address.port.split('.').map(Number), hub)
}

const occupy = (ports: Ports, [first, ...rest]: readonly number[], hub: Ports | undefined): void => {
  if (first === undefined) return
  ports.taken.add(first)
  const behind = ports.hubs.get(first)
  if (rest.length > 0 && behind) occupy(behind, rest, hub)
  if (rest.length === 0 && hub) ports.hubs.set(first, hub)
}

const assign = (buses: ReadonlyMap<number, Ports>, { device }: UsbDevice, hub?: Ports): Addition[] => {
  const { address } = device
  if (address?.type !== undefined && (address.type !== 'usb' || address.port !== undefined)) return []
  const wanted = address?.bus === undefined ? undefined : numberOf(address.bus)
  for (const [index, bus] of buses) {
    if (wanted !== undefined && index !== wanted) continue
    const path = freePath(bus, 1)
    if (!path) continue
    occupy(bus, path, hub)
    return [fill(device, { address: { type: 'usb', bus: index, port: path.join('.') } })]
  }
  return []
}

const freePath = (ports: Ports, depth: number): number[] | undefined => {
  for (let port = 1; port <= ports.count; port += 1) if (!ports.taken.has(port)) return [port]
  if (depth === maxDepth) return undefined
  for (const [port, hub] of [...ports.hubs].toSorted(([a], [b]) => a - b)) {
    const below = freePath(hub, depth + 1)
    if (below) return [port, ...below]
  }
  return undefined
}
