import { labelSelector } from '../api/affinity.ts'
import type { Cause, Origin } from '../api/cause.ts'
import { deepFreeze } from '../api/deep-freeze.ts'
import { checkSelector } from '../api/label.ts'
import type { LabelSelector, ObjectMeta } from '../api/object.ts'
import type { Preset, PresetFields, PresetSpec } from '../api/preset.ts'
import { parsePreset } from '../api/preset.ts'
import { checkSchema, isRecord } from '../api/schema.ts'
import { specKeys, type VirtualMachineSpec } from '../api/virtual-machine.ts'
import { checkPreset, sizeOf } from './check.ts'
import type { Condition } from './condition.ts'
import { compileCondition } from './condition.ts'
import { digestOf } from './digest.ts'
import type { RemovePath } from './remove-path.ts'
import { parseRemovePath } from './remove-path.ts'
import type { Selector } from './selector.ts'
import { compileSelector } from './selector.ts'
import type { Layer } from './source.ts'
import { originLabel, rankOf } from './source.ts'

/** A preset compiled for matching and merging. Frozen. Compiled once per revision. */
export interface CompiledPreset {
  /** `NAMESPACE/NAME`, or `NAME` for a cluster preset. Unique; used in messages. */
  readonly id: string
  readonly name: string
  /** Absent for a ClusterVirtualMachinePreset. */
  readonly namespace?: string
  readonly origin: Origin & { readonly by: 'preset' }
  readonly strength: 'Default' | 'Enforce'
  readonly mode: 'Apply' | 'Warn' | 'Audit'
  readonly layer: Layer
  readonly rank: number
  readonly selector: Selector
  readonly namespaceSelector: Selector | undefined
  readonly conditions: readonly Condition[]
  readonly exclusiveGroup: string | undefined
  /** What the preset injects, in the form of the object: metadata and spec, and other fields of its kind. */
  readonly content: { readonly metadata?: unknown; readonly spec?: unknown; readonly [key: string]: unknown }
  readonly removes: readonly RemovePath[]
  /** What it counts towards the limit of its namespace. */
  readonly size: number
}

/** An invalid preset, which is never applied, and its faults. */
export interface QuarantinedPreset {
  readonly id: string
  readonly namespace?: string
  readonly causes: readonly Cause[]
  /** What it counts towards the limit of its namespace. */
  readonly size: number
  /** Present if the selector itself is valid: users of the VMs that it selects get a warning. */
  readonly selector: Selector | undefined
  readonly namespaceSelector: Selector | undefined
}

/** Specs that nest deeper than any valid one were stored without the webhooks; all of these have one revision. */
export const revisionOf = (spec: unknown): string => digestOf(spec)

const contentKeys: readonly Exclude<keyof VirtualMachineSpec, 'attachedVolumes'>[] = ['domain', ...specKeys]

/**
 * Compiles a preset from the watch cache or a file. A broken preset is returned as quarantined; this never throws.
 * @param value a preset as JSON
 */
export function compilePreset(
  value: unknown,
): { readonly preset: CompiledPreset } | { readonly quarantined: QuarantinedPreset } {
  try {
    const parsed = parsePreset(value)
    if ('causes' in parsed) return { quarantined: quarantine(value, parsed.causes) }
    const { causes } = checkPreset(parsed.preset)
    if (causes.length > 0) return { quarantined: quarantine(value, causes) }
    return { preset: compileParsed(parsed.preset) }
  } catch (error) {
    // An exception here would end the watch of all presets.
    return { quarantined: quarantine(withoutSpec(value), [unreadable(error)]) }
  }
}

export const withoutSpec = (value: unknown): unknown =>
  isRecord(value) ? { kind: value['kind'], metadata: value['metadata'] } : {}

export const unreadable = (error: unknown): Cause => ({
  rule: 'preset-unreadable',
  field: 'spec',
  reason: 'FieldValueInvalid',
  message: `cannot be read: ${error instanceof Error ? error.message : String(error)}`,
})

