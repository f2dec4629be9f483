import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import {
  checkSelector,
  dnsLabelRule,
  isDnsLabel,
  isLabelValue,
  isQualifiedName,
  labelValueRule,
  qualifiedNameRule,
} from './label.ts'
import type { LabelSelector } from './object.ts'
import { integer, list, map, open, string } from './schema.ts'
import type { Schema } from './schema.ts'
import { sizeOf } from './steps.ts'

/** Kubernetes' Affinity (core/v1). It is copied to the launcher pod unchanged. */

const labels = (description: string) => map(description, string('The value.'))

export const labelSelector = (description: string): Schema =>
  open(description, {
    matchLabels: labels('Labels that must all be present with these values.'),
    matchExpressions: list(
      'Requirements that must all hold.',
      open(
        'One requirement on the labels.',
        {
          key: string('The key of the label.'),
          operator: string('How the label relates to the values.', {
            enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'],
          }),
          values: list('The values; none with Exists and DoesNotExist.', string('A value of the label.')),
        },
        ['key', 'operator'],
      ),
    ),
  })

/** Of a term. */
const maxRequirements = 32
/**
 * Of all required terms. Completion evaluates each requirement for each node, so requirements × nodes must stay small on
 * large clusters.
 */
const mostRequirements = 256

const nodeRequirements = (description: string) =>
  list(
    description,
    open(
      'One requirement on a node.',
      {
        key: string('The label or field of the node.'),
        operator: string('How the label or field relates to the values.', {
          enum: ['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt'],
        }),
        values: list('The values; one integer with Gt and Lt, none with Exists and DoesNotExist.', string('A value.')),
      },
      ['key', 'operator'],
    ),
    { maxItems: maxRequirements },
  )

const nodeTerm = (description: string) =>
  open(description, {
    matchExpressions: nodeRequirements('Requirements on the labels of the node.'),
    matchFields: nodeRequirements('Requirements on the fields of the node (metadata.name).'),
  })

const weight = integer('The weight of this preference, 1 to 100.', { minimum: 1, maximum: 100 })

const podTerm = (description: string) =>
  open(
    description,
    {
      labelSelector: labelSelector('Selects the pods.'),
      namespaceSelector: labelSelector("Namespaces of those pods, by label; empty: all. Absent: the VM's own."),
      namespaces: list('Namespaces of those pods, by name.', string('A namespace.')),
      topologyKey: string('The node label that defines one location, e.g. kubernetes.io/hostname.'),
      matchLabelKeys: list("Keys of labels that must have the same value as on the VM's own pod.", string('A key.')),
      mismatchLabelKeys: list(
        "Keys of labels that must have another value than on the VM's own pod.",
        string('A key.'),
      ),
    },
    ['topologyKey'],
  )

/** Presets and server-side apply set each of the three rules of an affinity as a whole. */
const whole = (rules: Schema): Schema => ({ ...rules, 'x-kubernetes-map-type': 'atomic' })

const podRules = (description: string) =>
  open(description, {
    requiredDuringSchedulingIgnoredDuringExecution: list('Must hold when the pod is placed.', podTerm('One rule.')),
    preferredDuringSchedulingIgnoredDuringExecution: list(
      'Should hold when the pod is placed.',
      open('A preference.', { weight, podAffinityTerm: podTerm('The rule.') }, ['weight', 'podAffinityTerm']),
    ),
  })

export const affinity: Schema = open("Where the VM's pod may and should run; Kubernetes' own Affinity.", {
  nodeAffinity: whole(
    open('Rules on the nodes.', {
      requiredDuringSchedulingIgnoredDuringExecution: open(
        'Must hold when the pod is placed.',
        {
          nodeSelectorTerms: list('Alternatives; one must hold.', nodeTerm('One alternative.'), {
            maxItems: maxRequirements,
          }),
        },
        ['nodeSelectorTerms'],
      ),
      preferredDuringSchedulingIgnoredDuringExecution: list(
        'Should hold when the pod is placed.',
        open('A preference.', { weight, preference: nodeTerm('The requirement.') }, ['weight', 'preference']),
      ),
    }),
  ),
  podAffinity: whole(podRules("Pods that the VM's pod should run close to.")),
  podAntiAffinity: whole(podRules("Pods that the VM's pod should run away from.")),
})

