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
    readonly scope: 'Namespaced' | 'Cluster'
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
 * The webhooks for each kind that has presets, ordered by name: exactly its resource, in no excluded namespace. The API
 * server sends only objects with a label that all presets of their namespace and of the cluster require, if there is
 * one. A preset of one namespace does not make the API server send fewer objects of another. It can make it send all of
 * them, if presets require more labels, or are in more namespaces, than the configuration can list.
 * @param stored the registered webhooks. Those of a target that cannot be used stay, so that `failurePolicy` decides on
 * its objects
 */
export const webhooksFor = (
  targets: Iterable<ObjectTarget | UnusableTarget>,
  exclusions: Exclusions,
  stored: readonly Webhook[] = [],
): readonly Webhook[] => {
  const entries = [...targets]
  const unusable = entries.flatMap((entry) =>
    'kind' in entry ? [] : stored.filter(({ name }) => isOf(name, entry.target.metadata.name ?? '')),
  )
  const made = audiencesWithin(entries.filter((entry) => 'kind' in entry)).flatMap(({ entry, audiences }) =>
    audiences.map((audience) => webhookOf(entry, audience, exclusions)),
  )
  return [...unusable, ...made].toSorted((left, right) => (left.name < right.name ? -1 : 1))
}

const suffix = '.objects.virtset.io'
const namespacedSuffix = '.namespaced.virtset.io'

const isOf = (webhook: string, target: string): boolean =>
  webhook === `${target}${suffix}` || webhook.replace(/\.\d+\.namespaced\.virtset\.io$/, '') === target

/** The objects that one webhook is for: those of some namespaces, with one label. */
interface Audience {
  readonly suffix: string
  readonly operator: 'In' | 'NotIn'
  readonly namespaces: readonly string[]
  /** Undefined for all objects. */
  readonly label: string | undefined
}

/**
 * How many names of namespaces the configuration lists, for all targets together: at most half a MiB. An object of more
 * than 1.5 MiB could not be stored, and no webhook could be changed any more.
 */
const maxListed = 8000
/** Namespaces with other labels share one webhook, which gets all their objects. */
const maxLabels = 16

interface Audiences {
  readonly entry: ObjectTarget
  readonly audiences: readonly Audience[]
}

/** Those that list the most namespaces do not distinguish them if there are too many. */
function audiencesWithin(entries: readonly ObjectTarget[]): readonly Audiences[] {
  const all = entries.map((entry): Audiences => ({ entry, audiences: audiencesOf(entry) }))
  let listed = all.reduce((sum, each) => sum + listedIn(each), 0)
  const merged = new Set<ObjectTarget>()
  for (const each of all.toSorted((left, right) => listedIn(right) - listedIn(left))) {
    if (listed <= maxListed) break
    listed -= listedIn(each)
    merged.add(each.entry)
  }
  return all.map((each) => (merged.has(each.entry) ? { ...each, audiences: [forAllNamespaces(each.entry)] } : each))
}

const listedIn = ({ audiences }: Audiences): number =>
  audiences.reduce((sum, { namespaces }) => sum + namespaces.length, 0)

/** A namespaced preset for a cluster-scoped kind, which was stored without the webhooks, is not applied anywhere. */
const presetsFor = ({ candidates, quarantined, kind }: ObjectTarget) =>
  [...candidates.all(), ...quarantined.values()].filter(({ namespace }) => kind.isNamespaced || namespace === undefined)

function forAllNamespaces(entry: ObjectTarget): Audience {
  const selectors = presetsFor(entry).flatMap(({ selector }) => selector ?? [])
  return { suffix, operator: 'NotIn', namespaces: [], label: firstOf(requiredByAll(selectors)) }
}

