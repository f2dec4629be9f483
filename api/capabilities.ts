import { boolean, bounded, checkSchema, closed, integer, list, map, string } from './schema.ts'
import type { Schema } from './schema.ts'

/**
 * What the QEMU of a node can do, as data. Completion and the rules depend on nothing else of the node, so they stay
 * pure. A profile is read from a file or from what a node publishes. Lists are sorted, so that equal nodes have equal
 * profiles. `isCapabilities` checks this where it matters to other nodes.
 */
export interface Capabilities {
  readonly architecture: 'x86_64'
  /** `10.0.0` */
  readonly version: string
  /** The path of the emulator in the pod. */
  readonly emulator: string
  readonly machines: readonly MachineType[]
  /** What QEMU offers, as libvirt's capability names (`vhost-vsock`, `virtio-iommu-pci`). */
  readonly devices: readonly string[]
  readonly accelerators: { readonly kvm?: Accelerator; readonly qemu?: Accelerator }
  /** Hyper-V enlightenments for Windows guests that KVM supports. */
  readonly hyperv: readonly string[]
  /**
   * Allowed words that depend on the QEMU build: `disk.bus` → `ide`, `fdc`, …. Words without an entry are not checked.
   */
  readonly words: { readonly [subject: string]: readonly string[] }
  /** Properties of the node other than QEMU's. Unknown properties are not checked. */
  readonly host?: {
    /** NUMA nodes, from 0. */
    readonly numaNodes?: number
    /** Sizes of memory pages, in KiB. */
    readonly pageSizes?: readonly number[]
  }
  /** In order of precedence for automatic selection, which is the order of their names. */
  readonly firmware: readonly Firmware[]
}

/** By the domain's `type`: `kvm` or `qemu` (TCG). */
export interface Accelerator {
  readonly cpuModels: readonly CpuModel[]
  /** The features of the host's CPU that guests can have. Absent: unknown, or emulated. */
  readonly cpuFeatures?: readonly string[]
  /** The CPU that `mode: host-model` yields on this node. */
  readonly hostModel?: HostModel
}

export interface MachineType {
  readonly name: string
  /** `pc` and `q35` are aliases of the newest version of each. No two machine types have the same. */
  readonly alias?: string
  /** Of at most one. */
  readonly isDefault?: true
  readonly maxCpus: number
  /** The CPU model of a domain that does not set one. */
  readonly cpu?: string
  readonly isDeprecated?: true
  readonly hasAcpi: boolean
  readonly canHotplugCpus?: true
  /** Whether NUMA cells can have memory without a backend of their own (machine types up to 5.0). */
  readonly hasLegacyNumaMemory?: true
}

export interface CpuModel {
  readonly name: string
  readonly vendor?: string
  /** The versioned model that this name is an alias of. */
  readonly canonical?: string
  /** The features of the model that this host does not have; empty if the model can run. */
  readonly blockers: readonly string[]
}

export interface HostModel {
  readonly model: string
  readonly vendor?: string
  readonly features: readonly { readonly name: string; readonly policy: string }[]
}