/** Kubernetes' Affinity. */
export interface Affinity {
  readonly nodeAffinity?: {
    readonly requiredDuringSchedulingIgnoredDuringExecution?: { readonly nodeSelectorTerms: readonly NodeTerm[] }
    readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly { readonly preference: NodeTerm }[]
  }
  readonly podAffinity?: PodRules
  readonly podAntiAffinity?: PodRules
}

interface PodRules {
  readonly requiredDuringSchedulingIgnoredDuringExecution?: readonly PodTerm[]
  readonly preferredDuringSchedulingIgnoredDuringExecution?: readonly { readonly podAffinityTerm: PodTerm }[]
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

/** Kubernetes' PodAffinityTerm. */
export interface PodTerm {
  readonly topologyKey: string
  readonly labelSelector?: LabelSelector
  readonly namespaceSelector?: LabelSelector
  readonly namespaces?: readonly string[]
  readonly matchLabelKeys?: readonly string[]
  readonly mismatchLabelKeys?: readonly string[]
}

const required = 'requiredDuringSchedulingIgnoredDuringExecution'
const preferred = 'preferredDuringSchedulingIgnoredDuringExecution'

/** A check of each takes microseconds, and the controller compares them with those of the pod. */
const maxValues = 10_000

/**
 * Checks an affinity that matches its schema, as the API server checks that of a pod. It would refuse the pod with a
 * message for each value, a hundred times as long as the affinity.
 */
export function checkAffinity(affinity: Affinity, field: string): Cause[] {
  const tooLarge = (at: string, message: string): Cause[] => [
    { rule: 'affinity-size', field: at, reason: 'FieldValueTooMany', message },
  ]
  if (sizeOf(affinity) > maxValues) return tooLarge(field, `has more than ${maxValues} values`)
  const { nodeAffinity = {}, podAffinity, podAntiAffinity } = affinity
  const at = `${field}.nodeAffinity`
  const { nodeSelectorTerms } = nodeAffinity[required] ?? {}
  const requirements = (nodeSelectorTerms ?? []).flatMap((term) => [
    term.matchExpressions ?? [],
    term.matchFields ?? [],
  ])
  if (requirements.flat().length > mostRequirements) {
    const where = `${at}.${required}.nodeSelectorTerms`
    return tooLarge(where, `has ${requirements.flat().length} requirements, more than ${mostRequirements} in all terms`)
  }
  return [
    ...(nodeSelectorTerms?.length === 0
      ? [invalidValue('node-terms', `${at}.${required}.nodeSelectorTerms`, [], 'must have at least one term')]
      : []),
    ...each(nodeSelectorTerms, `${at}.${required}.nodeSelectorTerms`, checkNodeTerm),
    ...each(nodeAffinity[preferred], `${at}.${preferred}`, ({ preference }, one) =>
      checkNodeTerm(preference, `${one}.preference`),
    ),
    ...Object.entries({ podAffinity, podAntiAffinity }).flatMap(([key, rules = {}]) => [
      ...each(rules[required], `${field}.${key}.${required}`, checkPodTerm),
      ...each(rules[preferred], `${field}.${key}.${preferred}`, ({ podAffinityTerm }, one) =>
        checkPodTerm(podAffinityTerm, `${one}.podAffinityTerm`),
      ),
    ]),
  ]
}

const each = <T>(
  items: readonly T[] = [],
  field: string,
  check: (item: T, field: string) => readonly Cause[],
): Cause[] => items.flatMap((item, index) => check(item, `${field}[${index}]`))

const checkNodeTerm = ({ matchExpressions, matchFields }: NodeTerm, field: string): Cause[] => [
  ...each(matchExpressions, `${field}.matchExpressions`, (one, at) => [
    ...checkKey(one.key, `${at}.key`),
    ...checkNodeValues(one, at),
  ]),
  ...each(matchFields, `${field}.matchFields`, ({ key, operator, values = [] }, at) =>
    key === 'metadata.name' && (operator === 'In' || operator === 'NotIn') && values.length === 1
      ? []
      : [invalidValue('node-field', at, key, 'must be metadata.name, with the operator In or NotIn and one value')],
  ),
]

/** How many values an operator takes. */
const counts = {
  In: [1, Infinity],
  NotIn: [1, Infinity],
  Exists: [0, 0],
  DoesNotExist: [0, 0],
  Gt: [1, 1],
  Lt: [1, 1],
} as const

function checkNodeValues({ operator, values = [] }: NodeRequirement, field: string): Cause[] {
  const [least, most] = counts[operator]
  if (values.length < least || values.length > most) {
    const message = most === 0 ? 'must be empty' : most === 1 ? 'must be one value' : 'must not be empty'
    return [invalidValue('selector-values', `${field}.values`, values, `${message}, since operator is ${operator}`)]
  }
  return each(values, `${field}.values`, (value, at) =>
    isLabelValue(value) ? [] : [invalidValue('label-value', at, value, labelValueRule)],
  )
}

function checkPodTerm(term: PodTerm, field: string): Cause[] {
  const {
    topologyKey,
    labelSelector = {},
    namespaceSelector = {},
    namespaces,
    matchLabelKeys,
    mismatchLabelKeys,
  } = term
  const checkKeys = (keys: readonly string[] | undefined, name: string) => each(keys, `${field}.${name}`, checkKey)
  return [
    ...checkKey(topologyKey, `${field}.topologyKey`),
    ...checkSelector(labelSelector, `${field}.labelSelector`),
    ...checkSelector(namespaceSelector, `${field}.namespaceSelector`),
    ...each(namespaces, `${field}.namespaces`, (name, at) =>
      isDnsLabel(name) ? [] : [invalidValue('namespace-name', at, name, dnsLabelRule)],
    ),
    ...checkKeys(matchLabelKeys, 'matchLabelKeys'),
    ...checkKeys(mismatchLabelKeys, 'mismatchLabelKeys'),
    ...checkLabelKeys(term, field),
  ]
}

/**
 * The API server adds a requirement to the selector for each key of a label that the pod has, and then refuses a
 * selector with two for a key of `matchLabelKeys`. Presets can add the label, so the key is refused without it, too.
 */
function checkLabelKeys(
  { labelSelector, matchLabelKeys = [], mismatchLabelKeys = [] }: PodTerm,
  field: string,
): Cause[] {
  const rule = 'label-keys'
  if (labelSelector === undefined) {
    return Object.entries({ matchLabelKeys, mismatchLabelKeys })
      .filter(([, keys]) => keys.length > 0)
      .map(([name]) => ({
        rule,
        field: `${field}.${name}`,
        reason: 'FieldValueForbidden',
        message: 'must not be set without labelSelector',
        suggestion: 'labelSelector: {} selects all pods',
      }))
  }
  const { matchLabels = {}, matchExpressions = [] } = labelSelector
  const selected = new Set([...Object.keys(matchLabels), ...matchExpressions.map(({ key }) => key)])
  const mismatched = new Set(mismatchLabelKeys)
  const seen = new Set<string>()
  return each(matchLabelKeys, `${field}.matchLabelKeys`, (key, at) => {
    const twice = seen.has(key)
      ? [{ rule, field: at, value: key, reason: 'FieldValueDuplicate' as const, message: 'is already in the list' }]
      : []
    seen.add(key)
    const others = { mismatchLabelKeys: mismatched, labelSelector: selected }
    const elsewhere = Object.entries(others).filter(([, keys]) => keys.has(key))
    return [
      ...twice,
      ...elsewhere.map(([name]) => ({
        ...invalidValue(rule, at, key, `must not be in ${name} too`),
        suggestion: 'remove it from one of them',
      })),
    ]
  })
}

const checkKey = (key: string, field: string): Cause[] =>
  isQualifiedName(key) ? [] : [invalidValue('label-key', field, key, qualifiedNameRule)]
