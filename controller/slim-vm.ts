import { LRUCache } from 'lru-cache'
import { gracePeriodAnnotation, templateRevisionAnnotation } from '../api/template.ts'
import { isFinished, macsOf } from '../api/virtual-machine.ts'
import type { VirtualMachine, VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Revision } from './engine.ts'

/** A VM as the controller caches it. */
export interface CachedVm extends VirtualMachine {
  /** In place of its provenance: the presets that took part in completing it, by id. */
  readonly presets?: ReadonlyMap<string, Revision>
  /** It awaits its start, and is so large that a pass reads the whole VM from the API server. */
  readonly isPartial?: true
}

/** Characters of JSON. A usual VM has 7,000 before its start; presets can make a megabyte of a few hundred. */
const maxWhole = 16 * 1024

/** Whether it can still start: until its status names its pod and its node, rounds read the whole VM. */
export const awaitsStart = (vm: VirtualMachine): boolean =>
  !isFinished(vm) && (vm.status?.podUID === undefined || vm.status.nodeName === undefined)

/** Sets of presets that are stored once for all VMs with them. */
const maxShared = 1000

/**
 * What the controller caches of a VM. One that waits for its start is cached whole, since its pod is made of its spec.
 * From then on no round reads the domain, neither the stored nor the live one, nor the provenance: three quarters of a
 * VM, times ten thousand. So only large VMs are read from the API server again for what the cache lacks, until they start.
 *
 * A status that starts from a slim VM must be written field by field, or the live domain would be lost.
 */
export function vmSlimmer(
  presetsOf: (vm: VirtualMachine) => ReadonlyMap<string, Revision> | undefined,
): (vm: Persisted<CachedVm>) => Persisted<CachedVm> {
  const shared = new LRUCache<string, ReadonlyMap<string, Revision>>({ max: maxShared })
  const share = (presets: ReadonlyMap<string, Revision>) => {
    const key = JSON.stringify([...presets])
    const known = shared.get(key) ?? presets
    shared.set(key, known)
    return known
  }
  return (vm) => {
    const isStarting = awaitsStart(vm)
    if (isStarting && (vm.isPartial === true || JSON.stringify(vm).length <= maxWhole)) return vm
    const presets = vm.presets ?? presetsOf(vm)
    const { apiVersion, kind, metadata, spec, status = {} } = vm
    return {
      apiVersion,
      kind,
      metadata: slimMetadata(metadata),
      spec: slimSpec(spec),
      status: slimStatus(status),
      ...(presets === undefined ? {} : { presets: share(presets) }),
      ...(isStarting ? { isPartial: true as const } : {}),
    }
  }
}

function slimMetadata(metadata: Persisted<VirtualMachine>['metadata']): Persisted<VirtualMachine>['metadata'] {
  const { annotations = {}, generateName: _prefix, ...rest } = metadata
  const read = [templateRevisionAnnotation, gracePeriodAnnotation].flatMap((key): [string, string][] => {
    const value = annotations[key]
    return value === undefined ? [] : [[key, value]]
  })
  return read.length === 0 ? rest : { ...rest, annotations: Object.fromEntries(read) }
}

function slimSpec(spec: VirtualMachine['spec']): VirtualMachine['spec'] {
  const { terminationGracePeriodSeconds: grace } = spec
  const interfaces = macsOf(spec).map((address) => ({ mac: { address } }))
  return {
    domain: interfaces.length === 0 ? {} : { devices: { interfaces } },
    ...(grace === undefined ? {} : { terminationGracePeriodSeconds: grace }),
  }
}

function slimStatus(status: VirtualMachineStatus): VirtualMachineStatus {
  const { domain: _domain, interfaces: _interfaces, podIP: _ip, ...rest } = status
  const { presets: _presets, machine: _machine, memory: _memory, cpus: _cpus, ...read } = rest
  return read
}
