import { isFinished, macsOf, type VirtualMachineSpec, type VirtualMachineStatus } from '../../api/virtual-machine.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { startReflector } from '../../runtime/reflector.ts'
import type { Reflector } from '../../runtime/reflector.ts'
import { identity, resource, virtualMachines } from '../../runtime/resource.ts'
import type { KubeObject, Persisted } from '../../runtime/resource.ts'
import { slimMetadata } from '../../runtime/slim.ts'
import type { Indexers, Store } from '../../runtime/store.ts'
import { claimKey, claimUses, type ClaimUse } from './claim-use.ts'

/** A cached VM: its identity, its MAC addresses, and by `claimKey` the claims that it uses until it has ended. */
export interface CachedVm extends KubeObject {
  readonly macs?: readonly string[]
  readonly claimKeys?: readonly string[]
  /** As the API server sends them; dropped before the VM is cached. */
  readonly spec?: VirtualMachineSpec
  readonly status?: VirtualMachineStatus
}

type VmIndex = 'mac' | 'claim'

/** By MAC address (lower case, with colons), and by `claimKey`. */
export const vmIndexers: Indexers<CachedVm, VmIndex> = {
  mac: ({ macs = [] }) => macs,
  claim: ({ claimKeys = [] }) => claimKeys,
}

const { accepts: _, ...kind } = virtualMachines
/** Users and nodes add a megabyte to the rest. */
const readVms = resource<CachedVm>({ ...kind, read: { metadata: identity, spec: true, status: { phase: true } } })

/** The VMs of the cluster. */
export const watchVms = (kube: KubeClient, log: Logger, clock: Clock): Reflector<CachedVm, VmIndex> =>
  startReflector({ kube, resource: readVms, log, clock, slim: pack, indexers: vmIndexers })

/** The name of a VM, other than `except`, that uses a claim of a namespace in this way and has not ended. */
export const claimUserIn = (
  store: Pick<Store<CachedVm, VmIndex>, 'findByIndex'>,
  namespace: string,
  use: ClaimUse,
  except: string | undefined,
): string | undefined =>
  store.findByIndex('claim', claimKey(namespace, use), ({ metadata }) => metadata.name !== except)?.metadata.name

/** Drops everything that the cache does not need. */
export function pack({ metadata, spec, status = {} }: Persisted<CachedVm>): Persisted<CachedVm> {
  const claims = spec === undefined || isFinished({ status }) ? [] : claimUses(spec)
  return {
    metadata: slimMetadata(metadata),
    macs: spec === undefined ? [] : macsOf(spec),
    ...(claims.length === 0 ? {} : { claimKeys: claims.map((use) => claimKey(metadata.namespace ?? '', use)) }),
  }
}
