/** Kubernetes' own cause types, as `metav1.CauseType` has them. */
export type CauseReason =
  | 'FieldValueNotFound'
  | 'FieldValueRequired'
  | 'FieldValueDuplicate'
  | 'FieldValueInvalid'
  | 'FieldValueNotSupported'
  | 'FieldValueForbidden'
  | 'FieldValueTooLong'
  | 'FieldValueTooMany'
  | 'FieldValueTypeInvalid'

/** Who put a value where it is. `revision` is the preset's content hash. */
export type Origin =
  | { readonly by: 'user' }
  | {
      readonly by: 'preset'
      /** Absent for a ClusterVirtualMachinePreset. */
      readonly namespace?: string
      readonly name: string
      readonly revision: string
    }
  | { readonly by: 'default'; readonly rule: string }

/**
 * One thing that is wrong with what a user wrote. A value, never thrown; all of them are collected and shown together.
 * `field` is as kubectl prints it: `spec.domain.devices.disks[1].target.dev`, a map key as `metadata.labels[KEY]`.
 */
export interface Cause {
  /** Stable id of the rule that was broken, e.g. `disk-target-unique`. */
  readonly rule: string
  readonly field: string
  /** The offending value; absent where nothing is there. */
  readonly value?: unknown
  readonly reason: CauseReason
  /** One line: the limit, and why. Without the field and value, which are printed before it. */
  readonly message: string
  readonly origin?: Origin
  /** The likely fix, one line. */
  readonly suggestion?: string
  /** What of the node is missing, e.g. `machine type pc-q35-10.1`: on another node there may be no such cause. */
  readonly missingCapability?: string
}
