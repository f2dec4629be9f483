import { integer, list, map, open, string } from './schema.ts'
import type { Schema } from './schema.ts'

/**
 * Kubernetes' Affinity (core/v1), which goes to the launcher pod as it is; `completion/rules` holds its finer rules.
 */

const labels = (description: string) => map(description, string('The value.'))

export const labelSelector = (description: string): Schema =>
  open(description, {
    matchLabels: labels('Labels that must all be there with these values.'),
    matchExpressions: list(
      'Requirements that must all hold.',
      open(
        'One requirement on the labels.',
        {
          key: string('The label that this is about.'),
          operator: string('What must hold between the label and the values.', {
            enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'],
          }),
          values: list('The values; none with Exists and DoesNotExist.', string('A value of the label.')),
        },
        ['key', 'operator'],
      ),
    ),
  })

/** Completion evaluates each requirement for each node; requirements × nodes must stay small on large clusters, too. */
const maxRequirements = 32

const nodeRequirements = (description: string) =>
  list(
    description,
    open(
      'One requirement on a node.',
      {
        key: string('The label or field of the node.'),
        operator: string('What must hold between it and the values.', {
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

const weight = integer('How much this counts beside other preferences, 1 to 100.', { minimum: 1, maximum: 100 })

const podTerm = (description: string) =>
  open(
    description,
    {
      labelSelector: labelSelector('Which pods.'),
      namespaceSelector: labelSelector("Namespaces of those pods, by label; empty: all. Absent: the VM's own."),
      namespaces: list('Namespaces of those pods, by name.', string('A namespace.')),
      topologyKey: string('The label of nodes by which "together" is meant, e.g. kubernetes.io/hostname.'),
      matchLabelKeys: list("Labels whose value is taken from the VM's own pod.", string('A key.')),
      mismatchLabelKeys: list("Labels whose value must differ from the VM's own pod's.", string('A key.')),
    },
    ['topologyKey'],
  )

/** Presets, and server-side apply, set each of the three rules of an affinity whole. */
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
    open('Which nodes.', {
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
  podAffinity: whole(podRules('Near which other pods.')),
  podAntiAffinity: whole(podRules('Away from which other pods.')),
})
