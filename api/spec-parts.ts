import { checkAttachedVolumes, type AttachedVolume } from './attached-volume.ts'
import type { Cause } from './cause.ts'
import { checkHostDevices, type HostDevice } from './host-device.ts'
import { checkPlacement, type Placement } from './placement.ts'
import { checkPorts, type Port } from './port.ts'
import { checkProbes, type Probes } from './probe.ts'
import { checkResourceClaims, type ResourceClaim } from './resource-claim.ts'
import { checkVolumes, type Volume } from './volume.ts'

interface SpecParts extends Probes, Placement {
  readonly volumes?: readonly Volume[]
  readonly ports?: readonly Port[]
  readonly hostDevices?: readonly HostDevice[]
  readonly resourceClaims?: readonly ResourceClaim[]
  readonly attachedVolumes?: readonly AttachedVolume[]
}

/** The causes in the parts of a valid shape that are not the domain: of a VM, and of a template for VMs. */
export const checkSpecParts = (spec: SpecParts, field: string): readonly Cause[] => [
  ...checkVolumes(spec.volumes ?? [], `${field}.volumes`),
  ...checkPorts(spec.ports ?? [], `${field}.ports`),
  ...checkHostDevices(spec.hostDevices ?? [], `${field}.hostDevices`),
  ...checkResourceClaims(spec.resourceClaims ?? [], `${field}.resourceClaims`),
  ...checkProbes(spec, field),
  ...checkPlacement(spec, field),
  ...checkAttachedVolumes(spec.attachedVolumes ?? [], `${field}.attachedVolumes`),
]
