import { labelSelector } from './affinity.ts'
import type { Cause } from './cause.ts'
import { checkClaimTemplates, groupClaimFields, templateWithClaims, type ClaimTemplates } from './claim-template.ts'
import { invalidValue, wrongType } from './field-error.ts'
import { checkSelector } from './label.ts'
import { checkMetadata } from './metadata.ts'
import type { Condition, LabelSelector, ObjectMeta } from './object.ts'
import { boolean, bounded, checkSchema, integer, isRecord, open, type SchemasOf } from './schema.ts'
import { checkTemplate, templateDomainCauses, templateSchema } from './template.ts'
import type { VirtualMachineTemplate } from './template.ts'

export interface GroupSpec extends ClaimTemplates {
  /** 1 if absent. */
  readonly replicas?: number
  readonly selector: LabelSelector
  readonly template: VirtualMachineTemplate
  readonly paused?: boolean
  /** The number of VMs that evictions must leave running; no limit if absent. */
  readonly minAvailable?: number
}

export interface GroupStatus {
  readonly observedGeneration?: number
  /** VMs that exist and are not finished. Terminating VMs count until they are gone. */
  readonly replicas?: number
  readonly readyReplicas?: number
  readonly availableReplicas?: number
  /** VMs that were created from an older template. */
  readonly outdatedReplicas?: number
  /** The total number of VMs that ever ended. */
  readonly succeeded?: number
  readonly failed?: number
  /** VMs that ended for a reason outside of their guest, such as a drain. */
  readonly disrupted?: number
  /** UIDs of finished VMs that are already counted in these numbers and may still exist. */
  readonly countedUids?: readonly string[]
  /** The selector as text, for `scale`. */
  readonly selector?: string
  readonly conditions?: readonly Condition[]
}

/** Maintains a number of equal VMs. */
export interface VirtualMachineGroup {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachineGroup'
  readonly metadata: ObjectMeta
  readonly spec: GroupSpec
  readonly status?: GroupStatus
}

export const groupSpecSchema = bounded(
  open(
    'The number of VMs, their selector, and their template.',
    {
      // The only default in our schemas: the scale subresource fails without it, and no completion adds it.
      replicas: integer('The desired number of VMs.', {
        minimum: 0,
        maximum: 2_147_483_647,
        format: 'int32',
        default: 1,
      }),
      selector: labelSelector(
        "Selects the VMs of the group by their labels. Immutable; the template's labels must match it.",
      ),
      template: templateSchema,
      paused: boolean('While true, the controller does not create, adopt, release or delete VMs.'),
      minAvailable: integer(
        'How many VMs must stay available when nodes are drained. The controller maintains a PodDisruptionBudget with the name of the group. A value of at least replicas blocks every drain.',
        { minimum: 0, maximum: 2_147_483_647, format: 'int32' },
      ),
      ...groupClaimFields,
    } satisfies SchemasOf<GroupSpec>,
    ['selector', 'template'],
  ),
)

const sharedAttachment: Cause = {
  rule: 'group-attached-volume',
  field: 'spec.template.spec.attachedVolumes',
  reason: 'FieldValueForbidden',
  message: 'is not supported: all VMs of the group would have the same claims',
  suggestion: 'use spec.claimTemplates, or attach claims to single VMs',
}

/** Parses a group. Reports everything that is wrong with its shape, its selector and its template. */
export function parseGroup(value: unknown): { readonly group: VirtualMachineGroup } | { readonly causes: Cause[] } {
  if (!isRecord(value)) return { causes: [wrongType('', value, 'an object')] }
  const { metadata, spec } = value
  const shape = [...checkMetadata(metadata, 'metadata'), ...checkSchema(groupSpecSchema, spec ?? {}, 'spec')]
  const causes = [...shape, ...templateDomainCauses(isRecord(spec) ? spec['template'] : undefined, 'spec.template')]
  if (shape.length > 0) return { causes }
  const group = value as unknown as VirtualMachineGroup
  const { selector, template } = group.spec
  causes.push(...checkSelector(selector, 'spec.selector'), ...checkTemplate(template, 'spec.template'))
  causes.push(...claimCauses(group))
  if ((template.spec.attachedVolumes ?? []).length > 0) causes.push(sharedAttachment)
  if (isEmpty(selector)) causes.push(selectorEmpty)
  causes.push(...selectorSizeCauses(selector))
  return causes.length > 0 ? { causes } : { group }
}

/** The template of the first VM, with its claims. Those of the others have other names of claims. */
export const firstTemplate = ({ metadata, spec }: VirtualMachineGroup): VirtualMachineTemplate =>
  templateWithClaims({ metadata: { name: `${metadata.name ?? metadata.generateName ?? ''}-0` }, spec })

/** Longer names are cut in those of VMs, so that the VMs of two groups could have the same names and claims. */
const maxNameWithClaims = 57

function claimCauses({ metadata, spec }: VirtualMachineGroup): Cause[] {
  const { claimTemplates = [], template } = spec
  if (claimTemplates.length === 0) return []
  const { name = '' } = metadata
  const causes = checkClaimTemplates(metadata, spec, template, 'spec.claimTemplates')
  if (name.length <= maxNameWithClaims) return causes
  const message = `must have at most ${maxNameWithClaims} characters in a group with claimTemplates: the names of its VMs and claims are made of it`
  return [...causes, invalidValue('group-name', 'metadata.name', name, message)]
}

/**
 * The controller caches the selectors of all groups, and compares the VMs of a namespace with each. So a selector counts
 * with a twelfth or more of the memory that it takes.
 */
const maxSelector = 8 * 1024
const perRequirement = 100
const perValue = 16

/** Why a selector is too large; undefined if it is not. */
export function selectorTooLarge(selector: LabelSelector): string | undefined {
  const { matchLabels = {}, matchExpressions = [] } = selector
  const labels = Object.keys(matchLabels).length
  const values = matchExpressions.reduce((sum, { values = [] }) => sum + values.length, labels)
  const size = JSON.stringify(selector).length + perRequirement * (labels + matchExpressions.length) + perValue * values
  if (size <= maxSelector) return undefined
  return `must count at most ${maxSelector}, counts ${size}: its characters of JSON, ${perRequirement} for each label and expression, ${perValue} for each value`
}

function selectorSizeCauses(selector: LabelSelector): Cause[] {
  const message = selectorTooLarge(selector)
  if (message === undefined) return []
  const suggestion = 'select the VMs by fewer labels and values'
  return [{ rule: 'selector-size', field: 'spec.selector', reason: 'FieldValueTooLong', message, suggestion }]
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
