import type { Domain } from '../../api/domain/domain.ts'
import { fill, type Addition, type DeviceOf, type Rule, type Values } from './rule.ts'

type Address = NonNullable<DeviceOf<'inputs'>['address']>

/** The parts of an address of each type that libvirt fills in if they are missing. */
const parts: { readonly [type in NonNullable<Address['type']>]?: Values<Address> } = {
  pci: { domain: 0, bus: 0, slot: 0, function: 0 },
  drive: { controller: 0, bus: 0, target: 0, unit: 0 },
  'virtio-serial': { controller: 0, bus: 0 },
  ccid: { controller: 0, slot: 0 },
  usb: { bus: 0 },
}

interface Addressed {
  readonly address?: Address
}

const lists = [
  'disks',
  'controllers',
  'filesystems',
  'interfaces',
  'smartcards',
  'serials',
  'parallels',
  'consoles',
  'channels',
  'inputs',
  'sounds',
  'videos',
  'hostdevs',
  'redirdevs',
  'hubs',
  'watchdogs',
  'rngs',
  'shmems',
  'memories',
  'panics',
  'cryptos',
  'tpms',
] as const

const singles = ['memballoon', 'vsock', 'iommu', 'pstore'] as const

/** The PCI addresses of host devices. */
const hostAddresses = ({ devices = {} }: Domain): object[] => [
  ...(devices.disks ?? []).flatMap(({ type, source }) => (type === 'nvme' && source?.address) || []),
  ...(devices.hostdevs ?? []).flatMap(({ type, source }) => (type === 'pci' && source?.address) || []),
  ...(devices.interfaces ?? []).flatMap(
    ({ type, source }) => (type === 'hostdev' && source?.address?.type !== 'usb' && source?.address) || [],
  ),
]

export const hostAddressParts: Rule = {
  name: 'host-address-part',
  description: 'Missing parts of the PCI address of a host device are 0.',
  apply: (domain) => hostAddresses(domain).map((address) => fill(address, parts.pci ?? {})),
}

export const addressParts: Rule = {
  name: 'address-part',
  description: 'Missing parts of an address are 0.',
  apply: ({ devices = {} }) => {
    const additions: Addition[] = []
    const add = ({ address }: Addressed): void => {
      const values = address?.type === undefined ? undefined : parts[address.type]
      // An empty address of type `pci` requests an address, which devices on PCI already have here.
      if (address?.type === 'pci' && address.bus === undefined && address.slot === undefined) return
      if (address && values) additions.push(fill(address, values))
    }
    for (const key of lists) {
      const items: readonly Addressed[] | undefined = devices[key]
      items?.forEach(add)
    }
    for (const key of singles) {
      const device: Addressed | undefined = devices[key]
      if (device) add(device)
    }
    return additions
  },
}
