import { Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import { phases } from '../api/machine.ts'
import type { Controller } from './controller.ts'

interface Observed extends Pick<Controller, 'statistics'> {
  readonly machines: { readonly store: Pick<Controller['machines']['store'], 'list'> }
}

/** What the controller is about: VMs by phase, its queue, and whether it leads. Read when Prometheus asks. */
export function observeController(registry: Registry, controller: Observed, isLeader: () => boolean): void {
  const registers = [registry]
  new Gauge({
    name: 'virtset_machines',
    help: 'VirtualMachines by phase',
    labelNames: ['phase'],
    registers,
    collect() {
      const counts = new Map<string, number>(phases.map((phase) => [phase, 0]))
      for (const { status } of controller.machines.store.list()) {
        const phase = status?.phase ?? 'Pending'
        counts.set(phase, (counts.get(phase) ?? 0) + 1)
      }
      for (const [phase, count] of counts) this.set({ phase }, count)
    },
  })
  new Gauge({
    name: 'virtset_queue',
    help: 'Keys of the work queue by state; done and failures count rounds since the start',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [state, count] of Object.entries(controller.statistics() ?? {})) this.set({ state }, count)
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
