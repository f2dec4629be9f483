import type { Cause } from './cause.ts'
import { invalidValue, requiredField, wrongType } from './field-error.ts'
import { checkSelector, dnsLabelRule, isDnsLabel } from './label.ts'
import { checkMetadata } from './metadata.ts'
import { group, type Condition, type ObjectMeta } from './object.ts'
import { clusterSpecOf, presetFields, removeSchema, type PresetFields } from './preset.ts'
import { bounded, checkSchema, isRecord, nestingCauses, opaque, open, string, type Schema } from './schema.ts'

/** What a preset for objects of any kind injects, and into which. */
export interface ObjectPresetSpec extends PresetFields {
  readonly target: Target
  /** A part of an object: the fields to inject. */
  readonly object?: { readonly [key: string]: unknown }
}

/** The kind of the objects. The fields of the preset are those of this version. */
export interface Target {
  readonly apiVersion: string
  readonly kind: string
}

/** Its `stringData` is a second name of `data`. */
export const isSecret = ({ apiVersion, kind }: { readonly [key: string]: unknown }): boolean =>
  apiVersion === 'v1' && kind === 'Secret'

export interface ObjectPreset {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'ObjectPreset' | 'ClusterObjectPreset'
  readonly metadata: ObjectMeta
  readonly spec: ObjectPresetSpec
  readonly status?: ObjectPresetStatus
}

/** The user who has last written the spec, as JSON with `username` and `groups`. The webhooks write it. */
export const authorAnnotation = 'virtset.io/author'

/** Users of more groups are not recorded: all annotations of an object share 256 KiB. */
export const longestAuthorBytes = 16 * 1024

export interface ObjectPresetStatus {
  readonly observedGeneration?: number
  readonly revision?: string
  readonly conditions?: readonly Condition[]
}

const namespacedSpec: Schema = bounded(
  open(
    'What to inject, and into which objects.',
    {
      target: open(
        'The kind of the objects.',
        {
          apiVersion: string('Its group and version, e.g. apps/v1.', { minLength: 1, maxLength: 317 }),
          kind: string('Its name, e.g. Deployment.', { minLength: 1, maxLength: 63 }),
        },
        ['apiVersion', 'kind'],
      ),
      ...presetFields('object', 'an object'),
      object: opaque('The fields to inject, as in an object of this kind; none is required.'),
      remove: removeSchema(
        'Paths to remove, e.g. spec.template.spec.containers[name=debug]; with strength Enforce only.',
      ),
    },
    ['target', 'selector'],
  ),
)

const clusterSpec: Schema = clusterSpecOf(namespacedSpec)

export const objectPresetSpecSchema = (kind: ObjectPreset['kind']): Schema =>
  kind === 'ClusterObjectPreset' ? clusterSpec : namespacedSpec

/** The name of a kind with its group and version, for lookups and messages: `Deployment of apps/v1`. */
export const targetText = ({ apiVersion, kind }: Target): string => `${kind} of ${apiVersion}`

/**
 * Parses a preset for objects of any kind. Reports everything that is wrong with its shape, names and selectors.
 * `presets/` checks the rest with the schema of the kind.
 */
export function parseObjectPreset(
  value: unknown,
): { readonly preset: ObjectPreset } | { readonly causes: readonly Cause[] } {
  if (!isRecord(value)) return { causes: [wrongType('', value, 'an object')] }
  const schema = objectPresetSpecSchema(
    value['kind'] === 'ClusterObjectPreset' ? 'ClusterObjectPreset' : 'ObjectPreset',
  )
  const shape = [
    ...checkMetadata(value['metadata'], 'metadata'),
    ...(Object.hasOwn(value, 'spec') ? checkSchema(schema, value['spec'], 'spec') : [requiredField('spec')]),
  ]
  if (shape.length > 0) return { causes: shape }
  const preset = value as unknown as ObjectPreset
  const causes = [...nestingCauses(preset.spec.object, 'spec.object'), ...checkNames(preset.spec)]
  return causes.length > 0 ? { causes } : { preset }
}

function checkNames({ target, selector, namespaceSelector, exclusiveGroup }: ObjectPresetSpec): readonly Cause[] {
  const isOwn = target.apiVersion.startsWith(`${group}/`)
  const message = 'must be another group: presets for VMs are of kind VirtualMachinePreset'
  return [
    ...(isOwn ? [invalidValue('preset-target', 'spec.target.apiVersion', target.apiVersion, message)] : []),
    ...checkSelector(selector, 'spec.selector'),
    ...(namespaceSelector === undefined ? [] : checkSelector(namespaceSelector, 'spec.namespaceSelector')),
    ...(exclusiveGroup === undefined || isDnsLabel(exclusiveGroup)
      ? []
      : [invalidValue('group-name', 'spec.exclusiveGroup', exclusiveGroup, dnsLabelRule)]),
  ]
}
