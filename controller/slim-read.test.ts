import { expect, test } from 'vitest'
import { authorAnnotation } from '../api/object-preset.ts'
import { readObjectPresets, slimPreset as slimObjectPreset } from '../inventory/objects.ts'
import { readPresets, slimPreset } from '../inventory/watched.ts'
import { parserOf, type Parts } from '../runtime/partial-json.ts'
import { objectPresets, virtualMachinePresets } from '../runtime/resource.ts'
import { budgets, cachedBudgets, groupUidLabel, slimBudget } from './budget.ts'
import { configSlimmer, groupSlimmer, readOwner } from './slim-owner.ts'
import { cachedSnapshots, slimSnapshot } from './snapshot-controller.ts'

const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`l${index}`, 'theirs']))
const owner = { kind: 'VirtualMachineGroup', name: 'o', uid: 'u-2', controller: true }
const enlarged = (spec: object, status: object) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'X',
  metadata: {
    name: 'n',
    namespace: 'default',
    uid: 'u-1',
    resourceVersion: '5',
    generation: 2,
    creationTimestamp: '2030-01-01T00:00:00Z',
    deletionTimestamp: '2030-01-02T00:00:00Z',
    labels: { ...many, [groupUidLabel]: 'u-2' },
    annotations: { ...many, [authorAnnotation]: 'author' },
    ownerReferences: [
      { apiVersion: 'virtset.io/v1alpha1', ...owner },
      ...Array.from({ length: 100 }, (_, index) => ({ apiVersion: 'v1', kind: 'X', name: 'theirs', uid: `${index}` })),
    ],
    finalizers: ['theirs'],
    managedFields: [{ manager: 'theirs' }],
  },
  spec,
  status,
})

type Slim = (object: never) => unknown
const template = { spec: { domain: { type: 'qemu' } } }
const ofGroup = { replicas: 2, minAvailable: 1, selector: { matchLabels: { a: 'b' } }, template }

test.each<[string, Parts, Slim, object, object]>([
  ['A config', readOwner, configSlimmer().slim, { template, claimTemplates: [] }, { phase: 'Running' }],
  ['A group', readOwner, groupSlimmer().slim, ofGroup, { replicas: 2 }],
  [
    'A snapshot',
    cachedSnapshots.read,
    slimSnapshot,
    { source: { name: 'vm' } },
    { phase: 'InProgress', creationTime: 't', volumes: [{ name: 'theirs' }] },
  ],
  ['A budget', cachedBudgets.read, slimBudget, { minAvailable: 1, selector: {} }, { currentHealthy: 1 }],
  ['A preset', readPresets(virtualMachinePresets).read, slimPreset, { domain: { title: 't' } }, { vms: 1 }],
  ['A preset for objects', readObjectPresets(objectPresets).read, slimObjectPreset, { object: {} }, { revision: 'r' }],
])('%s is read without what others add, and with all that is cached', (_, parts, slim, spec, status) => {
  const whole = enlarged(spec, status)
  const read = parserOf(parts)(Buffer.from(JSON.stringify(whole)))
  expect(slim(read as never)).toEqual(slim(whole as never))
  const text = JSON.stringify(read)
  // Its owners, of whom the first may be ours.
  expect(text.replaceAll(/\{[^{}]*"uid":"\d+"\}/g, '')).not.toContain('theirs')
  expect(text.length).toBeLessThan(8192)
})

test('the budget that is read before it is written has its owner', () => {
  const read = parserOf(budgets.read)(Buffer.from(JSON.stringify(enlarged({}, {}))))
  const ownerReferences = enlarged({}, {}).metadata.ownerReferences.slice(0, 64)
  expect(read).toMatchObject({ metadata: { uid: 'u-1', resourceVersion: '5', ownerReferences } })
})
