import { expect, test } from 'vitest'
import { parserOf } from '../runtime/partial-json.ts'
import { volumeSnapshots } from './volume-snapshot.ts'

test('of a VolumeSnapshot, only what a snapshot depends on is parsed', () => {
  const owners = Array.from({ length: 100 }, (_, index) => ({ kind: 'X', uid: `x-${index}` }))
  const identity = { name: 's', namespace: 'shop', uid: 'u', resourceVersion: '1' }
  const finalizers = Array.from({ length: 100 }, (_, index) => `x/${index}`)
  const status = { creationTime: '2030-01-01T00:00:00Z', readyToUse: false, error: { message: 'm' } }
  const json = JSON.stringify({
    metadata: { ...identity, labels: { a: 'b' }, annotations: { a: 'b' }, finalizers, ownerReferences: owners },
    spec: { volumeSnapshotClassName: 'fast', source: { persistentVolumeClaimName: 'root' } },
    status: { ...status, restoreSize: '1Gi' },
  })
  expect(parserOf(volumeSnapshots.read)(Buffer.from(json))).toEqual({
    metadata: { ...identity, finalizers: finalizers.slice(0, 4), ownerReferences: owners.slice(0, 64) },
    spec: { source: { persistentVolumeClaimName: 'root' } },
    status,
  })
})
