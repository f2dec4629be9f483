import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { VirtualMachineConfig } from '../api/config.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import { storedVm } from '../test/stored-vm.ts'
import { observeController } from './metrics.ts'

const template = { spec: storedVm().spec }
const config = (status?: VirtualMachineConfig['status']): VirtualMachineConfig => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'default', name: 'web' },
  spec: { template },
  ...(status === undefined ? {} : { status }),
})
const group = (name: string, replicas?: number, status?: VirtualMachineGroup['status']): VirtualMachineGroup => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  metadata: { namespace: 'default', name },
  spec: {
    selector: { matchLabels: { app: 'web' } },
    template,
    ...(replicas === undefined ? {} : { replicas }),
  },
  ...(status === undefined ? {} : { status }),
})

/** Everything but the groups is empty. */
const nothing = {
  vms: { store: { list: () => [] } },
  configs: { store: { list: () => [] } },
  presets: { candidates: { size: () => 0 }, quarantined: { size: 0 } },
  profiles: () => ({ nodes: 0, outliers: [] }),
  queues: {},
  isLeader: () => true,
}

test('a namespace has series of 32 groups, the first by name, and of the sum of the others', async () => {
  const registry = new Registry()
  const many = Array.from({ length: 40 }, (_, index) => group(`g${10 + index}`, 2, { readyReplicas: 1 })).toReversed()
  const elsewhere = { ...group('z'), metadata: { namespace: 'other', name: 'z' } }
  observeController(registry, { ...nothing, groups: { store: { list: () => [...many, elsewhere] } } })
  const desired = (await registry.metrics()).split('\n').filter((line) => line.includes('state="desired"'))
  const named = Array.from({ length: 32 }, (_, index) => `g${10 + index}`)
  expect(desired).toEqual([
    ...named.map((name) => `virtset_group_replicas{group_namespace="default",group="${name}",state="desired"} 2`),
    'virtset_group_replicas{group_namespace="default",group="_other",state="desired"} 16',
    'virtset_group_replicas{group_namespace="other",group="z",state="desired"} 1',
  ])
})

test('VMs and configs by phase, replicas of groups, queues, and leadership; a deleted group is no longer reported', async () => {
  const registry = new Registry()
  const vms = [{}, { status: { phase: 'Running' } }, { status: { phase: 'Running' } }] as const
  const groups = [group('fresh'), group('web', 5, { replicas: 3, readyReplicas: 2 })]
  const statistics = () => ({ waiting: 1, working: 2, delayed: 3, failing: 4, done: 5, failures: 6 })
  observeController(registry, {
    vms: { store: { list: () => vms.map((over) => storedVm(over)) } },
    configs: { store: { list: () => [config(), config({ phase: 'Failed' })] } },
    groups: { store: { list: () => groups } },
    presets: { candidates: { size: () => 7 }, quarantined: { size: 2 } },
    profiles: () => ({ nodes: 5, outliers: ['broken'] }),
    queues: { vms: { statistics }, groups: { statistics: () => undefined } },
    isLeader: () => true,
  })
  const linesOf = async (name: string) =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith(name) && !line.endsWith(' 0'))
  expect(await linesOf('virtset_')).toEqual([
    'virtset_vms{phase="Pending"} 1',
    'virtset_vms{phase="Running"} 2',
    'virtset_configs{phase="Stopped"} 1',
    'virtset_configs{phase="Failed"} 1',
    'virtset_group_replicas{group_namespace="default",group="fresh",state="desired"} 1',
    'virtset_group_replicas{group_namespace="default",group="web",state="desired"} 5',
    'virtset_group_replicas{group_namespace="default",group="web",state="current"} 3',
    'virtset_group_replicas{group_namespace="default",group="web",state="ready"} 2',
    'virtset_presets{state="accepted"} 7',
    'virtset_presets{state="quarantined"} 2',
    'virtset_node_profiles{state="counted"} 4',
    'virtset_node_profiles{state="outlier"} 1',
    'virtset_queue{queue="vms",state="waiting"} 1',
    'virtset_queue{queue="vms",state="working"} 2',
    'virtset_queue{queue="vms",state="delayed"} 3',
    'virtset_queue{queue="vms",state="failing"} 4',
    'virtset_queue{queue="vms",state="done"} 5',
    'virtset_queue{queue="vms",state="failures"} 6',
    'virtset_leader 1',
  ])
  groups.pop()
  expect(await linesOf('virtset_group')).toEqual([
    'virtset_group_replicas{group_namespace="default",group="fresh",state="desired"} 1',
  ])
})
