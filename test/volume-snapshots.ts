const object = (properties: object) => ({ type: 'object', properties })
const text = { type: 'string' }

/** The part of the CRD VolumeSnapshot that virtset uses, for clusters without a CSI snapshotter. */
export const volumeSnapshotDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: 'volumesnapshots.snapshot.storage.k8s.io',
    annotations: { 'api-approved.kubernetes.io': 'unapproved, for tests' },
  },
  spec: {
    group: 'snapshot.storage.k8s.io',
    scope: 'Namespaced',
    names: {
      kind: 'VolumeSnapshot',
      listKind: 'VolumeSnapshotList',
      plural: 'volumesnapshots',
      singular: 'volumesnapshot',
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: object({
            spec: object({
              source: object({ persistentVolumeClaimName: text, volumeSnapshotContentName: text }),
              volumeSnapshotClassName: text,
            }),
            status: object({
              creationTime: { type: 'string', format: 'date-time' },
              readyToUse: { type: 'boolean' },
              error: object({ message: text }),
            }),
          }),
        },
      },
    ],
  },
}
