import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../api/cause.ts'
import { parseConfig } from '../api/config.ts'
import { parseGroup } from '../api/group.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import { apiVersion } from '../api/object.ts'
import type { LabelSelector } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import type { MachineTemplate } from '../api/template.ts'
import { compileSelector, selectorText, unmetRequirement, requirementText } from '../presets/selector.ts'
import type { Engine } from './engine.ts'
import { judgeMachine } from './judge.ts'
import type { Permissions } from './permission.ts'
import type { Review, Verdict } from './review.ts'

/** Whether a review is about a config or a group: a kind whose template VMs are made of. */
export const hasTemplate = ({ kind }: Pick<Review, 'kind'>): boolean =>
  kind === 'VirtualMachineConfig' || kind === 'VirtualMachineGroup'

/** The same review as if it were about the creation of the VM that the template makes: what may its user do in it? */
export function machineReview(review: Review): Review {
  const template = templateIn(review.object)
  const metadata = isRecord(template) && isRecord(template['metadata']) ? template['metadata'] : {}
  const spec = isRecord(template) ? template['spec'] : undefined
  const object = { apiVersion, kind: 'VirtualMachine', metadata: { name: review.name || 'vm', ...metadata }, spec }
  return { ...review, kind: 'VirtualMachine', operation: 'CREATE', object, oldObject: undefined }
}

/**
 * Whether a config or group is well: its template is completed as if a VM were made of it, and every cause is told where it stands in the template. Nothing is
 * written into it. A template that stays as it is stored is not looked into, or a preset that came since would forbid to scale.
 */
export function reviewTemplate(review: Review, engine: Engine, permissions: Permissions): Verdict {
  const { object, oldObject } = review
  if (isRecord(object) && isRecord(object['metadata']) && object['metadata']['deletionTimestamp'] !== undefined) {
    return { allowed: true }
  }
  const parsed = review.kind === 'VirtualMachineGroup' ? parseGroup(object) : parseConfig(object)
  const isKept = isDeepStrictEqual(templateIn(object), templateIn(oldObject))
  if ('causes' in parsed) {
    const isJudged = !isKept && isRecord(templateIn(object))
    const rest = isJudged ? judgeMachine(machineReview(review), engine, permissions, true).causes : []
    return { allowed: false, causes: [...parsed.causes, ...rest.map(inTemplate)] }
  }
  const causes = 'group' in parsed ? groupCauses(parsed.group, oldObject) : []
  const { template } = 'group' in parsed ? parsed.group.spec : parsed.config.spec
  const { causes: found, warnings } = isKept
    ? { causes: [], warnings: [] }
    : rehearse(template, review, engine, permissions)
  const all = [...causes, ...found]
  return all.length > 0 ? { allowed: false, causes: all, warnings } : { allowed: true, warnings }
}

function rehearse(
  { metadata, spec }: MachineTemplate,
  review: Review,
  engine: Engine,
  permissions: Permissions,
): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] } {
  const { name, namespace } = review
  const machine = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { ...metadata, name: name || 'vm', namespace },
    spec,
  } as const
  const outcome = engine.complete(machine, machineReview(review), permissions)
  if (!('causes' in outcome)) return { causes: [], warnings: outcome.warnings }
  return { causes: outcome.causes.map(inTemplate), warnings: outcome.warnings }
}

/** `spec.domain…` of the VM is `spec.template.spec.domain…` of its owner. */
const inTemplate = (cause: Cause): Cause => ({ ...cause, field: `spec.template.${cause.field}` })

function groupCauses({ spec }: VirtualMachineGroup, oldObject: unknown): Cause[] {
  const { selector, template } = spec
  const compiled = compileSelector(selector)
  const { labels = {} } = template.metadata ?? {}
  const unmet = unmetRequirement(compiled, labels)
  const causes: Cause[] = []
  if (unmet !== undefined) {
    const message = `must match spec.selector, which wants ${requirementText(unmet)}`
    const field = 'spec.template.metadata.labels'
    causes.push({ rule: 'selector-template', field, value: labels, reason: 'FieldValueInvalid', message })
  }
  const stored = storedSelector(oldObject)
  if (stored !== undefined && !isDeepStrictEqual(stored, selector)) {
    causes.push(selectorChanged(selectorText(compiled)))
  }
  return causes
}

const selectorChanged = (value: string): Cause => ({
  rule: 'selector-immutable',
  field: 'spec.selector',
  value,
  reason: 'FieldValueInvalid',
  message: 'may not be changed: VMs would lose their group, and nobody would look after them',
})

/** What is stored was checked when it came. */
function storedSelector(stored: unknown): LabelSelector | undefined {
  const parsed = stored === undefined || stored === null ? undefined : parseGroup(stored)
  return parsed !== undefined && 'group' in parsed ? parsed.group.spec.selector : undefined
}

const templateIn = (object: unknown): unknown =>
  isRecord(object) && isRecord(object['spec']) ? object['spec']['template'] : undefined
