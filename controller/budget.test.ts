import { expect, it } from 'vitest'
import { selectorTooLarge } from '../api/group.ts'
import type { LabelSelector } from '../api/object.ts'
import { revisionOf } from '../presets/compile.ts'
import { parserOf } from '../runtime/partial-json.ts'
import type { Persisted } from '../runtime/resource.ts'
import { budgetOf, budgets, cachedBudgets, slimBudget, type CachedBudget } from './budget.ts'

const text = 'x'.repeat(100_000)
const owner = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  name: 'web',
  uid: 'group-1',
  controller: true,
  blockOwnerDeletion: true,
}

const budget = (change: object, selector: LabelSelector = {}): Persisted<CachedBudget> => ({
  metadata: {
    namespace: 'default',
    name: 'web',
    uid: 'budget-1',
    resourceVersion: '1',
    labels: { 'virtset.io/group-uid': 'group-1', other: text },
    annotations: { text },
    ownerReferences: [{ ...owner, ...change }],
  },
  spec: { minAvailable: 1, selector, unhealthyPodEvictionPolicy: 'AlwaysAllow' },
})

it('is cached with its owner and a hash of its spec', () => {
  const slim = slimBudget(budget({}))
  expect(slim.metadata.ownerReferences).toEqual([owner])
  expect(slim.spec).toBeUndefined()
  expect(slim.revision).not.toBe(slimBudget(budget({}, { matchLabels: { app: 'x' } })).revision)
})

it.each([
  ['a selector', budget({}, { matchLabels: { app: text } })],
  ['the version of its owner', budget({ apiVersion: `virtset.io/${text}` })],
  ['the kind of its owner', budget({ kind: text })],
  ['the name of its owner', budget({ name: text })],
  ['the UID of its owner', budget({ uid: text })],
])('stays small in the cache, whatever users write into %s', (_, large) => {
  expect(JSON.stringify(slimBudget(large)).length).toBeLessThan(1000)
})

it('is compared whole with the largest selector that a group can have', () => {
  const selector = { matchExpressions: [{ key: 'app', operator: 'In', values: ['x'.repeat(8000)] }] } as const
  expect(selectorTooLarge(selector)).toBeUndefined()
  const desired = budgetOf({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineGroup',
    metadata: { namespace: 'default', name: 'web', uid: 'group-1', resourceVersion: '1' },
    spec: { replicas: 1, minAvailable: 1, selector },
  })
  const stored = { ...desired, metadata: { ...desired?.metadata, uid: 'budget-1', resourceVersion: '1' } }
  expect(slimBudget(parsed(stored)).revision).toBe(revisionOf(desired?.spec))
})

it('differs from ours if a user makes it larger than ours can be, of which only the size is read', () => {
  const matchLabels = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`l${index}`, '']))
  const large = budget({}, { matchLabels })
  const read = parsed(large)
  expect(read.spec).toEqual({ '#': { bytes: JSON.stringify(large.spec).length, values: 3005 } })
  expect(slimBudget(read)).toEqual({ ...slimBudget(large), revision: revisionOf(read.spec) })
})

it('is read without its spec before it is written', () => {
  const read = parserOf(budgets.read)(Buffer.from(JSON.stringify(budget({}))))
  expect(read).toMatchObject({ metadata: { name: 'web', ownerReferences: [owner] } })
  expect(read).not.toHaveProperty('spec')
})

const parsed = (object: object): Persisted<CachedBudget> => {
  const read = parserOf(cachedBudgets.read)(Buffer.from(JSON.stringify(object)))
  if (!cachedBudgets.accepts(read)) throw new Error('it has no identity')
  return read
}
