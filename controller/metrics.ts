import { Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import { configPhases } from '../api/config.ts'
import { phases } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'
import type { CachedConfig, CachedGroup } from './slim-owner.ts'

interface Cache<T> {
  readonly store: { list(): readonly T[] }
}

interface Observed {
  readonly vms: Cache<VirtualMachine>
  readonly configs: Cache<CachedConfig>
  readonly groups: Cache<CachedGroup>
  readonly presets: { readonly candidates: { size(): number }; readonly quarantined: { readonly size: number } }
  readonly profiles: () => { readonly nodes: number; readonly outliers: readonly string[] }
  /** The work queues by kind. */
  readonly queues: { readonly [name: string]: { statistics(): WorkQueueStatistics | undefined } }
  readonly isLeader: () => boolean
}

/** The groups of a namespace with series of their own. Tenants can create any number of groups, but no namespaces. */
const mostGroups = 32
/** The sum of the others of the namespace; not a valid name of a group. */
const otherGroups = '_other'

const byName = ({ metadata: one }: CachedGroup, { metadata: other }: CachedGroup): number =>
  (one.name ?? '') < (other.name ?? '') ? -1 : 1

/**
 * VMs and configs by phase, replicas of groups, presets, queues, and whether this replica leads. Collected when
 * Prometheus scrapes.
 */
export function observeController(registry: Registry, observed: Observed): void {
  const { vms, configs, groups, presets, profiles, queues, isLeader } = observed
  const registers = [registry]
  new Gauge({
    name: 'virtset_vms',
    help: 'VirtualMachines by phase',
    labelNames: ['phase'],
    registers,
    collect() {
      const found = vms.store.list().map(({ status }) => status?.phase ?? 'Pending')
      for (const [phase, count] of countOf(phases, found)) this.set({ phase }, count)
    },
  })
  new Gauge({
    name: 'virtset_configs',
    help: 'VirtualMachineConfigs by phase',
    labelNames: ['phase'],
    registers,
    collect() {
      const found = configs.store.list().map(({ status }) => status?.phase ?? 'Stopped')
      for (const [phase, count] of countOf(configPhases, found)) this.set({ phase }, count)
    },
  })
  new Gauge({
    name: 'virtset_group_replicas',
    help: 'VMs of VirtualMachineGroups: desired, current (terminating ones included), and ready; `_other`: of those after the first 32 of a namespace',
    // Not `namespace`: Prometheus sets that label on each target.
    labelNames: ['group_namespace', 'group', 'state'],
    registers,
    collect() {
      // Deleted groups must not be reported forever.
      this.reset()
      const shown = new Map<string, number>()
      // The same groups in every replica of the controller.
      for (const { metadata, spec, status } of groups.store.list().toSorted(byName)) {
        const { namespace = '', name = '' } = metadata
        const count = (shown.get(namespace) ?? 0) + 1
        shown.set(namespace, count)
        const labels = { group_namespace: namespace, group: count > mostGroups ? otherGroups : name }
        this.inc({ ...labels, state: 'desired' }, spec.replicas ?? 1)
        this.inc({ ...labels, state: 'current' }, status?.replicas ?? 0)
        this.inc({ ...labels, state: 'ready' }, status?.readyReplicas ?? 0)
      }
    },
  })
  new Gauge({
    name: 'virtset_presets',
    help: 'Presets by state: accepted, or quarantined because they are invalid',
    labelNames: ['state'],
    registers,
    collect() {
      this.set({ state: 'accepted' }, presets.candidates.size())
      this.set({ state: 'quarantined' }, presets.quarantined.size)
    },
  })
  new Gauge({
    name: 'virtset_node_profiles',
    help: 'Node profiles, by whether completion counts them or ignores them as outliers',
    labelNames: ['state'],
    registers,
    collect() {
      const { nodes, outliers } = profiles()
      this.set({ state: 'counted' }, nodes - outliers.length)
      this.set({ state: 'outlier' }, outliers.length)
    },
  })
  new Gauge({
    name: 'virtset_queue',
    help: 'Keys in the work queues by state; the states done and failures count passes since the start',
    labelNames: ['queue', 'state'],
    registers,
    collect() {
      for (const [queue, owner] of Object.entries(queues)) {
        for (const [state, count] of Object.entries(owner.statistics() ?? {})) this.set({ queue, state }, count)
      }
    },
  })
  new Gauge({
    name: 'virtset_leader',
    help: '1 if this replica leads',
    registers,
    collect() {
      this.set(isLeader() ? 1 : 0)
    },
  })
}

/** The number of occurrences in `found` of each of `all`, 0 included. */
function countOf(all: readonly string[], found: readonly string[]): Map<string, number> {
  const counts = new Map(all.map((one) => [one, 0]))
  for (const one of found) counts.set(one, (counts.get(one) ?? 0) + 1)
  return counts
}
