import bundled from './profiles/qemu-10-x86_64.json' with { type: 'json' }

/**
 * What the QEMU of a node can do, as data: completion and the rules decide by this and nothing else, so that they stay pure. A profile is
 * read from a file or from what a node publishes; the bundled one is QEMU 10.0 on x86_64.
 */
export interface Capabilities {
  readonly name: string
  readonly architecture: 'x86_64'
  /** `10.0.0` */
  readonly version: string
  /** The path of the emulator in the pod. */
  readonly emulator: string
  readonly machines: readonly MachineType[]
  /** What QEMU offers, by libvirt's names of capabilities (`vhost-vsock`, `virtio-iommu-pci`). */
  readonly devices: readonly string[]
  readonly accelerators: { readonly kvm?: Accelerator; readonly qemu?: Accelerator }
  /** Enlightenments for Windows guests that KVM has. */
  readonly hyperv: readonly string[]
  /** Allowed words where they depend on the QEMU: `disk.bus` → `ide`, `fdc`, …. */
  readonly words: { readonly [subject: string]: readonly string[] }
  /** What nodes have beside QEMU; what is not known is not judged. */
  readonly host?: {
    /** NUMA nodes, from 0. */
    readonly numaNodes?: number
    /** Sizes of memory pages, in KiB. */
    readonly pageSizes?: readonly number[]
  }
  /** In the order of precedence in which automatic selection tries them. */
  readonly firmware: readonly Firmware[]
}

/** `kvm` or `qemu` (TCG), as the domain's `type` calls them. */
export interface Accelerator {
  readonly cpuModels: readonly CpuModel[]
  /** What `mode: host-model` stands for on this node. */
  readonly hostModel?: HostModel
}

export interface MachineType {
  readonly name: string
  /** `pc` and `q35` stand for the newest of their kind. */
  readonly alias?: string
  readonly isDefault?: true
  readonly maxCpus: number
  /** The CPU model of a domain that asks for none. */
  readonly cpu?: string
  readonly isDeprecated?: true
  readonly hasAcpi: boolean
  readonly canHotplugCpus?: true
  /** Whether memory of NUMA cells may be given without a backend of its own (machine types up to 5.0). */
  readonly hasLegacyNumaMemory?: true
}

export interface CpuModel {
  readonly name: string
  readonly vendor?: string
  /** The versioned name that this one stands for. */
  readonly canonical?: string
  /** The features of the model that this host lacks; empty where the model can run. */
  readonly blockers: readonly string[]
}

export interface HostModel {
  readonly model: string
  readonly vendor?: string
  readonly features: readonly { readonly name: string; readonly policy: string }[]
}

/** A firmware descriptor, as `qemu-firmware(7)` defines them. */
export interface Firmware {
  readonly interfaces: readonly string[]
  readonly mapping:
    | { readonly device: 'memory'; readonly path: string }
    | {
        readonly device: 'flash'
        readonly mode: 'split'
        readonly code: FirmwareFile
        readonly variables: FirmwareFile
      }
    | { readonly device: 'flash'; readonly mode: 'stateless' | 'combined'; readonly code: FirmwareFile }
  readonly targets: readonly { readonly architecture: string; readonly machines: readonly string[] }[]
  readonly features: readonly string[]
}

export interface FirmwareFile {
  readonly path: string
  readonly format: string
}

/** The door for a profile that is JSON from a file or a node. Throws where it is none: profiles are made by programs. */
export function readCapabilities(value: unknown): Capabilities {
  if (!isCapabilities(value)) throw new Error('not a profile of capabilities')
  return value
}

const isCapabilities = (value: unknown): value is Capabilities =>
  isObject(value) &&
  value['architecture'] === 'x86_64' &&
  ['name', 'version', 'emulator'].every((key) => typeof value[key] === 'string') &&
  ['machines', 'devices', 'hyperv', 'firmware'].every((key) => Array.isArray(value[key])) &&
  isObject(value['accelerators']) &&
  isObject(value['words'])

const isObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const machinesOf = new WeakMap<Capabilities, ReadonlyMap<string, MachineType>>()

/** The machine type of this name or alias; undefined where the node has none. */
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

/** QEMU 10.0 on x86_64, with what its firmware descriptors name. */
export const bundledCapabilities: Capabilities = readCapabilities(bundled)
