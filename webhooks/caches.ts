import { emptyInventory, type Inventory } from '../inventory/inventory.ts'
import { watchInventory } from '../inventory/watched.ts'
import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Logger } from '../runtime/log.ts'
import { startReflector, type Reflector } from '../runtime/reflector.ts'
import type { KubeObject } from '../runtime/resource.ts'
import { createArrivals, type Arrivals } from './arrivals.ts'
import { limitRanges, noBudget, resourceQuotas, type Budget } from './budget.ts'
import { watchMachines } from './machines.ts'

/** What admission knows of the cluster. It makes no request to the API server while it handles one. */
export interface AdmissionCaches extends Inventory {
  readonly arrivals: Arrivals
  /** What a namespace allows its pods. */
  budget(namespace: string): Budget
  /** Milliseconds since the API server was last heard from, by the cache for which it is longest. */
  ageMs(): number
}

export interface WatchedCaches extends AdmissionCaches {
  /** Why requests cannot be handled yet, a sentence each. */
  unready(): string[]
  readonly reflectors: readonly Pick<Reflector<KubeObject>, 'ageMs' | 'statistics' | 'hasSynced' | 'synced'>[]
  stop(): Promise<void>
}

export function startCaches(kube: KubeClient, log: Logger, clock: Clock): WatchedCaches {
  const arrivals = createArrivals(clock)
  const machines = watchMachines(kube, log, clock)
  const indexers = { namespace: ({ metadata: { namespace = '' } }: KubeObject) => [namespace] }
  const ranges = startReflector({ kube, resource: limitRanges, log, clock, indexers })
  const quotas = startReflector({ kube, resource: resourceQuotas, log, clock, indexers })
  const inventory = watchInventory({ kube, log, clock, withMac: (address) => machines.store.byIndex('mac', address) })
  inventory.onPresetChange((id) => arrivals.arrived(id))
  const reflectors = [...inventory.reflectors, machines, ranges, quotas]
  return {
    ...inventory,
    arrivals,
    budget: (name) => ({
      ranges: ranges.store.byIndex('namespace', name),
      quotas: quotas.store.byIndex('namespace', name),
    }),
    unready: () =>
      reflectors
        .filter((reflector) => !reflector.hasSynced())
        .map((reflector) => `the cache of ${reflector.statistics().resource} is not filled yet`),
    ageMs: () => Math.max(...reflectors.map((reflector) => reflector.ageMs())),
    reflectors,
    async stop() {
      await Promise.all([inventory, machines, ranges, quotas].map((cache) => cache.stop()))
    },
  }
}

/** Admission without a cluster: over presets from files, in tests, and while the process warms up. */
export const cachesWithout = (clock: Clock, inventory: Inventory = emptyInventory()): AdmissionCaches => ({
  ...inventory,
  arrivals: createArrivals(clock),
  budget: () => noBudget,
  ageMs: () => 0,
})
