/** Kubernetes' cause types, the values of `metav1.CauseType`. */
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

/** What set a value. `revision` is the preset's content hash. */
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
 * One error in what a user wrote. It is a value and is never thrown; all causes are collected and shown together.
 * `field` has kubectl's form: `spec.domain.devices.disks[1].target.dev`, a map key as `metadata.labels[KEY]`.
 */
export interface Cause {
  /** Stable id of the rule that was broken, e.g. `disk-target-unique`. */
  readonly rule: string
  readonly field: string
  /** The offending value; absent if the field is missing. */
  readonly value?: unknown
  readonly reason: CauseReason
  /** One line: the limit, and the reason for it. Omits the field and value, which are printed before it. */
  readonly message: string
  readonly origin?: Origin
  /** The likely fix, one line. */
  readonly suggestion?: string
  /** What the node does not have, e.g. `machine type pc-q35-10.1`. Another node may not have this cause. */
  readonly missingCapability?: string
  /**
   * The capability is of the hardware, which differs between healthy nodes: one node that has it is enough. `labeled`:
   * the node's labels show it, so the VM's pod selects nodes by them.
   */
  readonly hardware?: 'labeled' | 'unlabeled'
}
