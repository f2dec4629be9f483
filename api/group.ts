import { labelSelector } from './affinity.ts'
import type { Cause } from './cause.ts'
import { checkSelector } from './label.ts'
import { checkMetadata } from './metadata.ts'
import type { Condition, LabelSelector, ObjectMeta } from './object.ts'
import { boolean, bounded, checkSchema, integer, isRecord, open, type SchemasOf } from './schema.ts'
import { checkTemplate, templateDomainCauses, templateSchema } from './template.ts'
import type { VirtualMachineTemplate } from './template.ts'

export interface GroupSpec {
  /** 1 where absent. */
  readonly replicas?: number
  readonly selector: LabelSelector
  readonly template: VirtualMachineTemplate
  readonly paused?: boolean
  /** VMs that an eviction must leave; no limit where absent. */
  readonly minAvailable?: number
}

export interface GroupStatus {
  readonly observedGeneration?: number
  /** VMs that are there and not finished; those that are ending count until they are gone. */
  readonly replicas?: number
  readonly readyReplicas?: number
  readonly availableReplicas?: number
  /** VMs made of another template than there is now. */
  readonly outdatedReplicas?: number
  /** VMs that ended, ever. */
  readonly succeeded?: number
  readonly failed?: number
  /** VMs that ended for reasons outside of their guests, such as a drain. */
  readonly disrupted?: number
  /** Uids of finished VMs that are in these numbers and may still be there. */
  readonly countedUids?: readonly string[]
  /** The selector as text, for `scale`. */
  readonly selector?: string
  readonly conditions?: readonly Condition[]
}

/** A number of equal VMs. */
export interface VirtualMachineGroup {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachineGroup'
  readonly metadata: ObjectMeta
  readonly spec: GroupSpec
  readonly status?: GroupStatus
}

export const groupSpecSchema = bounded(
  open(
    'How many VMs, which, and what they are made of.',
    {
      // The only default of any schema of ours: the scale subresource is an error without it, and no completion adds
      // it.
      replicas: integer('How many VMs there are to be.', {
        minimum: 0,
        maximum: 2_147_483_647,
        format: 'int32',
        default: 1,
      }),
      selector: labelSelector("Which VMs belong here, by their labels. Fixed; the template's labels must match it."),
      template: templateSchema,
      paused: boolean('While true, no VM is made, taken in, let go or deleted.'),
      minAvailable: integer(
        'How many VMs must stay available when nodes are drained. The controller maintains a PodDisruptionBudget of the name of the group. A value of at least replicas blocks every drain.',
        { minimum: 0, maximum: 2_147_483_647, format: 'int32' },
      ),
    } satisfies SchemasOf<GroupSpec>,
    ['selector', 'template'],
  ),
)

/** The door for a group: everything that is wrong with its shape, its selector, and its template by itself. */
export function parseGroup(value: unknown): { readonly group: VirtualMachineGroup } | { readonly causes: Cause[] } {
  if (!isRecord(value)) {
    return {
      causes: [{ rule: 'type', field: '', value, reason: 'FieldValueTypeInvalid', message: 'must be an object' }],
    }
  }
  const { metadata, spec } = value
  const shape = [...checkMetadata(metadata, 'metadata'), ...checkSchema(groupSpecSchema, spec ?? {}, 'spec')]
  const causes = [...shape, ...templateDomainCauses(isRecord(spec) ? spec['template'] : undefined, 'spec.template')]
  if (shape.length > 0) return { causes }
  const group = value as unknown as VirtualMachineGroup
  const { selector, template } = group.spec
  causes.push(...checkSelector(selector, 'spec.selector'), ...checkTemplate(template, 'spec.template'))
  if (isEmpty(selector)) causes.push(selectorEmpty)
  return causes.length > 0 ? { causes } : { group }
}

const isEmpty = ({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean =>
  Object.keys(matchLabels).length === 0 && matchExpressions.length === 0

const selectorEmpty: Cause = {
  rule: 'selector-empty',
  field: 'spec.selector',
  value: {},
  reason: 'FieldValueInvalid',
  message: 'must name at least one label: an empty selector matches every VM',
}
