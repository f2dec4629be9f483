import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { emptyInventory, type Inventory } from '../inventory/inventory.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compileParsed } from '../presets/compile.ts'
import { storedVm } from '../test/stored-vm.ts'
import type { Engine } from './engine.ts'
import { cacheRefusals } from './cached-refusals.ts'

const preset = (title: string) =>
  compileParsed({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { namespace: 'default', name: 'titled' },
    spec: { selector: {}, domain: { title } },
  })

/** Counts its calls. */
function counting(): Engine & { calls: number } {
  const engine = {
    calls: 0,
    complete: (vm: VirtualMachine) => ({ vm }),
    presetsOf: () => new Map<string, string>(),
    unfitNodes: () => [],
    forget() {},
    refusals: () => {
      engine.calls += 1
      return []
    },
  }
  return engine
}

const vm = storedVm({ metadata: { generation: 1, namespace: 'default' } })
const withMetadata = (more: object): VirtualMachine => ({ ...vm, metadata: { ...vm.metadata, ...more } })

/** The inventory, and what changes between two rounds. */
const rows: [string, (inventory: { -readonly [K in keyof Inventory]: Inventory[K] }) => VirtualMachine, number][] = [
  ['nothing', () => withMetadata({}), 1],
  ['only the status', () => ({ ...vm, status: { phase: 'Pending' } }), 1],
  ['the spec', () => withMetadata({ generation: 2 }), 2],
  ['a label', () => withMetadata({ labels: { app: 'web' } }), 2],
  ['an annotation', () => withMetadata({ annotations: {} }), 2],
  [
    'a preset',
    ({ candidates }) => {
      candidates.set(preset('other'))
      return vm
    },
    2,
  ],
  [
    'a label of the namespace',
    (inventory) => {
      inventory.namespace = (name) => ({ name, labels: { tier: 'gold' } })
      return vm
    },
    2,
  ],
  [
    'what nodes can do',
    (inventory) => {
      const capabilities = { ...inventory.capabilities() }
      inventory.capabilities = () => capabilities
      return vm
    },
    2,
  ],
]

test.each(rows)('a waiting VM, when %s changes', (_, change, calls) => {
  const inventory = { ...emptyInventory(), candidates: createCandidates([preset('one')]) }
  const engine = counting()
  const cached = cacheRefusals(engine, inventory)
  cached.refusals(vm)
  cached.refusals(vm)
  cached.refusals(change(inventory))
  expect(engine.calls).toBe(calls)
})

test('the refusals of every VM are cached until it is deleted', () => {
  const engine = counting()
  const cached = cacheRefusals(engine, emptyInventory())
  const round = () => {
    for (let index = 0; index < 3000; index += 1) cached.refusals(withMetadata({ uid: `uid-${index}` }))
  }
  round()
  round()
  expect(engine.calls).toBe(3000)
  cached.forget('uid-7')
  round()
  expect(engine.calls).toBe(3001)
})

test('a VM takes little memory, however many presets select it', () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const presets = Array.from({ length: 500 }, (_, index) => {
    const one = preset('same')
    return { ...one, id: `default/${'p'.repeat(240)}-${index}` }
  })
  const cached = cacheRefusals(counting(), { ...emptyInventory(), candidates: createCandidates(presets) })
  cached.refusals(vm)
  collect()
  const { heapUsed: before } = process.memoryUsage()
  for (let index = 0; index < 100; index += 1) cached.refusals(withMetadata({ uid: `uid-${index}` }))
  collect()
  expect((process.memoryUsage().heapUsed - before) / 100).toBeLessThan(20_000)
  // Still in use, so the cache is not collected.
  expect(cached.refusals(vm)).toEqual([])
})

/** Counts how often the nodes are determined. */
function countingNodes(nodes: () => readonly string[]) {
  let calls = 0
  const engine: Engine = {
    ...counting(),
    unfitNodes() {
      calls += 1
      return nodes()
    },
  }
  return { engine, calls: () => calls }
}

test.each<[string, (inventory: { -readonly [K in keyof Inventory]: Inventory[K] }) => VirtualMachine, number]>([
  ['nothing', () => withMetadata({}), 1],
  ['a label', () => withMetadata({ labels: { app: 'web' } }), 1],
  ['only the status', () => ({ ...vm, status: { phase: 'Pending' } }), 1],
  ['the spec', () => withMetadata({ generation: 2 }), 2],
  [
    'what nodes can do',
    (inventory) => {
      const capabilities = { ...inventory.capabilities() }
      inventory.capabilities = () => capabilities
      return vm
    },
    2,
  ],
])('the nodes that cannot run a waiting VM, when %s changes', (_, change, calls) => {
  const inventory = { ...emptyInventory() }
  const counted = countingNodes(() => ['n1'])
  const cached = cacheRefusals(counted.engine, inventory)
  expect([cached.unfitNodes(vm), cached.unfitNodes(vm), cached.unfitNodes(change(inventory))]).toEqual([
    ['n1'],
    ['n1'],
    ['n1'],
  ])
  expect(counted.calls()).toBe(calls)
})

test('VMs that avoid the same nodes share one list, and a deleted VM is forgotten', () => {
  const counted = countingNodes(() => ['n1', 'n2'])
  const cached = cacheRefusals(counted.engine, emptyInventory())
  expect(cached.unfitNodes(withMetadata({ uid: 'a' }))).toBe(cached.unfitNodes(withMetadata({ uid: 'b' })))
  cached.forget('a')
  cached.unfitNodes(withMetadata({ uid: 'a' }))
  expect(counted.calls()).toBe(3)
})