function audiencesOf(entry: ObjectTarget): readonly Audience[] {
  const cluster: Selector[] = []
  const byNamespace = new Map<string, Selector[]>()
  for (const { namespace, selector } of presetsFor(entry)) {
    if (selector === undefined) continue
    const together = namespace === undefined ? cluster : (byNamespace.get(namespace) ?? [])
    together.push(selector)
    if (namespace !== undefined) byNamespace.set(namespace, together)
  }
  const names = [...byNamespace.keys()].toSorted()
  const ofCluster = requiredByAll(cluster)
  const groups = Map.groupBy(names, (name) => firstOf(requiredByAll(byNamespace.get(name) ?? [], ofCluster)))
  const largest = [...groups.keys()]
    .flatMap((label) => label ?? [])
    .toSorted((left, right) => sizeIn(groups, right) - sizeIn(groups, left) || (left < right ? -1 : 1))
    .slice(0, maxLabels)
  const own = largest.map((label) => ({ label, namespaces: groups.get(label) ?? [] }))
  const others = [...groups].flatMap(([label, some]) => (label !== undefined && largest.includes(label) ? [] : some))
  const namespaced = [...own, ...(others.length === 0 ? [] : [{ label: undefined, namespaces: others.toSorted() }])]
  return [
    ...(cluster.length === 0
      ? []
      : [{ suffix, operator: 'NotIn' as const, namespaces: names, label: firstOf(ofCluster) }]),
    ...namespaced.map(({ label, namespaces }, index) => ({
      suffix: `.${index}${namespacedSuffix}`,
      operator: 'In' as const,
      namespaces,
      label,
    })),
  ]
}

const sizeIn = (groups: ReadonlyMap<string | undefined, readonly string[]>, label: string): number =>
  groups.get(label)?.length ?? 0

function webhookOf(
  { target, resource, kind }: ObjectTarget,
  { suffix: ending, operator, namespaces, label }: Audience,
  exclusions: Exclusions,
): Webhook {
  const { apiVersion, failurePolicy, namespaceSelector = {} } = target.spec
  const name = 'kubernetes.io/metadata.name'
  return {
    name: `${targetName(resource, apiVersion)}${ending}`,
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
        // For a Namespace, its own labels count; the API server sends other cluster-scoped objects in any case.
        { key: name, operator: 'NotIn', values: exclusions.namespaces },
        ...(namespaces.length === 0 ? [] : [{ key: name, operator, values: namespaces }]),
      ],
    },
    objectSelector: label === undefined ? {} : { matchExpressions: [{ key: label, operator: 'Exists' }] },
    rules: [
      {
        apiGroups: [groupOf(apiVersion)],
        apiVersions: [versionOf(apiVersion)],
        operations: ['CREATE'],
        resources: [resource],
        scope: kind.isNamespaced ? 'Namespaced' : 'Cluster',
      },
    ],
    matchConditions: [
      { name: 'is-not-virtset', expression: `!(request.userInfo.username in ${JSON.stringify(exclusions.accounts)})` },
      // The kubelet compares the mirror of a static pod with the manifest on its node.
      ...(resource === 'pods' && groupOf(apiVersion) === ''
        ? [{ name: 'is-not-static', expression: notMirrored }]
        : []),
    ],
    sideEffects: 'None',
    timeoutSeconds: 5,
    reinvocationPolicy: 'IfNeeded',
  }
}

/** Users can write the annotation, too. The API server lets nodes create no other pods. */
const notMirrored =
  '!("system:nodes" in request.userInfo.?groups.orValue([]) && ' +
  '"kubernetes.io/config.mirror" in object.metadata.?annotations.orValue({}))'

/** The labels that every selector requires, and that are among `common`; undefined if there are no selectors. */
function requiredByAll(selectors: readonly Selector[], common?: ReadonlySet<string>): ReadonlySet<string> | undefined {
  let labels = common
  for (const { requirements } of selectors) {
    const required = new Set(requirements.flatMap(({ key, presence }) => (presence === 'must' ? [key] : [])))
    labels = labels === undefined ? required : labels.intersection(required)
  }
  return labels
}

const firstOf = (labels: ReadonlySet<string> | undefined): string | undefined => [...(labels ?? [])].toSorted()[0]
