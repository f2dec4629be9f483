import type { Domain } from './domain/domain.ts'
import type { MachineSpec, Volume } from './machine.ts'
import type { Condition, LabelSelector, ObjectMeta } from './object.ts'

export interface PresetSpec {
  readonly selector: LabelSelector
  /** ClusterVirtualMachinePreset only; absent: every namespace but kube-system and virtset's own. */
  readonly namespaceSelector?: LabelSelector
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[]
  readonly strength?: 'Default' | 'Enforce'
  readonly priority?: number
  readonly exclusiveGroup?: string
  readonly mode?: 'Apply' | 'Warn' | 'Audit'
  readonly metadata?: {
    readonly labels?: { readonly [key: string]: string }
    readonly annotations?: { readonly [key: string]: string }
  }
  readonly domain?: Domain
  readonly volumes?: readonly Volume[]
  readonly nodeSelector?: MachineSpec['nodeSelector']
  readonly tolerations?: MachineSpec['tolerations']
  readonly affinity?: MachineSpec['affinity']
  readonly priorityClassName?: string
  readonly terminationGracePeriodSeconds?: number
  /** Paths relative to `spec`, e.g. `domain.devices.disks[target.dev=vdb]`; `Enforce` only. */
  readonly remove?: readonly string[]
}

export interface PresetStatus {
  readonly observedGeneration?: number
  readonly revision?: string
  readonly matched?: number
  readonly applied?: number
  readonly outdated?: number
  readonly conditions?: readonly Condition[]
}

export interface Preset {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachinePreset' | 'ClusterVirtualMachinePreset'
  readonly metadata: ObjectMeta
  readonly spec: PresetSpec
  readonly status?: PresetStatus
}
