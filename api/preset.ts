import { labelSelector } from './affinity.ts'
import type { Cause } from './cause.ts'
import type { Domain } from './domain/domain.ts'
import { invalidValue, requiredField, wrongType } from './field-error.ts'
import { checkHostDevices, type HostDevice } from './host-device.ts'
import { checkResourceClaims, type ResourceClaim } from './resource-claim.ts'
import { checkLabels, checkSelector, dnsLabelRule, isDnsLabel } from './label.ts'
import type { Volume } from './volume.ts'
import { annotationsSchema, checkMetadata, labelsSchema } from './metadata.ts'
import type { Condition, LabelSelector, ObjectMeta } from './object.ts'
import { checkPorts, type Port } from './port.ts'
import { checkPlacement, type Placement } from './placement.ts'
import { checkProbes, type Probes } from './probe.ts'
import { reservedKeyCauses } from './reserved.ts'
import { bounded, checkSchema, integer, isRecord, list, nestingCauses, opaque, open, string } from './schema.ts'
import type { Schema, SchemasOf } from './schema.ts'
import type { Tap } from './tap.ts'
import { specFields } from './virtual-machine.ts'
import { checkVolumes } from './volume.ts'

/** The fields that presets of every kind have. */
export interface PresetFields {
  readonly selector: LabelSelector
  /** Cluster presets only. If absent: every namespace except kube-system and virtset's own. */
  readonly namespaceSelector?: LabelSelector
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[]
  readonly strength?: 'Default' | 'Enforce'
  readonly priority?: number
  readonly exclusiveGroup?: string
  readonly mode?: 'Apply' | 'Warn' | 'Audit'
  /** Paths to remove; `Enforce` only. */
  readonly remove?: readonly string[]
}

/** The paths in `remove` are relative to `spec`, e.g. `domain.devices.disks[target.dev=vdb]`. */
export interface PresetSpec extends PresetFields, Placement, Probes {
  readonly metadata?: {
    readonly labels?: { readonly [key: string]: string }
    readonly annotations?: { readonly [key: string]: string }
  }
  readonly domain?: Domain
  readonly volumes?: readonly Volume[]
  readonly ports?: readonly Port[]
  readonly taps?: readonly Tap[]
  readonly deviceStateVolume?: string
  readonly dedicatedCPUs?: boolean
  readonly memoryRequest?: string
  readonly hostDevices?: readonly HostDevice[]
  readonly resourceClaims?: readonly ResourceClaim[]
}

export interface PresetStatus {
  readonly observedGeneration?: number
  readonly revision?: string
  readonly matched?: number
  readonly applied?: number
  readonly outdated?: number
  readonly conditions?: readonly Condition[]
}

export interface Preset {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachinePreset' | 'ClusterVirtualMachinePreset'
  readonly metadata: ObjectMeta
  readonly spec: PresetSpec
  readonly status?: PresetStatus
}

/** The API server's own limit for match conditions, and more than anyone can read. */
const maxConditions = 64

/** @param noun what presets select: `VM`; `one` with its article */
export const presetFields = (noun: string, one: string) =>
  ({
    selector: labelSelector(`Selects ${noun}s by their labels; {} selects every ${noun} in scope.`),
    matchConditions: list(
      'CEL expressions over object, request and namespaceObject; all must be true for the preset to match.',
      open(
        'One condition.',
        {
          name: string('The name of the condition in messages.', { minLength: 1, maxLength: 253 }),
          expression: string('A CEL expression that returns a boolean.', { minLength: 1, maxLength: 4096 }),
        },
        ['name', 'expression'],
      ),
      { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], maxItems: maxConditions },
    ),
    strength: string('Default sets absent fields; Enforce overrides the user. Default if absent.', {
      enum: ['Default', 'Enforce'],
    }),
    priority: integer(
      'The higher priority wins within a layer; different values with equal priority are a conflict. 0 if absent.',
      {
        format: 'int32',
        minimum: -2_147_483_648,
        maximum: 2_147_483_647,
      },
    ),
    exclusiveGroup: string(`At most one preset of a group may match ${one}.`, { minLength: 1, maxLength: 63 }),
    mode: string('Warn: only report what the preset would do; Audit: only count it. Apply if absent.', {
      enum: ['Apply', 'Warn', 'Audit'],
    }),
  }) satisfies SchemasOf<Omit<PresetFields, 'namespaceSelector' | 'remove'>>

