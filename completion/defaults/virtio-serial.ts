import { numberOf } from './reading.ts'
import { append, fill, list, type DeviceOf, type Rule } from './rule.ts'

type Port = DeviceOf<'channels'> | DeviceOf<'consoles'>

/** QEMU's limit per controller, which libvirt uses for a controller that does not set `ports`. */
const defaultPorts = 31

export const virtioSerialAddress: Rule = {
  name: 'virtio-serial-address',
  description:
    'Virtio channels get the first free port, and so do consoles that request one; port 0 is for a console. A controller is added if all ports are in use.',
  about: ['channels', 'consoles'],
  *apply(domain) {
    const { devices } = domain
    if (!devices) return
    const ports = portsInUse(domain)
    const partlyPlaced = list(domain, 'consoles').filter(({ address }) => address?.type === 'virtio-serial')
    for (const { device, first } of [
      ...partlyPlaced.map((device) => ({ device, first: 0 })),
      ...list(domain, 'channels').map((device) => ({ device, first: 1 })),
    ]) {
      if (device.target?.type !== 'virtio' || isComplete(device)) continue
      if (device.address?.type !== undefined && device.address.type !== 'virtio-serial') continue
      const stated = device.address?.type === 'virtio-serial' ? numberOf(device.address.controller) : undefined
      let place = freePort(ports, first, stated)
      if (!place) {
        const index = Math.max(-1, ...ports.keys()) + 1
        yield append(devices, 'controllers', { type: 'virtio-serial', index })
        ports.set(index, { taken: new Set(), count: defaultPorts })
        place = { controller: index, port: first }
      }
      ports.get(place.controller)?.taken.add(place.port)
      yield fill(device, {
        address: { type: 'virtio-serial', controller: place.controller, bus: 0, port: String(place.port) },
      })
    }
  },
}

interface Ports {
  readonly taken: Set<number>
  readonly count: number
}

const isComplete = ({ address }: Port): boolean =>
  address?.type === 'virtio-serial' && (numberOf(address.port) ?? 0) !== 0

const portsInUse = (domain: Parameters<Rule['apply']>[0]): Map<number, Ports> => {
  const ports = new Map<number, Ports>()
  for (const { type, index, ports: count } of list(domain, 'controllers')) {
    if (type === 'virtio-serial')
      ports.set(numberOf(index) ?? 0, { taken: new Set(), count: numberOf(count) ?? defaultPorts })
  }
  for (const one of [...list(domain, 'channels'), ...list(domain, 'consoles')]) {
    if (isComplete(one)) ports.get(numberOf(one.address?.controller) ?? 0)?.taken.add(numberOf(one.address?.port) ?? 0)
  }
  return ports
}

const freePort = (
  ports: ReadonlyMap<number, Ports>,
  first: number,
  stated: number | undefined,
): { controller: number; port: number } | undefined => {
  for (const [controller, { taken, count }] of [...ports].toSorted(([a], [b]) => a - b)) {
    if (stated !== undefined && controller !== stated) continue
    for (let port = first; port < count; port += 1) if (!taken.has(port)) return { controller, port }
  }
  return undefined
}
