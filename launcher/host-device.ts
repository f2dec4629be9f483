import type { Domain } from '../api/domain/domain.ts'
import { aliasOf, type HostDevice } from '../api/host-device.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import type { ReadClaimedDevices } from './claimed-device.ts'
import { Refused } from './refused.ts'

type Hostdev = NonNullable<NonNullable<Domain['devices']>['hostdevs']>[number]
type Source = NonNullable<Hostdev['source']>

/** The variables in which device plugins name what they have allocated to the container; see `deviceVariables`. */
export type DeviceVariables = Readonly<Record<string, string>>

interface Convention {
  /** The beginning of the variable, before the name of the resource. */
  readonly prefixes: readonly string[]
  /** The attribute of DRA devices that names one, if there is any. */
  readonly attribute?: string
  /** What a device is called in both. */
  readonly form: string
  /** Undefined if the name is not of this form. */
  readonly parse: (name: string) => Source | undefined
}

/**
 * Those of the SR-IOV network device plugin (`PCIDEVICE_`), and of KubeVirt's and NVIDIA's for GPUs and USB. Kubernetes
 * defines the attribute for PCI, and KubeVirt that for mediated devices.
 */
const conventions: Readonly<Record<string, Convention>> = {
  pci: {
    prefixes: ['PCIDEVICE_', 'PCI_RESOURCE_'],
    attribute: 'resource.kubernetes.io/pciBusID',
    form: '0000:3b:00.1',
    parse: parsePci,
  },
  mdev: { prefixes: ['MDEV_PCI_RESOURCE_'], attribute: 'mdevUUID', form: 'a UUID', parse: parseMdev },
  usb: { prefixes: ['USB_RESOURCE_'], form: 'BUS:DEVICE', parse: parseUsb },
}

const anyPrefix = Object.values(conventions).flatMap(({ prefixes }) => prefixes)

/** Plugins replace `-` or not, so that names are compared without the difference. */
const plain = (text: string): string => text.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')

/** The variables of device plugins in the container's environment, which the kubelet sets. */
export const deviceVariables = (env: { readonly [name: string]: string | undefined }): DeviceVariables =>
  Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value !== undefined && anyPrefix.some((prefix) => name.startsWith(prefix)) ? [[plain(name), value]] : [],
    ),
  )

/** What the node has allocated to the pod. */
export interface Allocated {
  readonly variables: DeviceVariables
  readonly readClaimed: ReadClaimedDevices
}

/**
 * The domain with the sources of the host devices that the node has allocated to the pod. The i-th device of a resource,
 * or of a request in a claim, in `hostDevices` is the i-th that has been allocated. A plugin can name several functions
 * for one device, such as the sound of a graphics card; the first is the device.
 * @throws Refused StartFailed if a plugin or driver has not named its devices in a known way
 */
export async function fillHostDevices(
  domain: Domain,
  hostDevices: VirtualMachineSpec['hostDevices'] = [],
  allocated: Allocated,
): Promise<Domain> {
  const { devices } = domain
  if (hostDevices.length === 0 || devices?.hostdevs === undefined) return domain
  const hostdevs = devices.hostdevs.map(async (hostdev) => {
    const index = hostDevices.findIndex((one) => aliasOf(one) === hostdev.alias?.name)
    if (index === -1) return hostdev
    return { ...hostdev, source: { ...hostdev.source, ...(await sourceOf(hostdev, hostDevices, index, allocated)) } }
  })
  return { ...domain, devices: { ...devices, hostdevs: await Promise.all(hostdevs) } }
}

async function sourceOf(
  hostdev: Hostdev,
  all: readonly HostDevice[],
  index: number,
  allocated: Allocated,
): Promise<Source> {
  const refused = (message: string) => new Refused('StartFailed', `spec.hostDevices[${index}]: ${message}`)
  const convention = conventions[hostdev.type ?? '']
  if (convention === undefined) throw refused(`a device of type ${hostdev.type} cannot be allocated`)
  const device = all[index]
  const found = await allocatedTo(device, convention, allocated)
  if ('problem' in found) throw refused(found.problem)
  const { requested, place, names } = found
  const same = all.filter((one) => isSameRequest(one, device))
  const share = names.length / same.length
  const name = names[same.findIndex((one) => one === device) * share]
  if (name === undefined || !Number.isInteger(share)) {
    throw refused(`the pod requested ${same.length} of ${requested}, and ${place} names ${names.length}`)
  }
  const source = convention.parse(name)
  if (source === undefined) {
    throw refused(`${place} must name devices as ${convention.form}, and has ${JSON.stringify(name)}`)
  }
  return source
}

const isSameRequest = (one: HostDevice, other: HostDevice | undefined): boolean =>
  one.resourceName === other?.resourceName &&
  one.claim?.name === other?.claim?.name &&
  one.claim?.request === other?.claim?.request

/** The names of the devices of a request, and where they are from. */
type Names =
  | { readonly requested: string; readonly place: string; readonly names: readonly string[] }
  | { readonly problem: string }

async function allocatedTo(
  { resourceName = '', claim }: Partial<HostDevice> = {},
  { prefixes, attribute }: Convention,
  { variables, readClaimed }: Allocated,
): Promise<Names> {
  if (claim === undefined) return namedByPlugin(resourceName, prefixes, variables)
  if (attribute === undefined) return { problem: 'DRA drivers do not name devices of this type' }
  const requested = `request ${claim.request} of claim ${claim.name}`
  const devices = await readClaimed(claim)
  if (devices === undefined) {
    return { problem: `the DRA driver has not described the devices of ${requested} in the pod (KEP-5304)` }
  }
  const names = devices
    .map((device) => device[attribute])
    .map((value) => (isRecord(value) ? value['string'] : undefined))
  return {
    requested,
    place: `attribute ${attribute}`,
    names: names.map((name) => (typeof name === 'string' ? name : '')),
  }
}

function namedByPlugin(resourceName: string, prefixes: readonly string[], variables: DeviceVariables): Names {
  const known = prefixes.map((prefix) => `${prefix}${plain(resourceName)}`)
  const place = known.find((name) => variables[name] !== undefined)
  if (place === undefined) {
    return { problem: `the device plugin of ${resourceName} has not set ${known.join(' or ')} in the pod` }
  }
  const names = (variables[place] ?? '').split(',').filter((name) => name !== '')
  return { requested: resourceName, place, names }
}

function parsePci(name: string): Source | undefined {
  const [, domain, bus, slot, part] = /^(?:([\da-f]{4}):)?([\da-f]{2}):([01][\da-f])\.([0-7])$/i.exec(name) ?? []
  if (bus === undefined || slot === undefined || part === undefined) return undefined
  const hex = (digits: string) => Number.parseInt(digits, 16)
  return { address: { domain: hex(domain ?? '0'), bus: hex(bus), slot: hex(slot), function: Number(part) } }
}

function parseUsb(name: string): Source | undefined {
  const [, bus, device] = /^(\d{1,3}):(\d{1,3})$/.exec(name) ?? []
  return bus === undefined || device === undefined
    ? undefined
    : { address: { bus: Number(bus), device: Number(device) } }
}

function parseMdev(name: string): Source | undefined {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(name) ? { address: { uuid: name } } : undefined
}