export const removeSchema = (description: string): Schema =>
  list(description, string('A path.', { minLength: 1, maxLength: 1024 }))

const namespacedSpec: Schema = bounded(
  open(
    'What to inject, and into which VMs.',
    {
      ...presetFields('VM', 'a VM'),
      metadata: open('Labels and annotations to inject, except reserved ones.', {
        labels: labelsSchema,
        annotations: annotationsSchema,
      }),
      domain: opaque(
        "What to inject into the domain; the same fields as a VM's, none required: kubectl explain vm.spec.domain",
      ),
      ...specFields,
      remove: removeSchema(
        'Paths below spec to remove, e.g. domain.devices.disks[target.dev=vdb]; with strength Enforce only.',
      ),
    } satisfies SchemasOf<Omit<PresetSpec, 'namespaceSelector'>>,
    ['selector'],
  ),
)

const clusterSpec: Schema = clusterSpecOf(namespacedSpec)

/** A cluster preset has the fields of a namespaced one, and a selector of namespaces. */
export function clusterSpecOf(namespaced: Schema): Schema {
  return bounded({
    ...namespaced,
    properties: {
      ...namespaced.properties,
      namespaceSelector: labelSelector(
        "Selects namespaces by their labels. If absent: all except kube-system and virtset's own.",
      ),
    },
  })
}

export const presetSpecSchema = (kind: Preset['kind']): Schema =>
  kind === 'ClusterVirtualMachinePreset' ? clusterSpec : namespacedSpec

/**
 * Parses a preset. Reports everything that is wrong with its shape, names and selectors. `presets/` checks the domain,
 * expressions, paths, reach and conflicts with other presets.
 */
export function parsePreset(value: unknown): { readonly preset: Preset } | { readonly causes: Cause[] } {
  if (!isRecord(value)) return { causes: [wrongType('', value, 'an object')] }
  const schema = value['kind'] === 'ClusterVirtualMachinePreset' ? clusterSpec : namespacedSpec
  const shape = [
    ...checkMetadata(value['metadata'], 'metadata'),
    ...(Object.hasOwn(value, 'spec') ? checkSchema(schema, value['spec'], 'spec') : [requiredField('spec')]),
  ]
  if (shape.length > 0) return { causes: shape.map(explainNamespaced) }
  const preset = value as unknown as Preset
  const causes = [...nestingCauses(preset.spec.domain, 'spec.domain'), ...checkNames(preset.spec)]
  return causes.length > 0 ? { causes } : { preset }
}

/** Adds to the cause of a field that only presets of the cluster have which kind to use. */
function explainNamespaced(cause: Cause): Cause {
  if (cause.rule !== 'unknown-field' || cause.field !== 'spec.namespaceSelector') return cause
  return { ...cause, suggestion: 'use a ClusterVirtualMachinePreset' }
}

function checkNames(spec: PresetSpec): Cause[] {
  const { selector, namespaceSelector, exclusiveGroup, metadata = {} } = spec
  const causes = [
    ...checkSelector(selector, 'spec.selector'),
    ...(namespaceSelector === undefined ? [] : checkSelector(namespaceSelector, 'spec.namespaceSelector')),
    ...checkLabels(metadata.labels ?? {}, 'spec.metadata.labels'),
    ...reservedKeyCauses(metadata.labels ?? {}, 'spec.metadata.labels'),
    ...reservedKeyCauses(metadata.annotations ?? {}, 'spec.metadata.annotations'),
    ...checkVolumes(spec.volumes ?? [], 'spec.volumes'),
    ...checkPorts(spec.ports ?? [], 'spec.ports'),
    ...checkHostDevices(spec.hostDevices ?? [], 'spec.hostDevices'),
    ...checkResourceClaims(spec.resourceClaims ?? [], 'spec.resourceClaims'),
    ...checkProbes(spec, 'spec'),
    ...checkPlacement(spec, 'spec'),
  ]
  if (exclusiveGroup !== undefined && !isDnsLabel(exclusiveGroup)) {
    causes.push(invalidValue('group-name', 'spec.exclusiveGroup', exclusiveGroup, dnsLabelRule))
  }
  return causes
}
