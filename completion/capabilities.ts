import { hash } from 'node:crypto'
import { type Capabilities, type MachineType, readCapabilities } from '../api/capabilities.ts'
import bundled from './profiles/qemu-10-x86_64.json' with { type: 'json' }

/** What depends on the launcher's image alone, and so is equal on nodes that differ only in their hardware. */
export type ImageCapabilities = Pick<Capabilities, (typeof imageKeys)[number]>

const imageKeys = ['architecture', 'emulator', 'machines', 'devices', 'firmware'] as const

const images = new WeakMap<Capabilities, string>()

/** The same text for capabilities of equal images. */
export function imageOf(capabilities: Capabilities): string {
  const known = images.get(capabilities)
  if (known !== undefined) return known
  const image = hash('sha256', JSON.stringify(imageKeys.map((key) => capabilities[key])), 'base64')
  images.set(capabilities, image)
  return image
}

const machinesOf = new WeakMap<Pick<Capabilities, 'machines'>, ReadonlyMap<string, MachineType>>()

/** The machine type of this name or alias; undefined if the node does not have it. */
export function machineType(capabilities: Pick<Capabilities, 'machines'>, name: string): MachineType | undefined {
  const known = machinesOf.get(capabilities)
  if (known) return known.get(name)
  const byName = new Map(
    capabilities.machines.flatMap((one) => [one.name, one.alias ?? one.name].map((key) => [key, one])),
  )
  machinesOf.set(capabilities, byName)
  return byName.get(name)
}

const deviceSets = new WeakMap<Pick<Capabilities, 'devices'>, ReadonlySet<string>>()

/** Whether QEMU has a device or option, by libvirt's name of the capability. */
export function offers(capabilities: Pick<Capabilities, 'devices'>, device: string): boolean {
  const known = deviceSets.get(capabilities)
  if (known) return known.has(device)
  const devices = new Set(capabilities.devices)
  deviceSets.set(capabilities, devices)
  return devices.has(device)
}

/** QEMU 10.0 on x86_64 with its firmware descriptors: used while no node has published a profile. */
export const bundledCapabilities: Capabilities = readCapabilities(bundled)
