import type { Domain } from '../api/domain/domain.ts'
import { aliasOf, type HostDevice } from '../api/host-device.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { Refused } from './refused.ts'

type Hostdev = NonNullable<NonNullable<Domain['devices']>['hostdevs']>[number]
type Source = NonNullable<Hostdev['source']>

/** The variables in which device plugins name what they have allocated to the container; see `deviceVariables`. */
export type DeviceVariables = Readonly<Record<string, string>>

interface Convention {
  /** The beginning of the variable, before the name of the resource. */
  readonly prefixes: readonly string[]
  /** What a device is called in the variable. */
  readonly form: string
  /** Undefined if the name is not of this form. */
  readonly parse: (name: string) => Source | undefined
}

/** Those of the SR-IOV network device plugin (`PCIDEVICE_`), and of KubeVirt's and NVIDIA's for GPUs and USB. */
const conventions: Readonly<Record<string, Convention>> = {
  pci: { prefixes: ['PCIDEVICE_', 'PCI_RESOURCE_'], form: '0000:3b:00.1', parse: parsePci },
  mdev: { prefixes: ['MDEV_PCI_RESOURCE_'], form: 'a UUID', parse: parseMdev },
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

/**
 * The domain with the sources of the host devices that the node has allocated to the pod. The i-th device of a resource
 * in `hostDevices` is the i-th that its plugin has allocated. A plugin can name several functions for one device, such
 * as the sound of a graphics card; the first is the device.
 * @throws Refused StartFailed if a plugin has not named its devices in a known way
 */
export function fillHostDevices(
  domain: Domain,
  hostDevices: VirtualMachineSpec['hostDevices'] = [],
  variables: DeviceVariables,
): Domain {
  const { devices } = domain
  if (hostDevices.length === 0 || devices?.hostdevs === undefined) return domain
  const hostdevs = devices.hostdevs.map((hostdev) => {
    const index = hostDevices.findIndex((one) => aliasOf(one) === hostdev.alias?.name)
    if (index === -1) return hostdev
    return { ...hostdev, source: { ...hostdev.source, ...sourceOf(hostdev, hostDevices, index, variables) } }
  })
  return { ...domain, devices: { ...devices, hostdevs } }
}

function sourceOf(hostdev: Hostdev, all: readonly HostDevice[], index: number, variables: DeviceVariables): Source {
  const resourceName = all[index]?.resourceName ?? ''
  const refused = (message: string) => new Refused('StartFailed', `spec.hostDevices[${index}]: ${message}`)
  const convention = conventions[hostdev.type ?? '']
  if (convention === undefined) throw refused(`a device of type ${hostdev.type} cannot be allocated`)
  const names = convention.prefixes.map((prefix) => `${prefix}${plain(resourceName)}`)
  const variable = names.find((name) => variables[name] !== undefined)
  if (variable === undefined) {
    throw refused(`the device plugin of ${resourceName} has not set ${names.join(' or ')} in the pod`)
  }
  const same = all.flatMap((one, at) => (one.resourceName === resourceName ? [at] : []))
  const allocated = (variables[variable] ?? '').split(',').filter((name) => name !== '')
  const share = allocated.length / same.length
  const name = allocated[same.indexOf(index) * share]
  if (name === undefined || !Number.isInteger(share)) {
    throw refused(`the pod requested ${same.length} of ${resourceName}, and ${variable} names ${allocated.length}`)
  }
  const source = convention.parse(name)
  if (source === undefined) {
    throw refused(`${variable} must name devices as ${convention.form}, and has ${JSON.stringify(name)}`)
  }
  return source
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
