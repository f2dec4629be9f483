import { expect, test } from 'vitest'
import type { SnapshotStatus, VirtualMachineSnapshot } from '../api/snapshot.ts'
import type { Persisted } from '../runtime/resource.ts'
import { createStore } from '../runtime/store.ts'
import { createSnapshotOrder } from './snapshot-order.ts'

type Snapshot = Persisted<VirtualMachineSnapshot>

let versions = 0
const snapshot = (name: string, second: number, status?: SnapshotStatus, more: object = {}): Snapshot => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineSnapshot',
  metadata: {
    namespace: 'default',
    name,
    uid: name,
    resourceVersion: String(++versions),
    creationTimestamp: new Date(Date.UTC(2030, 0, 1) + second * 1000).toISOString(),
  },
  spec: { source: { name: 'web' } },
  ...(status === undefined ? {} : { status }),
  ...more,
})
const ofConfig = { spec: { source: { kind: 'VirtualMachineConfig', name: 'web' } } }
const own = snapshot('own', 5)
const ending = { ...snapshot('x', 1), metadata: { ...snapshot('x', 1).metadata, deletionTimestamp: '2030-01-02' } }

test.each<[string, readonly Snapshot[], string | undefined, string | undefined]>([
  ['is not preceded by itself', [own], undefined, undefined],
  ['is preceded by the oldest', [own, snapshot('b', 2), snapshot('a', 1), snapshot('c', 3)], 'a', undefined],
  ['is not preceded by a younger one', [own, snapshot('x', 6)], undefined, undefined],
  ['has the order of names within a second', [own, snapshot('oz', 5), snapshot('ow', 5)], 'ow', undefined],
  [
    'is not preceded by one of another source',
    [own, snapshot('x', 1, {}, { spec: { source: { name: 'db' } } })],
    undefined,
    undefined,
  ],
  ['is preceded by one that has begun', [own, snapshot('x', 1, { phase: 'InProgress' })], 'x', 'x'],
  ['is preceded by one of the config', [own, snapshot('x', 2, undefined, ofConfig), snapshot('y', 1)], 'y', 'x'],
  ['is not preceded by one that is ready', [own, snapshot('x', 1, { phase: 'Ready' })], undefined, undefined],
  ['is not preceded by one that has failed', [own, snapshot('x', 1, { phase: 'Failed' })], undefined, undefined],
  [
    'is not preceded by one that is taken',
    [own, snapshot('x', 1, { phase: 'InProgress', creationTime: 't' })],
    undefined,
    undefined,
  ],
  ['is not preceded by one that is being deleted', [own, ending], undefined, undefined],
])('a snapshot %s', (_, given, withVm, withoutVm) => {
  const order = createSnapshotOrder()
  for (const object of given) order.update({ kind: 'added', object })
  expect([order.earlierThan(own, true), order.earlierThan(own, false)]).toEqual([withVm, withoutVm])
})

test('follows every change of a snapshot', () => {
  const order = createSnapshotOrder()
  const store = createStore<VirtualMachineSnapshot>()
  const put = (object: Snapshot) => {
    for (const change of store.put(object)) order.update(change)
  }
  const found = () => [order.earlierThan(own, true), order.earlierThan(own, false)]
  put(own)
  put(snapshot('a', 1))
  put(snapshot('b', 2))
  expect(found()).toEqual(['a', undefined])
  put(snapshot('a', 1, { phase: 'InProgress' }))
  expect(found()).toEqual(['a', 'a'])
  put(snapshot('a', 1, { phase: 'InProgress', creationTime: 't' }))
  expect(found()).toEqual(['b', undefined])
  // The last version of a deleted object can be one that no update delivered.
  for (const change of store.remove(snapshot('b', 2, { phase: 'InProgress' }))) order.update(change)
  expect(found()).toEqual([undefined, undefined])
})

test.each([
  ['oldest first', 0, true],
  ['newest first', 1, true],
  ['without a VM', 1, false],
])('a pass over thousands of one source compares each with the oldest alone, %s', (_, isReversed, hasVm) => {
  const count = 6000
  let comparisons = 0
  const order = createSnapshotOrder((one, other) => {
    comparisons++
    return one < other ? -1 : one > other ? 1 : 0
  })
  const all = Array.from({ length: count }, (_, index) =>
    snapshot(`s${index}`, isReversed === 1 ? count - index : index),
  )
  for (const object of all) order.update({ kind: 'added', object })
  expect(comparisons).toBeLessThan(count * Math.ceil(Math.log2(count)))
  comparisons = 0
  const found = all.map((one) => order.earlierThan(one, hasVm))
  expect(new Set(found).size).toBe(hasVm ? 2 : 1)
  expect(comparisons).toBeLessThanOrEqual(2 * count)
})