/** A firmware descriptor, as `qemu-firmware(7)` defines them. */
export interface Firmware {
  /** The name of its file: `60-edk2-x86_64.json`. */
  readonly name: string
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

/**
 * QEMU 10 and libvirt 11 have 64 machine types, 201 devices and 145 CPU models. The limit guards against a profile that
 * a broken node stores.
 */
const maxItems = 2048
/** Machine types, and the parts of their versions, are compared with each other. QEMU has 64, of 14 characters. */
const maxMachines = 256
const machineName = (description: string): Schema => string(description, { maxLength: 64 })
const names = (description: string): Schema => list(description, string('A name.'), { maxItems })

/**
 * A file of the launcher's image. A profile affects the defaults of VMs on all nodes, so its paths must not lead to the
 * volumes of a pod, which tenants can write.
 */
const imageFile = (description: string): Schema =>
  string(description, { pattern: String.raw`^/usr(/[A-Za-z0-9_+@-][A-Za-z0-9_.+@-]*)+$` })

const firmwareFile = (description: string): Schema =>
  closed(
    description,
    { path: imageFile('Its path in the pod.'), format: string('The format of the image, e.g. raw.') },
    ['path', 'format'],
  )

const cpuModel: Schema = closed(
  'A CPU model.',
  {
    name: string('Its name.'),
    vendor: string('The vendor.'),
    canonical: string('The versioned model that this name is an alias of.'),
    blockers: names('Features of the model that the node does not have; empty if the model can run.'),
  },
  ['name', 'blockers'],
)

const accelerator = (description: string): Schema =>
  closed(
    description,
    {
      cpuModels: list('The CPU models it supports.', cpuModel, { maxItems }),
      cpuFeatures: names("The features of the node's CPU that guests can have. Unknown features are not checked."),
      hostModel: closed(
        'The CPU that `mode: host-model` yields.',
        {
          model: string('The CPU model.'),
          vendor: string('The vendor.'),
          features: list(
            'Differences from that model.',
            closed('A feature.', { name: string('Its name.'), policy: string('e.g. require.') }, ['name', 'policy']),
          ),
        },
        ['model', 'features'],
      ),
    },
    ['cpuModels'],
  )

const machineType: Schema = closed(
  'A machine type.',
  {
    name: machineName('Its name, with its version.'),
    alias: machineName('An alias of the newest version of its kind.'),
    isDefault: boolean('Whether this is the default machine type.'),
    maxCpus: integer('The maximum number of virtual CPUs.'),
    cpu: string('The CPU model of a domain that does not set one.'),
    isDeprecated: boolean('Whether QEMU has deprecated it.'),
    hasAcpi: boolean('Whether it has ACPI.'),
    canHotplugCpus: boolean('Whether CPUs can be hot-plugged.'),
    hasLegacyNumaMemory: boolean('Whether NUMA cells can have memory without a backend of their own.'),
  },
  ['name', 'maxCpus', 'hasAcpi'],
)

const firmware: Schema = closed(
  'A firmware descriptor.',
  {
    name: string('The name of the file of the descriptor.'),
    interfaces: names('uefi, bios.'),
    mapping: closed(
      'How the firmware is mapped into the memory of the guest.',
      {
        device: string('The kind of device that the guest sees.', { enum: ['memory', 'flash'] }),
        mode: string('Where variables are stored, for flash.', { enum: ['split', 'stateless', 'combined'] }),
        path: imageFile('The file, for memory.'),
        code: firmwareFile('The code, for flash.'),
        variables: firmwareFile('The template for variables, for split.'),
      },
      ['device'],
    ),
    targets: list(
      'The machines it runs on.',
      closed('An architecture.', { architecture: string('Its name.'), machines: names('Patterns of machine types.') }, [
        'architecture',
        'machines',
      ]),
    ),
    features: names('Its features: secure-boot, requires-smm, ….'),
  },
  ['name', 'interfaces', 'mapping', 'targets', 'features'],
)

/** The schema of `Capabilities` for the CRD. */
export const capabilitiesSchema: Schema = bounded(
  closed(
    'What the QEMU and libvirt of the node can do, as reported by libvirt.',
    {
      architecture: string('The architecture of its guests.', { enum: ['x86_64'] }),
      version: string('The version of QEMU.'),
      // It becomes the emulator of VMs. Of a node under an attacker's control, it must not be another program.
      emulator: string('The path of QEMU in the pod of a VM.', {
        maxLength: 64,
        pattern: '^/usr/(bin|libexec)/qemu-(system-x86_64|kvm)$',
      }),
      machines: list('The machine types, by name.', machineType, {
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        minItems: 1,
        maxItems: maxMachines,
      }),
      devices: names("What QEMU offers, as libvirt's capability names."),
      accelerators: closed('The accelerators that can run a guest.', {
        kvm: accelerator('KVM; absent if the node has no /dev/kvm.'),
        qemu: accelerator('Emulation.'),
      }),
      hyperv: names('Hyper-V enlightenments for Windows guests that KVM supports.'),
      words: map(
        'Allowed words that depend on the QEMU build, e.g. video.modelType. Words without an entry are not checked.',
        names('The words.'),
      ),
      host: closed("Properties of the node other than QEMU's. Unknown properties are not checked.", {
        numaNodes: integer('The number of NUMA nodes.'),
        pageSizes: list('Sizes of memory pages, in KiB.', integer('KiB.')),
      }),
      firmware: list('Firmware for automatic selection, in the order of precedence.', firmware),
    },
    ['architecture', 'version', 'emulator', 'machines', 'devices', 'accelerators', 'hyperv', 'words', 'firmware'],
  ),
)

/**
 * Validates a profile that was read as JSON from a file. Throws if it is invalid, because profiles are written by
 * programs.
 */
export function readCapabilities(value: unknown): Capabilities {
  if (!conforms(value)) {
    const [first] = checkSchema(capabilitiesSchema, value, '')
    throw new Error(`not a profile of capabilities: ${first?.field ?? ''} ${first?.message ?? ''}`)
  }
  if (!isDefinite(value))
    throw new Error(
      'not a profile of capabilities: machine types, CPU models and firmware must be sorted by name, each alias and the default be of one machine type, and each firmware have its files',
    )
  return value
}

/** Whether these are capabilities that can be combined with those of other nodes. */
export const isCapabilities = (value: unknown): value is Capabilities => conforms(value) && isDefinite(value)

const conforms = (value: unknown): value is Capabilities => checkSchema(capabilitiesSchema, value, '').length === 0

/**
 * Whether nothing depends on which of two equal names counts, or on an order that differs between nodes. Otherwise, a
 * node could have everything that the others have, and still change what they have in common.
 */
function isDefinite({ machines, accelerators: { kvm, qemu }, firmware: descriptors }: Capabilities): boolean {
  const lists = [machines, descriptors, kvm?.cpuModels ?? [], qemu?.cpuModels ?? []]
  const aliases = machines.flatMap(({ alias }) => (alias === undefined ? [] : [alias]))
  return (
    lists.every(isAscending) &&
    new Set(aliases).size === aliases.length &&
    machines.filter(({ isDefault }) => isDefault).length <= 1 &&
    descriptors.every(hasFiles)
  )
}

const isAscending = (list: readonly { readonly name: string }[]): boolean =>
  list.every(({ name }, index) => index === 0 || (list[index - 1]?.name ?? '') < name)

/** The schema does not state which fields belong together. */
function hasFiles({ mapping }: Firmware): boolean {
  if (mapping.device === 'memory') return 'path' in mapping
  return 'code' in mapping && 'mode' in mapping && (mapping.mode !== 'split' || 'variables' in mapping)
}
