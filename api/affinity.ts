import { integer, list, map, open, string } from './schema.ts'
import type { Schema } from './schema.ts'

/**
 * Kubernetes' Affinity (core/v1). It is copied to the launcher pod unchanged; `completion/rules` checks the rest of its
 * semantics.
 */

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

/** Completion evaluates each requirement for each node, so requirements × nodes must stay small on large clusters. */
const maxRequirements = 32

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
