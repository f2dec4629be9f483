import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { storedMachine } from '../test/stored-machine.ts'
import { observeController } from './metrics.ts'

describe('metrics of the controller', () => {
  it('counts VMs by phase, shows the queue, and whether it leads', async () => {
    const registry = new Registry()
    const list = () => [
      storedMachine(),
      storedMachine({ status: { phase: 'Running' } }),
      storedMachine({ status: { phase: 'Running' } }),
    ]
    const statistics = () => ({ waiting: 1, working: 2, delayed: 3, failing: 4, done: 5, failures: 6 })
    observeController(registry, { machines: { store: { list } }, statistics }, () => true)
    const lines = (await registry.metrics()).split('\n').filter((line) => /^virtset_.* [1-9]/.test(line))
    expect(lines).toEqual([
      'virtset_machines{phase="Pending"} 1',
      'virtset_machines{phase="Running"} 2',
      'virtset_queue{state="waiting"} 1',
      'virtset_queue{state="working"} 2',
      'virtset_queue{state="delayed"} 3',
      'virtset_queue{state="failing"} 4',
      'virtset_queue{state="done"} 5',
      'virtset_queue{state="failures"} 6',
      'virtset_leader 1',
    ])
  })
})
