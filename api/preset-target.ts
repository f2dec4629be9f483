import { labelSelector } from './affinity.ts'
import type { Cause } from './cause.ts'
import { invalidValue, requiredField, wrongType } from './field-error.ts'
import { checkSelector } from './label.ts'
import { checkMetadata } from './metadata.ts'
import { group, type Condition, type LabelSelector, type ObjectMeta } from './object.ts'
import type { Target } from './object-preset.ts'
import { bounded, checkSchema, isRecord, list, open, string, type Schema } from './schema.ts'

/** A kind whose objects the webhooks complete, and where. */
export interface PresetTargetSpec extends Target {
  /** If absent: every namespace except kube-system and virtset's own. */
  readonly namespaceSelector?: LabelSelector
  /** What the API server does with an object while the webhooks are unavailable. */
  readonly failurePolicy: 'Fail' | 'Ignore'
  /** Paths that only cluster presets of authorized users can set, e.g. `spec.containers[*].securityContext`. */
  readonly restricted?: readonly string[]
}

export interface PresetTargetStatus {
  readonly observedGeneration?: number
  readonly conditions?: readonly Condition[]
}

export interface PresetTarget {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'PresetTarget'
  readonly metadata: ObjectMeta
  readonly spec: PresetTargetSpec
  readonly status?: PresetTargetStatus
}

export const presetTargetSpecSchema: Schema = bounded(
  open(
    'The kind, and where its objects are completed.',
    {
      apiVersion: string('The group and version of the kind, e.g. apps/v1. Presets state the same version.', {
        minLength: 1,
        maxLength: 317,
      }),
      kind: string('The name of the kind, e.g. Deployment.', { minLength: 1, maxLength: 63 }),
      namespaceSelector: labelSelector(
        "Selects namespaces by their labels. kube-system and virtset's own are always excluded. If absent: all others. Only for namespaced kinds.",
      ),
      failurePolicy: string(
        'Fail: while the webhooks are unavailable, objects that presets may select cannot be created. Ignore: they are created without presets.',
        { enum: ['Fail', 'Ignore'] },
      ),
      restricted: list(
        'Fields that an ObjectPreset cannot set or remove, e.g. spec.containers[*].securityContext; a ClusterObjectPreset can if its author has the verb grant-host on clusterobjectpresets.',
        string('A path; [*] stands for every item of a list.', { minLength: 1 }),
        { 'x-kubernetes-list-type': 'set' },
      ),
    },
    ['apiVersion', 'kind', 'failurePolicy'],
  ),
)

/** Groups whose objects decide who may do what, or which requests reach the API server. */
const forbiddenGroups: ReadonlySet<string> = new Set([
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'apiregistration.k8s.io',
  'authentication.k8s.io',
  'authorization.k8s.io',
  'certificates.k8s.io',
  'flowcontrol.apiserver.k8s.io',
  'internal.apiserver.k8s.io',
  'rbac.authorization.k8s.io',
])

/** With their groups; what nodes report about themselves. A preset must not keep a node from joining. */
const kindsOfNodes: ReadonlySet<string> = new Set([
  '/Node',
  'storage.k8s.io/CSINode',
  'resource.k8s.io/ResourceSlice',
  'coordination.k8s.io/Lease',
])

const apiVersionForm = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const kindForm = /^[A-Z][A-Za-z0-9]*$/

/** `apps` of `apps/v1`; empty for `v1`. */
export const groupOf = (apiVersion: string): string =>
  apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : ''

/** `v1` of `apps/v1`. */
export const versionOf = (apiVersion: string): string => apiVersion.slice(apiVersion.indexOf('/') + 1)

/** Reports everything that is wrong with a target by itself. `presets/` checks the rest with the schema of its kind. */
export function parsePresetTarget(
  value: unknown,
): { readonly target: PresetTarget } | { readonly causes: readonly Cause[] } {
  if (!isRecord(value)) return { causes: [wrongType('', value, 'an object')] }
  const shape = [
    ...checkMetadata(value['metadata'], 'metadata'),
    ...(Object.hasOwn(value, 'spec')
      ? checkSchema(presetTargetSpecSchema, value['spec'], 'spec')
      : [requiredField('spec')]),
  ]
  if (shape.length > 0) return { causes: shape }
  const target = value as unknown as PresetTarget
  const causes = checkNames(target.spec)
  return causes.length > 0 ? { causes } : { target }
}

function checkNames({ apiVersion, kind, namespaceSelector }: PresetTargetSpec): readonly Cause[] {
  const of = groupOf(apiVersion)
  const refused = (message: string) => [invalidValue('preset-target', 'spec.apiVersion', apiVersion, message)]
  const isOwn = of === group || of.endsWith(`.${group}`)
  return [
    ...(apiVersionForm.test(apiVersion) ? [] : refused('must be one group and version, e.g. apps/v1')),
    ...(kindForm.test(kind)
      ? []
      : [invalidValue('preset-target', 'spec.kind', kind, 'must be the name of one kind, e.g. Deployment')]),
    ...(isOwn ? refused('must be another group: presets for VMs are of kind VirtualMachinePreset') : []),
    ...(forbiddenGroups.has(of) ? refused('must not be a group that controls access or admission') : []),
    ...(kindsOfNodes.has(`${of}/${kind}`)
      ? [invalidValue('preset-target', 'spec.kind', kind, 'must not be a kind that nodes write about themselves')]
      : []),
    ...(namespaceSelector === undefined ? [] : checkSelector(namespaceSelector, 'spec.namespaceSelector')),
  ]
}
