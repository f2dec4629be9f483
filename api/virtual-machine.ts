import {
  attachedVolumes,
  explainAttached,
  type AttachedVolume,
  type AttachedVolumeStatus,
  type AttachmentPod,
} from './attached-volume.ts'
import type { Cause } from './cause.ts'
import type { Domain } from './domain/domain.ts'
import { canonicalValue } from './domain/scalar-value.ts'
import { validateDomain } from './domain/validate.ts'
import { capCauses } from './causes.ts'
import { requiredField, wrongType } from './field-error.ts'
import { faultless } from './valid-part.ts'
import { checkMetadata } from './metadata.ts'
import type { Condition, ObjectMeta } from './object.ts'
import { ports, type Port } from './port.ts'
import { placement, type Placement } from './placement.ts'
import type { GuestStatus } from './guest.ts'
import { hostDevices, type HostDevice } from './host-device.ts'
import { resourceClaims, type ResourceClaim } from './resource-claim.ts'
import { livenessProbe, readinessProbe, startupProbe, type Probes } from './probe.ts'
import { boolean, bounded, checkSchema, isRecord, opaque, open, quantity, string } from './schema.ts'
import type { Schema, SchemasOf } from './schema.ts'
import { checkSpecParts } from './spec-parts.ts'
import { taps, type Tap } from './tap.ts'
import { volumes, type Volume } from './volume.ts'

export interface VirtualMachineSpec extends Placement, Probes {
  readonly domain: Domain
  readonly volumes?: readonly Volume[]
  readonly ports?: readonly Port[]
  readonly taps?: readonly Tap[]
  /** The name of a volume on a claim. */
  readonly deviceStateVolume?: string
  readonly dedicatedCPUs?: boolean
  /** A quantity. */
  readonly memoryRequest?: string
  /** Host-reaching. */
  readonly hostDevices?: readonly HostDevice[]
  /** Host-reaching. */
  readonly resourceClaims?: readonly ResourceClaim[]
  /** The only field that presets cannot set: it changes while the VM runs. */
  readonly attachedVolumes?: readonly AttachedVolume[]
}

export const phases = ['Pending', 'Scheduling', 'Scheduled', 'Running', 'Succeeded', 'Failed', 'Unknown'] as const
export type Phase = (typeof phases)[number]

export interface InterfaceStatus {
  readonly name?: string
  readonly mac?: string
  /** Of a NetworkAttachmentDefinition: NAMESPACE/NAME. Absent if it is that of the pod. */
  readonly network?: string
  /** The interface of the launcher pod whose network it shares, and the addresses at which others reach the guest. */
  readonly podInterface?: string
  readonly ips?: readonly string[]
  /** What the agent in the guest claims, and who reported which part. */
  readonly guestIPs?: readonly string[]
  readonly infoSource?: readonly string[]
}

/** A request of the controller to freeze the file systems of the guest for the snapshot with this UID, or to thaw them. */
export interface FreezeRequest {
  readonly id: string
  readonly thaw?: boolean
}

export const freezeStates = ['Freezing', 'Frozen', 'Failed', 'Thawing', 'Thawed', 'Expired'] as const
export type FreezeState = (typeof freezeStates)[number]

/** What the launcher has made of the request with this `id`. */
export interface FreezeStatus {
  readonly id: string
  readonly state: FreezeState
  readonly message?: string
}

export interface VirtualMachineStatus {
  readonly observedGeneration?: number
  readonly phase?: Phase
  /** A CamelCase word and a sentence that explain the phase, if needed. */
  readonly reason?: string
  readonly message?: string
  readonly nodeName?: string
  /** The only launcher pod that this VM ever has. */
  readonly podUID?: string
  /** The longest grace period with which that pod was deleted, if it is longer than that of its spec. */
  readonly podGracePeriodSeconds?: number
  /** The first of `podIPs`. */
  readonly podIP?: string
  readonly podIPs?: readonly { readonly ip: string }[]
  /**
   * The live domain as libvirt describes it, addresses included. Limited in size, with characters that can be shown,
   * otherwise as the launcher sent it.
   */
  readonly domain?: { readonly [key: string]: unknown }
  readonly interfaces?: readonly InterfaceStatus[]
  readonly guest?: GuestStatus
  readonly freeze?: FreezeRequest
  readonly frozen?: FreezeStatus
  readonly attachedVolumes?: readonly AttachedVolumeStatus[]
  readonly attachmentPods?: readonly AttachmentPod[]
  readonly phaseTransitionTimestamps?: readonly { readonly phase: Phase; readonly time: string }[]
  /** For printer columns: the applied presets, machine type, memory, virtual CPUs. */
  readonly presets?: string
  readonly machine?: string
  readonly memory?: string
  readonly cpus?: number
  readonly conditions?: readonly Condition[]
}

