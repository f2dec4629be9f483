import type { Condition, ObjectMeta } from './object.ts'
import { bounded, closed, string, type Schema, type SchemasOf } from './schema.ts'

export const snapshotPhases = ['Pending', 'InProgress', 'Ready', 'Failed'] as const
export type SnapshotPhase = (typeof snapshotPhases)[number]

const sourceKinds = ['VirtualMachine', 'VirtualMachineConfig'] as const

/** What a snapshot is taken of. A config stands for its VM, and while it has none, for its claims. */
interface SnapshotSource {
  readonly kind?: (typeof sourceKinds)[number]
  readonly name: string
}

interface SnapshotSpec {
  readonly source: SnapshotSource
  readonly volumeSnapshotClassName?: string
}

/** A volume of the VM, and the VolumeSnapshot of its claim. */
export interface SnapshotVolume {
  readonly name: string
  readonly claimName: string
  readonly volumeSnapshotName: string
}

export interface SnapshotStatus {
  readonly observedGeneration?: number
  readonly phase?: SnapshotPhase
  /** Of the VM or config. */
  readonly sourceUID?: string
  /** Written before the first VolumeSnapshot is created, and never changed. */
  readonly volumes?: readonly SnapshotVolume[]
  /** The names of volumes that are not on a claim. */
  readonly excludedVolumes?: readonly string[]
  /** The names of volumes that a frozen guest does not cover. Grows until it is known whether it was frozen. */
  readonly unfrozenVolumes?: readonly string[]
  /** RFC 3339, by the storage: when the last of its VolumeSnapshots was taken. */
  readonly creationTime?: string
  readonly conditions?: readonly Condition[]
}

/** The claims of a VM at one point in time. */
export interface VirtualMachineSnapshot {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachineSnapshot'
  readonly metadata: ObjectMeta
  readonly spec: SnapshotSpec
  readonly status?: SnapshotStatus
}

/** Whether the guest had powered off, or was frozen and that covers all claims. */
export const quiescedCondition = 'Quiesced'

/** The controller requests the object by its name; the API server refuses a request for `..` or `%`. */
const objectName = { minLength: 1, maxLength: 253, pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$' }

export const snapshotSpecSchema: Schema = {
  ...bounded(
    closed(
      'What the snapshot is taken of. Immutable.',
      {
        source: closed(
          'The VM, or the config of a VM, in the namespace of the snapshot.',
          {
            kind: string('VirtualMachine or VirtualMachineConfig. If absent: VirtualMachine.', {
              enum: [...sourceKinds],
            }),
            name: string('The name of the VM or config.', objectName),
          } satisfies SchemasOf<SnapshotSource>,
          ['name'],
        ),
        volumeSnapshotClassName: string(
          "The class of the VolumeSnapshots. If absent: the default one of each claim's CSI driver.",
          objectName,
        ),
      } satisfies SchemasOf<SnapshotSpec>,
      ['source'],
    ),
  ),
  'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'is immutable: create another snapshot' }],
}

/** The name of the VolumeSnapshot of a volume. */
export const volumeSnapshotNameOf = (snapshot: string, volume: string): string => `${snapshot}-${volume}`
