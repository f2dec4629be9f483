import type { LabelSelector } from '../../api/object.ts'
import { groupOf, versionOf } from '../../api/preset-target.ts'
import type { ObjectTarget, UnusableTarget } from '../../inventory/objects.ts'
import type { Selector } from '../../presets/selector.ts'
import { targetName } from '../../presets/target-check.ts'
import { admissionPath } from '../admission-routes.ts'

/** The part of admissionregistration.k8s.io/v1 that the webhooks write, with every field that has a default. */
export interface Webhook {
  readonly name: string
  readonly admissionReviewVersions: readonly ['v1']
  readonly clientConfig: {
    readonly service: {
      readonly namespace: string
      readonly name: string
      readonly port: number
      readonly path: string
    }
  }
  readonly failurePolicy: 'Fail' | 'Ignore'
  readonly matchPolicy: 'Equivalent'
  readonly namespaceSelector: LabelSelector
  readonly objectSelector: LabelSelector
  readonly rules: readonly {
    readonly apiGroups: readonly string[]
    readonly apiVersions: readonly string[]
    readonly operations: readonly ['CREATE']
    readonly resources: readonly string[]
    readonly scope: 'Namespaced'
  }[]
  readonly matchConditions: readonly { readonly name: string; readonly expression: string }[]
  readonly sideEffects: 'None'
  readonly timeoutSeconds: number
  readonly reinvocationPolicy: 'IfNeeded'
}

/** Whom the webhooks exclude. */
export interface Exclusions {
  readonly namespaces: readonly string[]
  readonly accounts: readonly string[]
}

/**
 * One webhook for each kind that has presets, ordered by name: exactly its resource, in no excluded namespace. The API
 * server sends only objects with a label that all presets of the kind require, if there is one.
 */
export const webhooksFor = (
  targets: Iterable<ObjectTarget | UnusableTarget>,
  exclusions: Exclusions,
): readonly Webhook[] =>
  [...targets]
    .flatMap((entry) => ('kind' in entry ? webhookOf(entry, exclusions) : []))
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))

function webhookOf(entry: ObjectTarget, { namespaces, accounts }: Exclusions): readonly Webhook[] {
  const { target, resource, candidates, quarantined } = entry
  const selectors = [...candidates.all(), ...quarantined.values()].flatMap(({ selector }) => selector ?? [])
  if (selectors.length === 0) return []
  const { apiVersion, failurePolicy, namespaceSelector = {} } = target.spec
  return [
    {
      name: `${targetName(resource, apiVersion)}.objects.virtset.io`,
      admissionReviewVersions: ['v1'],
      // As in manifests/webhooks/configurations.yaml: the API server sends requests to itself, so no caBundle is needed.
      clientConfig: {
        service: { namespace: 'default', name: 'kubernetes', port: 443, path: `${admissionPath}/objects` },
      },
      failurePolicy,
      matchPolicy: 'Equivalent',
      namespaceSelector: {
        ...(namespaceSelector.matchLabels === undefined ? {} : { matchLabels: namespaceSelector.matchLabels }),
        matchExpressions: [
          ...(namespaceSelector.matchExpressions ?? []),
          { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: namespaces },
        ],
      },
      objectSelector: commonLabel(selectors),
      rules: [
        {
          apiGroups: [groupOf(apiVersion)],
          apiVersions: [versionOf(apiVersion)],
          operations: ['CREATE'],
          resources: [resource],
          scope: 'Namespaced',
        },
      ],
      matchConditions: [
        { name: 'is-not-virtset', expression: `!(request.userInfo.username in ${JSON.stringify(accounts)})` },
        // The kubelet compares the mirror of a static pod with the manifest on its node.
        ...(resource === 'pods' && groupOf(apiVersion) === ''
          ? [{ name: 'is-not-static', expression: notMirrored }]
          : []),
      ],
      sideEffects: 'None',
      timeoutSeconds: 5,
      reinvocationPolicy: 'IfNeeded',
    },
  ]
}

const notMirrored = '!("kubernetes.io/config.mirror" in object.metadata.?annotations.orValue({}))'

/** Selects objects with the first label that every selector requires; all objects if there is none. */
function commonLabel(selectors: readonly Selector[]): LabelSelector {
  const requiredKeys = ({ requirements }: Selector) =>
    new Set(requirements.flatMap(({ key, presence }) => (presence === 'must' ? [key] : [])))
  const [first = new Set<string>(), ...others] = selectors.map(requiredKeys)
  const [key] = [...first].filter((one) => others.every((keys) => keys.has(one))).toSorted()
  return key === undefined ? {} : { matchExpressions: [{ key, operator: 'Exists' }] }
}