/** Compiles a preset that has passed `checkPreset`. */
export const compileParsed = (preset: Preset): CompiledPreset => compileWith(preset, contentOf(preset.spec))

/** A preset of any kind that has been checked. */
interface CheckedPreset {
  readonly kind: string
  readonly metadata: ObjectMeta
  readonly spec: PresetFields
}

/** @param content what it injects, in the form of the object */
export function compileWith(preset: CheckedPreset, content: CompiledPreset['content']): CompiledPreset {
  const { spec } = preset
  const origin = originOf(preset)
  const strength = spec.strength ?? 'Default'
  const conditions = compileConditions(spec)
  const layer: Layer = `${origin.namespace === undefined ? 'cluster' : 'namespace'} ${strength}`
  return Object.freeze<CompiledPreset>({
    id: originLabel(origin),
    name: origin.name,
    ...(origin.namespace === undefined ? {} : { namespace: origin.namespace }),
    origin,
    strength,
    mode: spec.mode ?? 'Apply',
    layer,
    rank: rankOf(layer, spec.priority ?? 0),
    selector: compileSelector(spec.selector),
    namespaceSelector: spec.namespaceSelector === undefined ? undefined : compileSelector(spec.namespaceSelector),
    conditions,
    exclusiveGroup: spec.exclusiveGroup,
    content: deepFreeze(content),
    removes: (spec.remove ?? []).map((text) => {
      const path = parseRemovePath(text)
      if (path === undefined) throw new Error(`remove path was not checked: ${text}`)
      return path
    }),
    size: sizeOf(spec, conditions),
  })
}

function originOf({ kind, metadata, spec }: CheckedPreset): Origin & { readonly by: 'preset' } {
  const { name = '', namespace = 'default' } = metadata
  const revision = revisionOf(spec)
  return Object.freeze(
    isClusterPreset(kind) ? { by: 'preset', name, revision } : { by: 'preset', namespace, name, revision },
  )
}

const compileConditions = (spec: PresetFields): readonly Condition[] =>
  (spec.matchConditions ?? []).map(({ name, expression }) => {
    const condition = compileCondition(name, expression)
    if ('fault' in condition) throw new Error(`condition was not checked: ${condition.fault}`)
    return condition
  })

/** Returns what a preset injects, in the form of a VM. */
function contentOf(spec: PresetSpec): CompiledPreset['content'] {
  const members = contentKeys.filter((key) => spec[key] !== undefined).map((key) => [key, spec[key]] as const)
  return {
    ...(spec.metadata === undefined ? {} : { metadata: structuredClone(spec.metadata) }),
    ...(members.length === 0 ? {} : { spec: structuredClone(Object.fromEntries(members)) }),
  }
}

/** Whether presets of this kind are cluster-scoped. */
export const isClusterPreset = (kind: unknown): boolean => typeof kind === 'string' && kind.startsWith('Cluster')

/** Reads as much of a broken preset as possible. */
export function quarantine(value: unknown, causes: readonly Cause[]): QuarantinedPreset {
  const metadata = isRecord(value) && isRecord(value['metadata']) ? value['metadata'] : {}
  const name = textOf(metadata['name'])
  const isCluster = isRecord(value) && isClusterPreset(value['kind'])
  const namespace = textOf(metadata['namespace']) || 'default'
  const spec = isRecord(value) && isRecord(value['spec']) ? value['spec'] : {}
  return {
    id: isCluster ? name : `${namespace}/${name}`,
    ...(isCluster ? {} : { namespace }),
    causes,
    size: sizeOf(spec),
    selector: readSelector(spec['selector']),
    namespaceSelector: readSelector(spec['namespaceSelector']),
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Returns the selector of a broken preset if the selector itself is valid. */
function readSelector(value: unknown): Selector | undefined {
  const isWhole = checkSchema(labelSelector(''), value, '').length === 0
  if (!isWhole) return undefined
  // The schema check above guarantees this type.
  const selector = value as LabelSelector
  return checkSelector(selector, '').length > 0 ? undefined : compileSelector(selector)
}