export interface VirtualMachine {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachine'
  readonly metadata: ObjectMeta
  readonly spec: VirtualMachineSpec
  readonly status?: VirtualMachineStatus
}

/** Stores the provenance of a completed VM. A VM without it was never completed. */
export const completedByAnnotation = 'virtset.io/completed-by'
export const excludePresetsAnnotation = 'virtset.io/exclude-presets'
/** Set until no launcher pod of the VM remains. */
export const launcherPodFinalizer = 'virtset.io/launcher-pod'

/** The fields of `spec` beside the domain. Presets can set each of them; their schemas define how they merge. */
export const specFields = {
  volumes,
  ports,
  taps,
  readinessProbe,
  livenessProbe,
  startupProbe,
  deviceStateVolume: string(
    'The name of a volume of kind persistentVolumeClaim that keeps the variables of UEFI firmware and the state of a TPM, as files NAME_VARS.fd and NAME_TPM for the VM of this name. If absent, they are deleted with the VM.',
    { minLength: 1 },
  ),
  dedicatedCPUs: boolean(
    'Whether each virtual CPU has a CPU of the node to itself. Requires nodes whose kubelet has the static CPU manager policy.',
  ),
  memoryRequest: quantity(
    'The part of the memory of the guest that the pod requests; all of it if absent. If the guest uses more and the node runs out of memory, the VM is among the first to be ended.',
  ),
  hostDevices,
  resourceClaims,
  ...placement,
} satisfies SchemasOf<Omit<VirtualMachineSpec, 'domain' | 'attachedVolumes'>>

export const specKeys = Object.keys(specFields) as readonly (keyof typeof specFields)[]

/** The schema of `spec`. The domain has a schema of its own. */
const specSchema: Schema = bounded(
  open(
    'The virtual machine to run. Immutable once persisted, except for `attachedVolumes` and the media of CD drives.',
    { domain: opaque("The virtual machine: libvirt's Domain XML as JSON."), ...specFields, attachedVolumes },
    ['domain'],
  ),
)

/** The schema of `spec` in the CRD. */
export const virtualMachineSpecSchema = (domain: Schema): Schema => ({
  ...specSchema,
  properties: { ...specSchema.properties, domain },
})

/**
 * Parses a VM from untrusted JSON. Reports every fault of a single value. The rules of completion check relations
 * (disks and their volumes, devices and buses).
 */
export function parseVirtualMachine(
  value: unknown,
): { readonly vm: VirtualMachine } | { readonly causes: readonly Cause[] } {
  const causes = vmCauses(value)
  // A value without causes has this type.
  return causes.length > 0 ? { causes } : { vm: value as VirtualMachine }
}

/**
 * A VM can have 256 interfaces, and every VM of the cluster is cached with its addresses: a tenant's VMs could take all
 * memory.
 */
const mostMacs = 16

/** The MAC addresses of the first 16 interfaces of a VM, in lower case with colons. */
export const macsOf = ({ domain }: VirtualMachineSpec): readonly string[] =>
  (domain.devices?.interfaces ?? []).slice(0, mostMacs).flatMap(({ mac }) => macOf(mac?.address) ?? [])

/** A MAC address in lower case with colons. */
export function macOf(address: string | undefined): string | undefined {
  const canonical = canonicalValue({ kind: 'mac' }, address)
  return typeof canonical === 'string' ? canonical : undefined
}

/** Whether the VM has ended. It is never started again. */
export const isFinished = ({ status }: Pick<VirtualMachine, 'status'>): boolean =>
  status?.phase === 'Succeeded' || status?.phase === 'Failed'

/**
 * The valid part of an invalid VM, so that the rules can check it in the same response.
 * @param causes what `parseVirtualMachine` found, if already known
 * @returns `without`: the paths that were removed; undefined if what remains is not a VM
 */
export function validPartOf(
  value: unknown,
  causes?: readonly Cause[],
): { readonly vm: VirtualMachine; readonly without: readonly string[] } | undefined {
  const found = faultless(value, vmCauses, causes)
  return found && { vm: found.rest as VirtualMachine, without: found.without }
}

function vmCauses(value: unknown): readonly Cause[] {
  if (!isRecord(value)) return [wrongType('', value, 'an object')]
  const shape = [
    ...checkMetadata(value['metadata'], 'metadata'),
    ...(Object.hasOwn(value, 'spec')
      ? checkSchema(specSchema, value['spec'], 'spec').map(explainAttached)
      : [requiredField('spec')]),
  ]
  const causes = [...shape, ...domainCauses(value['spec'])]
  if (shape.length > 0) return capCauses(causes, 'spec')
  const { spec } = value as unknown as VirtualMachine
  return capCauses([...causes, ...checkSpecParts(spec, 'spec')], 'spec')
}

const domainCauses = (spec: unknown): Cause[] =>
  isRecord(spec) && isRecord(spec['domain']) ? validateDomain(spec['domain'], 'spec.domain') : []
