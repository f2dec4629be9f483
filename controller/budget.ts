import type { LabelSelector, ObjectMeta } from '../api/object.ts'
import { maxSelector } from '../api/group.ts'
import { controllerOf, ownerReference } from '../api/template.ts'
import { resource } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pick, slimMap, slimMetadata } from '../runtime/slim.ts'
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

export const budgets = resource<Budget>({
  group: 'policy',
  version: 'v1',
  plural: 'poddisruptionbudgets',
  kind: 'PodDisruptionBudget',
  namespaced: true,
})

/** Characters of JSON. The selector of a group is shorter (`selectorCauses`). */
const maxSpec = maxSelector + 1024

/** What a pass over a group reads of its budget. A spec that is too large differs from every budget of a group. */
export const slimBudget = (budget: Persisted<Budget>): Persisted<Budget> => ({
  ...pick(budget, 'apiVersion', 'kind'),
  metadata: {
    ...slimMetadata(budget.metadata),
    ...slimMap(budget.metadata, 'labels', groupUidLabel),
    ownerReferences: [controllerOf(budget)].filter((owner) => owner !== undefined),
  },
  ...(JSON.stringify(budget.spec ?? {}).length > maxSpec ? {} : pick(budget, 'spec')),
})

/** On the budgets that the controller maintains; the value is the uid of the group. */
export const groupUidLabel = 'virtset.io/group-uid'

/**
 * The budget that makes a drain leave `spec.minAvailable` VMs of a group running; undefined for a group without it. A
 * launcher pod has the labels of its VM, so the group's selector selects it. A pod that is not ready does not hold up a
 * drain.
 */
export function budgetOf({ metadata, spec }: Persisted<CachedGroup>): Budget | undefined {
  const { minAvailable, selector } = spec
  if (minAvailable === undefined) return undefined
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
      selector: { ...selector, matchExpressions: [...(selector.matchExpressions ?? []), isLauncher] },
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  }
}
