import type { ObjectMeta, OwnerReference } from '../api/object.ts'
import { firstOwners, identity, resource } from '../runtime/resource.ts'

/** The part of the CSI snapshotter's VolumeSnapshot that we write or read. */
export interface VolumeSnapshot {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta & { readonly ownerReferences?: readonly OwnerReference[] }
  readonly spec: {
    readonly volumeSnapshotClassName?: string
    readonly source: { readonly persistentVolumeClaimName?: string }
  }
  readonly status?: {
    /** RFC 3339: what the claim contained then is in the snapshot. */
    readonly creationTime?: string
    readonly readyToUse?: boolean
    readonly error?: { readonly message?: string }
  }
}

/** Those that a message names. Other clients can add thousands. */
const firstFinalizers = [4, true] as const

export const volumeSnapshots = resource<VolumeSnapshot>({
  group: 'snapshot.storage.k8s.io',
  version: 'v1',
  plural: 'volumesnapshots',
  kind: 'VolumeSnapshot',
  namespaced: true,
  read: {
    metadata: { ...identity, deletionTimestamp: true, finalizers: firstFinalizers, ownerReferences: firstOwners },
    spec: { source: { persistentVolumeClaimName: true } },
    status: { creationTime: true, readyToUse: true, error: { message: true } },
  },
})
