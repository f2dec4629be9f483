import { macsOf, type VirtualMachineSpec } from '../../api/virtual-machine.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import type { Reflector } from '../../runtime/reflector.ts'
import { resource, virtualMachines } from '../../runtime/resource.ts'
import type { KubeObject, Persisted } from '../../runtime/resource.ts'
import { slimMetadata } from '../../runtime/slim.ts'

/** A cached VM: its identity and its MAC addresses. */
export interface CachedVm extends KubeObject {
  readonly macs?: readonly string[]
  /** As the API server sends it; dropped before the VM is cached. */
  readonly spec?: VirtualMachineSpec
}

/** The VMs of the cluster, indexed by MAC address: lower case, with colons. */
export function watchVmMacs(kube: KubeClient, log: Logger, clock: Clock): Reflector<CachedVm, 'mac'> {
  const { accepts: _, ...of } = virtualMachines
  return startReflector({
    kube,
    resource: resource<CachedVm>(of),
    log,
    clock,
    slim: pack,
    indexers: { mac: ({ macs = [] }) => macs },
  })
}

/** Drops everything that the cache does not need. */
export function pack({ metadata, spec }: Persisted<CachedVm>): Persisted<CachedVm> {
  return { metadata: slimMetadata(metadata), macs: spec === undefined ? [] : macsOf(spec) }
}
