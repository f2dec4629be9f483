import { expect, test } from 'vitest'
import { claimOwnerLabels } from '../api/claim-template.ts'
import { filledAnnotation } from '../api/claim-volume.ts'
import { parserOf } from '../runtime/partial-json.ts'
import { readClaim } from './claim.ts'
import { persistentVolumeClaims } from './pod.ts'

const ref = { namespace: 'shop', name: 'root' }
const own = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineGroup', name: 'web', uid: 'g' }
const claim = {
  metadata: {
    ...ref,
    uid: 'c',
    resourceVersion: '1',
    deletionTimestamp: '2030-01-01T00:00:00Z',
    labels: Object.fromEntries(claimOwnerLabels.map((label) => [label, 'web'])),
    annotations: { [filledAnnotation]: '2030-01-01T00:00:00Z' },
    ownerReferences: [own],
  },
  spec: {
    volumeMode: 'Block',
    resources: { requests: { storage: '1Gi' } },
    dataSource: { kind: 'VolumeSnapshot' },
  },
  status: { capacity: { storage: '2Gi' } },
}

test('of a claim, only what the pods of a VM depend on is parsed', async () => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`l${index}`, '']))
  const others = Array.from({ length: 100 }, () => ({ ...own, apiVersion: 'v1' }))
  const { metadata, spec, status } = claim
  const enlarged = {
    ...claim,
    metadata: {
      ...metadata,
      labels: { ...many, ...metadata.labels },
      annotations: { ...many, ...metadata.annotations },
      ownerReferences: [own, ...others],
      finalizers: Object.keys(many),
      managedFields: [{ fieldsV1: many }],
    },
    spec: { ...spec, selector: { matchLabels: many }, dataSource: { ...spec.dataSource, ...many } },
    status: { ...status, conditions: [many] },
  }
  const parsed: unknown = parserOf(persistentVolumeClaims.read)(Buffer.from(JSON.stringify(enlarged)))
  expect(parsed).toEqual({ ...claim, metadata: { ...metadata, ownerReferences: [own, ...others.slice(0, 63)] } })
  const kube = { get: () => Promise.resolve(parsed) } as unknown as Parameters<typeof readClaim>[0]
  // Only whether it is filled is read.
  const annotations = { [filledAnnotation]: '' }
  expect(await readClaim(kube, ref)).toEqual({ ...claim, metadata: { ...metadata, annotations } })
})
