import { expect, it } from 'vitest'
import type { LabelSelector } from '../api/object.ts'
import type { Persisted } from '../runtime/resource.ts'
import { slimBudget, type CachedBudget } from './budget.ts'

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
