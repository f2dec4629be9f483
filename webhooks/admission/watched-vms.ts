import { isFinished, macsOf, type VirtualMachineSpec, type VirtualMachineStatus } from '../../api/virtual-machine.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import type { Reflector } from '../../runtime/reflector.ts'
import { resource, virtualMachines } from '../../runtime/resource.ts'
import type { KubeObject, Persisted } from '../../runtime/resource.ts'
import { slimMetadata } from '../../runtime/slim.ts'
import { claimUses, type ClaimUse } from './claim-use.ts'

/** A cached VM: its identity, its MAC addresses, and the claims that it uses until it has ended. */
export interface CachedVm extends KubeObject {
  readonly macs?: readonly string[]
  readonly claims?: readonly ClaimUse[]
  /** As the API server sends them; dropped before the VM is cached. */
  readonly spec?: VirtualMachineSpec
  readonly status?: VirtualMachineStatus
}

/** The VMs of the cluster, indexed by MAC address (lower case, with colons) and by `claimKey`. */
export function watchVms(kube: KubeClient, log: Logger, clock: Clock): Reflector<CachedVm, 'mac' | 'claim'> {
  const { accepts: _, ...of } = virtualMachines
  return startReflector({
    kube,
    resource: resource<CachedVm>(of),
    log,
    clock,
    slim: pack,
    indexers: {
      mac: ({ macs = [] }) => macs,
      claim: ({ metadata: { namespace = '' }, claims = [] }) => claims.map(({ claim }) => claimKey(namespace, claim)),
    },
  })
}

export const claimKey = (namespace: string, claim: string): string => `${namespace}/${claim}`

/** Drops everything that the cache does not need. */
export function pack({ metadata, spec, status = {} }: Persisted<CachedVm>): Persisted<CachedVm> {
  const claims = spec === undefined || isFinished({ status }) ? [] : claimUses(spec)
  return {
    metadata: slimMetadata(metadata),
    macs: spec === undefined ? [] : macsOf(spec),
    ...(claims.length === 0 ? {} : { claims }),
  }
}
