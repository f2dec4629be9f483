import { emptyInventory, type Inventory } from '../../inventory/inventory.ts'
import { watchInventory, type WatchedInventory } from '../../inventory/watched.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { createLanes } from '../../runtime/lanes.ts'
import type { Logger } from '../../runtime/log.ts'
import { startReflector, type Reflector } from '../../runtime/reflector.ts'
import { namespaces, type KubeObject, type Persisted, type Resource } from '../../runtime/resource.ts'
import { slimMetadata } from '../../runtime/slim.ts'
import type { ClaimUse } from './claim-use.ts'
import { createNewNamespaces, type NewNamespaces } from './new-namespaces.ts'
import { createPendingPresets, type PendingPresets } from './pending-presets.ts'
import { createPlaces } from './places.ts'
import { limitRanges, noQuota, resourceQuotas, slimQuota, slimRange, type NamespaceQuota } from './quota.ts'
import type { LimitRange, ResourceQuota } from './quota.ts'
import { claimUserIn, watchVms } from './watched-vms.ts'

/** The state of the cluster that admission uses, so that handling a request needs no request to the API server. */
export interface AdmissionCaches extends Inventory {
  readonly pendingPresets: PendingPresets
  readonly newNamespaces: Pick<NewNamespaces, 'wait'>
  /** The limits of a namespace for its pods, at most 16 ranges and 16 quotas. */
  quota(namespace: string): NamespaceQuota
  /** The name of a VM, other than `except`, that uses a claim in this way and has not ended. */
  claimUser(namespace: string, use: ClaimUse, except: string | undefined): string | undefined
  /** Milliseconds since the API server last sent data to the stalest cache. */
  ageMs(): number
}

export interface WatchedCaches extends AdmissionCaches, Pick<WatchedInventory, 'sessionEndpoint'> {
  /** Why requests cannot be handled yet, one sentence each. */
  unready(): string[]
  readonly reflectors: readonly Pick<Reflector<KubeObject>, 'ageMs' | 'statistics' | 'hasSynced' | 'synced'>[]
  stop(): Promise<void>
}

/** LimitRanges, and ResourceQuotas, of a namespace with which its VMs are compared. */
const mostLimits = 16

const slimIdentity = ({ metadata }: Persisted<KubeObject>): Persisted<KubeObject> => ({
  metadata: slimMetadata(metadata),
})

/** Of requests for namespaces that the watch has not reported yet. */
const namespaceLanes = { all: 4, perNamespace: 1 }

export function startCaches(kube: KubeClient, log: Logger, clock: Clock): WatchedCaches {
  const arrivals = createPendingPresets(clock)
  const vms = watchVms(kube, log, clock)
  /** The first of each namespace; of others, only the identity is cached. */
  const watchFirst = <T extends LimitRange | ResourceQuota>(
    of: Resource<T>,
    slim: (object: Persisted<T>) => Persisted<T>,
    slimOther: (object: Persisted<KubeObject>) => Persisted<T>,
  ) => {
    const places = createPlaces(mostLimits)
    const reflector = startReflector({
      kube,
      resource: of,
      log,
      clock,
      indexers: { namespace: ({ metadata, spec }: T) => (spec === undefined ? [] : [metadata.namespace ?? '']) },
      slim: (object) => (places.take(object) ? slim(object) : slimOther(object)),
    })
    reflector.onChange(({ kind, object }) => {
      if (kind === 'deleted') places.leave(object)
    })
    return reflector
  }
  const ranges = watchFirst(limitRanges, slimRange, slimIdentity)
  const quotas = watchFirst(resourceQuotas, slimQuota, slimIdentity)
  const inventory = watchInventory({
    kube,
    log,
    clock,
    findWithMac: (address, isWanted) => vms.store.findByIndex('mac', address, isWanted),
  })
  inventory.onPresetChange((id, isNewSpec) => {
    const { candidates, quarantined } = inventory
    if (isNewSpec) arrivals.arrived(id, () => (candidates.get(id) ?? quarantined.get(id))?.size ?? 0)
  })
  const reading = createLanes(namespaceLanes)
  const newNamespaces = createNewNamespaces(
    (name) => inventory.hasNamespace(name),
    async (name) => {
      const read = () => kube.list(namespaces, { fieldSelector: `metadata.name=${name}` })
      const { items } = await reading.run(name, read)
      return items.map(({ metadata }) => ({ name, labels: metadata.labels ?? {} }))[0]
    },
    clock,
  )
  const reflectors = [...inventory.reflectors, vms, ranges, quotas]
  return {
    ...inventory,
    namespace: (name) =>
      (inventory.hasNamespace(name) ? undefined : newNamespaces.get(name)) ?? inventory.namespace(name),
    newNamespaces,
    pendingPresets: arrivals,
    quota: (name) => ({
      ranges: ranges.store.byIndex('namespace', name),
      quotas: quotas.store.byIndex('namespace', name),
    }),
    claimUser: (namespace, use, except) => claimUserIn(vms.store, namespace, use, except),
    unready: () =>
      reflectors
        .filter((reflector) => !reflector.hasSynced())
        .map((reflector) => `the cache of ${reflector.statistics().resource} has not synced yet`),
    ageMs: () => Math.max(...reflectors.map((reflector) => reflector.ageMs())),
    reflectors,
    async stop() {
      await Promise.all([inventory, vms, ranges, quotas].map((cache) => cache.stop()))
    },
  }
}

/** Without a cluster: for presets from files, tests, and the warm-up. */
export const cachesWithout = (clock: Clock, inventory: Inventory = emptyInventory()): AdmissionCaches => ({
  ...inventory,
  pendingPresets: createPendingPresets(clock),
  newNamespaces: { wait: () => undefined },
  quota: () => noQuota,
  claimUser: () => undefined,
  ageMs: () => 0,
})
