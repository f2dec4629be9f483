import { affinity } from './affinity.ts'
import type { Cause } from './cause.ts'
import {
  checkLabels,
  dnsSubdomainRule,
  isDnsSubdomain,
  isLabelValue,
  isQualifiedName,
  labelValueRule,
  qualifiedNameRule,
} from './label.ts'
import { integer, list, map, open, string, type SchemasOf } from './schema.ts'

/** What a VM or a preset sets for the launcher pod. */
export interface Placement {
  readonly nodeSelector?: { readonly [key: string]: string }
  readonly affinity?: Affinity
  readonly tolerations?: readonly Toleration[]
  readonly priorityClassName?: string
  /** Seconds that the guest has to power off after it was asked to; 30 where absent. */
  readonly terminationGracePeriodSeconds?: number
}

export interface Toleration {
  readonly key?: string
  readonly operator?: 'Exists' | 'Equal'
  readonly value?: string
  readonly effect?: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute'
  readonly tolerationSeconds?: number
}

/** Kubernetes' own Affinity; only what binds to nodes is read here, the rest goes to the pod as it is. */
export interface Affinity {
  readonly nodeAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: { readonly nodeSelectorTerms: readonly NodeTerm[] }
    readonly [key: string]: unknown
  }
  readonly [key: string]: unknown
}

export interface NodeTerm {
  readonly matchExpressions?: readonly NodeRequirement[]
  readonly matchFields?: readonly NodeRequirement[]
}

export interface NodeRequirement {
  readonly key: string
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt'
  readonly values?: readonly string[]
}

/** What a VM sets for its launcher pod beside the domain, in Kubernetes' own terms; a preset can set the same. */
export const placement = {
  nodeSelector: map('Labels that the node must have.', string('The value of the label.')),
  affinity,
  tolerations: list(
    'Taints of nodes that do not keep the VM away.',
    open("A toleration, Kubernetes' own.", {
      key: string('The key of the taint; absent with operator Exists: every taint.'),
      operator: string('Whether the value counts. Equal where absent.', { enum: ['Exists', 'Equal'] }),
      value: string('The value of the taint; none with Exists.'),
      effect: string('The effect of the taint; absent: every effect.', {
        enum: ['NoSchedule', 'PreferNoSchedule', 'NoExecute'],
      }),
      tolerationSeconds: integer('With NoExecute: for how long the taint is tolerated. Absent: forever.', {
        format: 'int64',
      }),
    } satisfies SchemasOf<Toleration>),
  ),
  priorityClassName: string("The PriorityClass of the VM's pod.", { minLength: 1, maxLength: 253 }),
  terminationGracePeriodSeconds: integer(
    'Seconds that the guest has to power off after it was asked to, before it is cut off. 30 where absent.',
    { minimum: 0, format: 'int64' },
  ),
} satisfies SchemasOf<Placement>

/** What is wrong with a placement of the right shape: names and labels by the API server's own rules for pods. */
export function checkPlacement(given: Placement, field: string): Cause[] {
  const causes = checkLabels(given.nodeSelector ?? {}, `${field}.nodeSelector`)
  const { priorityClassName } = given
  if (priorityClassName !== undefined && !isDnsSubdomain(priorityClassName)) {
    const at = `${field}.priorityClassName`
    causes.push(invalid('priority-class-name', at, priorityClassName, dnsSubdomainRule))
  }
  for (const [index, toleration] of (given.tolerations ?? []).entries()) {
    causes.push(...checkToleration(toleration, `${field}.tolerations[${index}]`))
  }
  return causes
}

function checkToleration({ key, operator, value, effect, tolerationSeconds }: Toleration, field: string): Cause[] {
  const causes: Cause[] = []
  if (key !== undefined && key !== '' && !isQualifiedName(key)) {
    causes.push(invalid('label-key', `${field}.key`, key, qualifiedNameRule))
  }
  if ((key === undefined || key === '') && operator !== 'Exists') {
    const message = 'must be Exists if key is not set: it then tolerates every taint'
    causes.push(invalid('toleration-operator', `${field}.operator`, operator ?? '', message))
  }
  if (operator === 'Exists' && value !== undefined && value !== '') {
    causes.push(invalid('toleration-value', `${field}.value`, value, 'must be empty, since operator is Exists'))
  }
  if (operator !== 'Exists' && value !== undefined && !isLabelValue(value)) {
    causes.push(invalid('label-value', `${field}.value`, value, labelValueRule))
  }
  if (tolerationSeconds !== undefined && effect !== 'NoExecute') {
    const message = 'must be NoExecute, since tolerationSeconds is given'
    causes.push(invalid('toleration-effect', `${field}.effect`, effect ?? '', message))
  }
  return causes
}

const invalid = (rule: string, field: string, value: string, message: string): Cause => ({
  rule,
  field,
  value,
  reason: 'FieldValueInvalid',
  message,
})
