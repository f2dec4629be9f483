import { LRUCache } from 'lru-cache'
import { controllerOf, gracePeriodAnnotation, templateRevisionAnnotation } from '../api/template.ts'
import { completedByAnnotation, isFinished, launcherPodFinalizer, macsOf } from '../api/virtual-machine.ts'
import type { Phase, VirtualMachine, VirtualMachineStatus } from '../api/virtual-machine.ts'
import { imageOf, type Volume } from '../api/volume.ts'
import { slimProbes } from '../runtime/probe.ts'
import { wholeUpTo } from '../runtime/partial-json.ts'
import { resource, virtualMachines, type Persisted } from '../runtime/resource.ts'
import { pick, slimAnnotations, slimMetadata } from '../runtime/slim.ts'
import { exclusiveClaimsOf, type ClaimUser } from './claim-rival.ts'
import type { StartingVms } from './starting-vms.ts'

/** The hash of a preset's content. */
export type Revision = string

/** A VM as the controller caches it. */
export interface CachedVm extends ClaimUser {
  /** In place of its provenance: the presets that took part in completing it, by id. */
  readonly presets?: ReadonlyMap<string, Revision>
  /** A pass needs the whole VM: it awaits its start, or has large finalizers or owners. */
  readonly isPartial?: true
}

/** Bytes of JSON: as many as a VM has at most that is stored while it awaits its start. */
const maxAnnotations = 64 * 1024

const { accepts: _accepts, ...kind } = virtualMachines
/**
 * Without the live domain, which a launcher reports and which can have a megabyte, and of large annotations only those
 * that are cached: users can add 60,000. Admission limits labels, and the schema the maps of a spec.
 */
export const cachedVms = resource<CachedVm>({
  ...kind,
  read: {
    '*': true,
    metadata: {
      '*': true,
      managedFields: false,
      annotations: {
        [wholeUpTo]: maxAnnotations,
        [templateRevisionAnnotation]: true,
        [gracePeriodAnnotation]: true,
        [completedByAnnotation]: true,
      },
    },
    status: { '*': true, domain: false },
  },
})

/** Whether all of it was read that a pass writes. */
const isWhole = ({ metadata }: CachedVm): boolean => metadata.annotations?.['#'] === undefined

/** Whether it can still start: until its status names its pod and its node, passes need the whole VM. */
export const awaitsStart = (vm: VirtualMachine): boolean =>
  !isFinished(vm) && (vm.status?.podUID === undefined || vm.status.nodeName === undefined)

/** Sets of presets that are stored once for all VMs with them. */
const maxShared = 1000
/** Characters of JSON of finalizers and owners; usual ones have 200. */
const maxReferences = 1024

/**
 * What the controller caches of a VM: the fields that a pass over a VM with a pod reads, that its config or group
 * reads, and that presets are counted by. Only a VM that awaits its start needs its spec and its provenance, since its
 * pod is made of them: `starting` stores these, as many as fit.
 *
 * A status that starts from a slim VM must be written field by field, or the live domain would be lost.
 */
export function vmSlimmer(
  presetsOf: (vm: VirtualMachine) => ReadonlyMap<string, Revision> | undefined,
  starting: StartingVms,
): (vm: Persisted<CachedVm>) => Persisted<CachedVm> {
  const shared = new LRUCache<string, ReadonlyMap<string, Revision>>({ max: maxShared })
  const share = (presets: ReadonlyMap<string, Revision>) => {
    const key = JSON.stringify([...presets])
    const known = shared.get(key) ?? presets
    shared.set(key, known)
    return known
  }
  return (vm) => {
    if (vm.isPartial === true) return vm
    const isStarting = awaitsStart(vm)
    if (isStarting && isWhole(vm)) starting.put(vm)
    const presets = vm.presets ?? presetsOf(vm)
    const { apiVersion, kind, metadata, status = {} } = vm
    const claims = isFinished(vm) ? [] : (vm.exclusiveClaims ?? exclusiveClaimsOf(vm.spec))
    const isLarge = JSON.stringify(pick(metadata, 'finalizers', 'ownerReferences')).length > maxReferences
    return {
      apiVersion,
      kind,
      metadata: { ...slimVmMetadata(metadata), ...(isLarge ? ownReferences(vm) : {}) },
      spec: slimSpec(vm),
      status: slimStatus(status),
      ...(claims.length === 0 ? {} : { exclusiveClaims: claims }),
      ...(presets === undefined ? {} : { presets: share(presets) }),
      ...(isStarting || isLarge ? { isPartial: true as const } : {}),
    }
  }
}

/** A digest, and the digits of seconds. */
const longestAnnotations = { [templateRevisionAnnotation]: 64, [gracePeriodAnnotation]: 10 }

const slimVmMetadata = (metadata: Persisted<VirtualMachine>['metadata']): Persisted<VirtualMachine>['metadata'] => ({
  ...slimMetadata(metadata, 'generation', 'creationTimestamp', 'deletionTimestamp', 'labels'),
  ...pick(metadata, 'deletionGracePeriodSeconds', 'finalizers', 'ownerReferences'),
  ...slimAnnotations(metadata, longestAnnotations),
})

/** Without the finalizers and owners that other clients added. */
function ownReferences(vm: VirtualMachine): Pick<VirtualMachine['metadata'], 'finalizers' | 'ownerReferences'> {
  const owner = controllerOf(vm)
  return {
    finalizers: (vm.metadata.finalizers ?? []).filter((name) => name === launcherPodFinalizer),
    ownerReferences: owner === undefined ? [] : [owner],
  }
}

function slimSpec({ spec, status }: VirtualMachine): VirtualMachine['spec'] {
  const { terminationGracePeriodSeconds: grace } = spec
  const volumes = slimVolumes(spec.volumes ?? [], status?.phase)
  const interfaces = macsOf(spec).map((address) => ({ mac: { address } }))
  return {
    domain: interfaces.length === 0 ? {} : { devices: { interfaces } },
    ...(volumes.length === 0 ? {} : { volumes }),
    ...(grace === undefined ? {} : { terminationGracePeriodSeconds: grace }),
    ...pick(spec, 'attachedVolumes'),
    ...slimProbes(spec),
  }
}

function slimVolumes(volumes: readonly Volume[], phase: Phase | undefined): readonly Volume[] {
  if (phase === 'Scheduled') return volumes.flatMap(slimImage).slice(0, mostImages)
  return phase === 'Running' ? volumes.flatMap(slimClaim) : []
}

/** A VM can have 256, and wait for one of them for any time. Messages about others do not name the volume. */
const mostImages = 16

const none = Object.freeze({})

/** Until the guest runs, a message about an image must name its volume. */
function slimImage(volume: Volume): readonly Volume[] {
  const image = imageOf(volume)
  return image === undefined ? [] : [{ name: volume.name, image: { reference: image.reference } }]
}

/** Once the guest runs, its claims are marked as filled. */
const slimClaim = ({ name, persistentVolumeClaim: claim }: Volume): readonly Volume[] =>
  claim?.source === undefined ? [] : [{ name, persistentVolumeClaim: { claimName: claim.claimName, source: none } }]

function slimStatus(status: VirtualMachineStatus): VirtualMachineStatus {
  const { domain: _domain, interfaces: _interfaces, guest: _guest, podIP: _ip, podIPs: _ips, ...rest } = status
  const { presets: _presets, machine: _machine, memory: _memory, cpus: _cpus, ...read } = rest
  return read
}
