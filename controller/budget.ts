import type { LabelRequirement, LabelSelector, ObjectMeta } from '../api/object.ts'
import { controllerOf, isOwning, ownerReference } from '../api/template.ts'
import { revisionOf } from '../presets/compile.ts'
import { wholeUpTo } from '../runtime/partial-json.ts'
import { firstOwners, identity, resource } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick, slimLabels, slimMetadata } from '../runtime/slim.ts'
import { vmUidLabel } from './launcher-pod.ts'
import type { CachedGroup } from './slim-owner.ts'

/** The part of Kubernetes' PodDisruptionBudget that we write. */
export interface Budget {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
  readonly spec?: {
    readonly minAvailable: number
    readonly selector: LabelSelector
    readonly unhealthyPodEvictionPolicy: 'AlwaysAllow'
  }
}

/** On the budgets that the controller maintains; the value is the uid of the group. */
export const groupUidLabel = 'virtset.io/group-uid'

/** Bytes of JSON. The selector of a group has up to 8 KiB, to which ours adds little. */
const maxSpec = 16 * 1024

const kind = {
  group: 'policy',
  version: 'v1',
  plural: 'poddisruptionbudgets',
  kind: 'PodDisruptionBudget',
  namespaced: true,
  read: {
    apiVersion: true,
    kind: true,
    metadata: { ...identity, labels: { [groupUidLabel]: true }, ownerReferences: firstOwners },
  },
} as const

/** Whether one is ours is read before it is written, and nothing of the response. */
export const budgets = resource<Budget>(kind)

/** A budget as the controller caches it: users can write some with this label, as large as a request may be. */
export type CachedBudget = Omit<Budget, 'spec'> & {
  readonly spec?: Budget['spec']
  /** The hash of the spec; absent in a budget as the API server sends it. */
  readonly revision?: string
}

/** A larger spec is none of ours: only its size is read, so that its hash differs, and ours replaces it. */
export const cachedBudgets = resource<CachedBudget>({
  ...kind,
  read: { ...kind.read, spec: { [wholeUpTo]: maxSpec } },
})

/** What a pass over a group reads of its budget. A pass finds it by the group that the label and the owner name. */
export function slimBudget({ metadata, spec, ...budget }: Persisted<CachedBudget>): Persisted<CachedBudget> {
  const owner = controllerOf({ metadata })
  const isOfGroup = owner?.kind === 'VirtualMachineGroup' && isOwning(owner)
  const isLabelled = owner?.uid === metadata.labels?.[groupUidLabel]
  return {
    ...pick(budget, 'apiVersion', 'kind'),
    metadata: {
      ...slimMetadata(metadata),
      ...slimLabels(metadata, groupUidLabel),
      // Not the owner as it stands: its version and its name can have any length.
      ownerReferences:
        isOfGroup && isLabelled
          ? [ownerReference({ kind: owner.kind, metadata: { name: metadata.name, uid: owner.uid } })]
          : [],
    },
    revision: revisionOf(spec),
  }
}

/**
 * The budget that makes a drain leave `spec.minAvailable` VMs of a group running; undefined for a group without it. A
 * launcher pod has the labels of its VM, so the group's selector selects it. A pod that is not ready does not hold up a
 * drain.
 */
export function budgetOf({ metadata, spec }: Persisted<CachedGroup>): Budget | undefined {
  const { minAvailable, selector } = spec
  if (minAvailable === undefined) return undefined
  // The API server does not store what is empty, and the hash of what it stores is compared.
  const { matchLabels = {}, matchExpressions = [] } = selector
  const { name, namespace, uid } = metadata
  const isLauncher = { key: vmUidLabel, operator: 'Exists' } as const
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      labels: { [groupUidLabel]: uid },
      ownerReferences: [ownerReference({ kind: 'VirtualMachineGroup', metadata })],
    },
    spec: {
      minAvailable,
      selector: {
        ...(Object.keys(matchLabels).length === 0 ? {} : { matchLabels }),
        matchExpressions: [...matchExpressions.map(withoutEmptyValues), isLauncher],
      },
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  }
}

const withoutEmptyValues = ({ values = [], ...requirement }: LabelRequirement): LabelRequirement => ({
  ...requirement,
  ...(values.length === 0 ? {} : { values }),
})
