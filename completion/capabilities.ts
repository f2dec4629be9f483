import { type Capabilities, type MachineType, readCapabilities } from '../api/capabilities.ts'
import bundled from './profiles/qemu-10-x86_64.json' with { type: 'json' }

const machinesOf = new WeakMap<Capabilities, ReadonlyMap<string, MachineType>>()

/** The machine type of this name or alias; undefined if the node does not have it. */
export function machineType(capabilities: Capabilities, name: string): MachineType | undefined {
  const known = machinesOf.get(capabilities)
  if (known) return known.get(name)
  const byName = new Map(
    capabilities.machines.flatMap((one) => [one.name, one.alias ?? one.name].map((key) => [key, one])),
  )
  machinesOf.set(capabilities, byName)
  return byName.get(name)
}

const deviceSets = new WeakMap<Capabilities, ReadonlySet<string>>()

/** Whether QEMU has a device or option, by libvirt's name of the capability. */
export function offers(capabilities: Capabilities, device: string): boolean {
  const known = deviceSets.get(capabilities)
  if (known) return known.has(device)
  const devices = new Set(capabilities.devices)
  deviceSets.set(capabilities, devices)
  return devices.has(device)
}

/** QEMU 10.0 on x86_64 with its firmware descriptors: used while no node has published a profile. */
export const bundledCapabilities: Capabilities = readCapabilities(bundled)
