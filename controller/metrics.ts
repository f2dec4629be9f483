import { Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import { configPhases } from '../api/config.ts'
import type { VirtualMachineConfig } from '../api/config.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import { phases } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { WorkQueueStatistics } from '../runtime/work-queue.ts'

interface Cache<T> {
  readonly store: { list(): readonly T[] }
}

export interface Observed {
  readonly machines: Cache<VirtualMachine>
  readonly configs: Cache<VirtualMachineConfig>
  readonly groups: Cache<VirtualMachineGroup>
  readonly presets: { readonly candidates: { size(): number }; readonly quarantined: { readonly size: number } }
  readonly profiles: () => { readonly nodes: number; readonly outliers: readonly string[] }
  /** By what they are about. */
  readonly queues: { readonly [name: string]: { statistics(): WorkQueueStatistics | undefined } }
  readonly isLeader: () => boolean
}

/** What the controller is about: VMs and configs by phase, what groups have of what they want, its queues, and whether it leads. Read when Prometheus asks. */
export function observeController(registry: Registry, observed: Observed): void {
  const { machines, configs, groups, presets, profiles, queues, isLeader } = observed
  const registers = [registry]
  new Gauge({
    name: 'virtset_vms',
    help: 'VirtualMachines by phase',
    labelNames: ['phase'],
    registers,
    collect() {
      const found = machines.store.list().map(({ status }) => status?.phase ?? 'Pending')
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
    help: 'VMs of each VirtualMachineGroup: wanted, there (those that end included), and ready',
    // Not `namespace`: Prometheus gives each target that label, of its own.
    labelNames: ['group_namespace', 'group', 'state'],
    registers,
    collect() {
      // Groups that are gone must not be told of for ever.
      this.reset()
      for (const { metadata, spec, status } of groups.store.list()) {
        const labels = { group_namespace: metadata.namespace ?? '', group: metadata.name ?? '' }
        this.set({ ...labels, state: 'wanted' }, spec.replicas ?? 1)
        this.set({ ...labels, state: 'there' }, status?.replicas ?? 0)
        this.set({ ...labels, state: 'ready' }, status?.readyReplicas ?? 0)
      }
    },
  })
  new Gauge({
    name: 'virtset_presets',
    help: 'Presets by whether they take part, or are broken and quarantined',
    labelNames: ['state'],
    registers,
    collect() {
      this.set({ state: 'accepted' }, presets.candidates.size())
      this.set({ state: 'quarantined' }, presets.quarantined.size)
    },
  })
  new Gauge({
    name: 'virtset_node_profiles',
    help: 'Profiles of nodes by whether they count for VMs, or are outliers that lack what nearly all others have',
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
    help: 'Keys of the work queues by state; done and failures count rounds since the start',
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

/** How often each of `all` is found; none is missing for being found never. */
function countOf(all: readonly string[], found: readonly string[]): Map<string, number> {
  const counts = new Map(all.map((one) => [one, 0]))
  for (const one of found) counts.set(one, (counts.get(one) ?? 0) + 1)
  return counts
}
