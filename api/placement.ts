import { affinity, checkAffinity, type Affinity } from './affinity.ts'
import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
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
  readonly imagePullSecrets?: readonly { readonly name: string }[]
  /** Seconds that the guest has to power off after a shutdown request; 30 if absent. */
  readonly terminationGracePeriodSeconds?: number
}

export interface Toleration {
  readonly key?: string
  readonly operator?: 'Exists' | 'Equal'
  readonly value?: string
  readonly effect?: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute'
  readonly tolerationSeconds?: number
}

/** 68 years. The launcher reports when a grace period ends, and a date has an end. */
export const longestGraceSeconds = 2 ** 31 - 1

/** What a VM sets for its launcher pod beside the domain, in Kubernetes' terms. Presets can set the same fields. */
export const placement = {
  nodeSelector: map('Labels that the node must have.', string('The value of the label.')),
  affinity,
  tolerations: list(
    'Taints of nodes that the VM tolerates.',
    open("A toleration, Kubernetes' own.", {
      key: string('The key of the taint; absent with operator Exists: every taint.'),
      operator: string('Whether the value must match. Equal if absent.', { enum: ['Exists', 'Equal'] }),
      value: string('The value of the taint; must be absent with Exists.'),
      effect: string('The effect of the taint; absent: every effect.', {
        enum: ['NoSchedule', 'PreferNoSchedule', 'NoExecute'],
      }),
      // Of a larger one, JSON.parse makes one that the API server may refuse on a pod.
      tolerationSeconds: integer('With NoExecute: for how long the taint is tolerated. Absent: forever.', {
        minimum: Number.MIN_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
        format: 'int64',
      }),
    } satisfies SchemasOf<Toleration>),
  ),
  priorityClassName: string("The PriorityClass of the VM's pod.", { minLength: 1, maxLength: 253 }),
  imagePullSecrets: list(
    "Secrets of the VM's namespace with the credentials for the images of its volumes.",
    open('A secret.', { name: string('The name of the secret.', { minLength: 1 }) }, ['name']),
    { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
  ),
  terminationGracePeriodSeconds: integer(
    'Seconds that the guest has to power off after a shutdown request before it is killed. 30 if absent.',
    { minimum: 0, maximum: longestGraceSeconds, format: 'int64' },
  ),
} satisfies SchemasOf<Placement>

/** Checks a placement that matches its schema: names and labels by the API server's rules for pods. */
export function checkPlacement(given: Placement, field: string): Cause[] {
  const causes = checkLabels(given.nodeSelector ?? {}, `${field}.nodeSelector`)
  const { priorityClassName } = given
  if (priorityClassName !== undefined && !isDnsSubdomain(priorityClassName)) {
    const at = `${field}.priorityClassName`
    causes.push(invalidValue('priority-class-name', at, priorityClassName, dnsSubdomainRule))
  }
  for (const [index, { name }] of (given.imagePullSecrets ?? []).entries()) {
    if (isDnsSubdomain(name)) continue
    causes.push(invalidValue('secret-name', `${field}.imagePullSecrets[${index}].name`, name, dnsSubdomainRule))
  }
  for (const [index, toleration] of (given.tolerations ?? []).entries()) {
    causes.push(...checkToleration(toleration, `${field}.tolerations[${index}]`))
  }
  // A list of a hundred thousand causes is too long for the arguments of a call.
  return given.affinity === undefined ? causes : [...causes, ...checkAffinity(given.affinity, `${field}.affinity`)]
}

function checkToleration({ key, operator, value, effect, tolerationSeconds }: Toleration, field: string): Cause[] {
  const causes: Cause[] = []
  if (key !== undefined && key !== '' && !isQualifiedName(key)) {
    causes.push(invalidValue('label-key', `${field}.key`, key, qualifiedNameRule))
  }
  if ((key === undefined || key === '') && operator !== 'Exists') {
    const message = 'must be Exists if key is not set: it then tolerates every taint'
    causes.push(invalidValue('toleration-operator', `${field}.operator`, operator ?? '', message))
  }
  if (operator === 'Exists' && value !== undefined && value !== '') {
    causes.push(invalidValue('toleration-value', `${field}.value`, value, 'must be empty, since operator is Exists'))
  }
  if (operator !== 'Exists' && value !== undefined && !isLabelValue(value)) {
    causes.push(invalidValue('label-value', `${field}.value`, value, labelValueRule))
  }
  if (tolerationSeconds !== undefined && effect !== 'NoExecute') {
    const message = 'must be NoExecute, since tolerationSeconds is given'
    causes.push(invalidValue('toleration-effect', `${field}.effect`, effect ?? '', message))
  }
  return causes
}
