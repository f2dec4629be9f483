import type { Cause } from '../api/cause.ts'
import type { Domain } from '../api/domain/domain.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { heapCostOf } from '../api/heap-cost.ts'
import { nearest } from '../api/nearest.ts'
import type { Preset, PresetFields, PresetSpec } from '../api/preset.ts'
import { isDeeper, isRecord, mostLevels } from '../api/schema.ts'
import { specKeys } from '../api/virtual-machine.ts'
import { shorten } from '../api/shorten.ts'
import { compileCondition, type Condition } from './condition.ts'
import { amount, presetLimit, resources, type Meter } from './condition-budget.ts'
import { largestPattern } from './condition-pattern.ts'
import { ordinary, type Estimate } from './condition-estimate.ts'
import { hostPaths } from './grant.ts'
import { duplicateCauses } from './duplicates.ts'
import { withoutStars } from './items.ts'
import type { RemovePath } from './remove-path.ts'
import { parseRemovePath } from './remove-path.ts'
import { commonLabels, compileSelector } from './selector.ts'
import { unknownPaths } from './unknown-path.ts'
import type { Structure } from './structure.ts'
import { virtualMachineStructure } from './structure.ts'

export interface Checked {
  readonly causes: Cause[]
  readonly warnings: string[]
}

/**
 * Checks a preset beyond its schema, and collects warnings for its author. The API server decides whether the author
 * may grant host-reaching fields (`needsGrant`); `findOverlaps` compares the preset with others.
 */
export function checkPreset(preset: Preset): Checked {
  const { spec } = preset
  const tooLarge = checkSize(preset)
  if (tooLarge.length > 0) return { causes: tooLarge, warnings: [] }
  return {
    causes: [
      ...checkSelectors(spec),
      ...checkConditions(spec),
      ...checkDomain(spec),
      ...checkIdentity(spec),
      ...checkReach(preset),
      ...checkRemoves(spec, { content: spec, structure: specStructure(), whole: ['domain'], example }),
      ...duplicateCauses(specStructure(), pick(spec, contentKeys), 'spec'),
    ],
    warnings: warningsOf(preset),
  }
}

/**
 * The maximum size of a namespaced preset in bytes of JSON. Every process caches all presets, which takes several times
 * this size in memory.
 */
const maxPresetBytes = 64 * 1024

/** The maximum of what all presets in one namespace count. */
export const maxNamespaceSize = 1024 * 1024

/** What the smallest preset counts: one of 15 bytes takes 2 KB in each process, with its names and its index. */
const smallestCounted = 1024

/** The size of a spec in bytes of JSON. One that nests deeper than any valid one was stored without the webhooks. */
const specBytes = (spec: unknown): number =>
  isDeeper(spec, mostLevels) ? maxPresetBytes : Buffer.byteLength(JSON.stringify(spec))

/** An instruction of a pattern takes 130 bytes of memory, and a subexpression 250. */
const perInstruction = 16
const perNode = 32

/**
 * What a preset counts towards the limit of its namespace: the bytes of its JSON as a rule, and more if it takes more
 * than 16 times as much memory: `'((a)){490}'` takes 600 KB.
 * @param conditions those that are compiled
 */
export function sizeOf(spec: unknown, conditions: readonly Pick<Condition, 'instructions' | 'nodes'>[] = []): number {
  if (isDeeper(spec, mostLevels)) return maxPresetBytes
  const json = Buffer.from(JSON.stringify(spec))
  const compiled = conditions.map(({ instructions, nodes }) => perInstruction * instructions + perNode * nodes)
  const own = Math.max(json.length, Math.ceil(heapCostOf(json) / 16))
  return compiled.reduce((sum, one) => sum + one, Math.max(smallestCounted, own))
}

/** @param value what its presets would count, or this one does */
export const namespaceTooLarge = (namespace: string, value: number, kind = 'VirtualMachinePreset'): Cause => ({
  rule: 'namespace-presets-size',
  field: 'spec',
  value,
  reason: 'FieldValueTooMany',
  message: `the presets of namespace "${namespace}" must count at most ${maxNamespaceSize} together: their bytes of JSON, each at least ${smallestCounted}, and more for conditions with large patterns or many operations`,
  suggestion: `delete presets that are not used, or use a Cluster${kind}`,
})

/** The conditions of a preset that are valid. One that was stored without the webhooks may have any form. */
export function validConditions({ matchConditions }: { readonly matchConditions?: unknown }): readonly Condition[] {
  const given: readonly unknown[] = Array.isArray(matchConditions) ? matchConditions : []
  return given.flatMap((one) => {
    const { name, expression } = isRecord(one) ? one : {}
    if (typeof name !== 'string' || typeof expression !== 'string') return []
    const condition = compileCondition(name, expression)
    return 'fault' in condition ? [] : [condition]
  })
}

/** Tenants write namespaced presets, and could otherwise exhaust the memory of every process. */
export function checkSize({ kind, spec }: { readonly kind: string; readonly spec: unknown }): Cause[] {
  const value = specBytes(spec)
  if (kind.startsWith('Cluster') || value <= maxPresetBytes) return []
  const message = `must be at most ${maxPresetBytes} bytes of JSON`
  const suggestion = `split it, or use a Cluster${kind}`
  return [{ rule: 'preset-size', field: 'spec', value, reason: 'FieldValueTooLong', message, suggestion }]
}

/** A selector that contradicts itself can never match. */
export const checkSelectors = ({ selector, namespaceSelector }: PresetFields): Cause[] =>
  Object.entries({ selector, namespaceSelector }).flatMap(([key, one]): Cause[] => {
    if (one === undefined || commonLabels([compileSelector(one)]) !== undefined) return []
    const message = 'contradicts itself: no labels can match it'
    return [{ rule: 'preset-selects-nothing', field: `spec.${key}`, reason: 'FieldValueInvalid', message }]
  })

/** The maximum length of all expressions of a preset, in characters. They are parsed whenever the preset changes. */
const longestExpressions = 16_384

/** @param one what presets select, in messages */
export function checkConditions({ matchConditions = [] }: PresetFields, one = 'a VM'): Cause[] {
  const length = matchConditions.reduce((total, { expression }) => total + expression.length, 0)
  if (length > longestExpressions) {
    const message = `the expressions have ${length} characters together; at most ${longestExpressions} are allowed`
    return [{ rule: 'preset-condition-cost', field: 'spec.matchConditions', reason: 'FieldValueTooLong', message }]
  }
  const causes: Cause[] = []
  const total = { steps: 0, bytes: 0, instructions: 0 }
  for (const [index, { name, expression }] of matchConditions.entries()) {
    const condition = compileCondition(name, expression)
    const field = `spec.matchConditions[${index}].expression`
    if ('fault' in condition) {
      const message = condition.fault
      causes.push({ rule: 'preset-condition', field, value: expression, reason: 'FieldValueInvalid', message })
    } else {
      const { estimate } = condition
      causes.push(...costCauses(field, `condition "${name}"`, one, estimate))
      total.steps += estimate.steps
      total.bytes += estimate.bytes
    }
    total.instructions += condition.instructions
    // A faulty condition takes as long to compile, so it counts too. The remaining conditions are not compiled.
    if (total.instructions > largestPattern) return [...causes, patternsCause]
  }
  return causes.length > 0 ? causes : costCauses('spec.matchConditions', 'the conditions together', one, total)
}

const patternsCause: Cause = {
  rule: 'preset-condition-cost',
  field: 'spec.matchConditions',
  reason: 'FieldValueInvalid',
  message: `the patterns of all conditions have more than ${largestPattern} instructions together, each repetition written out`,
  suggestion:
    'use smaller numbers in {}, no Unicode classes together with (?i), or the functions startsWith, endsWith and contains',
}

/** As in Kubernetes, the cost is estimated from the maximum sizes of the values that a condition handles. */
function costCauses(field: string, what: string, one: string, estimate: Readonly<Meter> & Partial<Estimate>): Cause[] {
  const resource = resources.find((one) => estimate[one] > presetLimit[one])
  if (resource === undefined) return []
  const { members, characters } = ordinary
  const where = estimate.dearest === undefined ? '' : `, most of them in ${shorten(estimate.dearest, 80)}`
  const message = `${what} could take ${amount(resource, estimate[resource])} on ${one} with lists of ${members} items and texts of ${characters} characters${where}; a preset is allowed ${amount(resource, presetLimit[resource])}`
  const suggestion = 'avoid nested loops, texts and lists that are concatenated with themselves, and large patterns'
  return [{ rule: 'preset-condition-cost', field, reason: 'FieldValueInvalid', message, suggestion }]
}

const checkDomain = ({ domain }: PresetSpec): Cause[] =>
  domain === undefined ? [] : validateDomain(plainDomain(domain), 'spec.domain')

const specStructure = (): Structure | undefined => virtualMachineStructure().field('spec')

function domainStructure(): Structure | undefined {
  const spec = specStructure()
  return spec?.kind === 'object' ? spec.field('domain') : undefined
}

/** A preset's domain without the `'*'` keys that match every item: `'*'` is not a valid value of those fields. */
export const plainDomain = (domain: Domain): Domain => withoutEveryItem(domainStructure(), domain) as Domain

/** The value without the `'*'` keys of its items. */
function withoutEveryItem(structure: Structure | undefined, value: unknown): unknown {
  if (structure?.kind === 'list' && Array.isArray(value)) {
    return value.map((item) => withoutEveryItem(structure.item, withoutStars(structure, item)))
  }
  if (structure?.kind !== 'object' || !isRecord(value)) return value
  const members = Object.entries(value).map(([key, member]) => [key, withoutEveryItem(structure.field(key), member)])
  return Object.fromEntries(members)
}

/** These fields are unique to each VM. */
const checkIdentity = ({ domain = {} }: PresetSpec): Cause[] =>
  (['name', 'uuid', 'id'] as const)
    .filter((key) => Object.hasOwn(domain, key))
    .map((key) => ({
      rule: 'preset-identity',
      field: `spec.domain.${key}`,
      value: domain[key],
      reason: 'FieldValueForbidden',
      message: 'must not be injected: it is unique to each VM',
    }))

function checkReach({ kind, spec }: Preset): Cause[] {
  if (kind === 'ClusterVirtualMachinePreset') return []
  return hostPaths(spec).map((field) => ({
    rule: 'preset-reach',
    field,
    reason: 'FieldValueForbidden',
    message: 'reaches the host, which only a ClusterVirtualMachinePreset may grant',
  }))
}

const example = 'domain.devices.disks[target.dev=vdb]'

interface RemoveContext {
  /** What the preset sets. */
  readonly content: object
  /** The structure of the value to which the paths are relative. */
  readonly structure: Structure | undefined
  /** Fields that must not be removed as a whole. */
  readonly whole: readonly string[]
  /** A valid path, for messages. */
  readonly example: string
}

export function checkRemoves(
  { strength = 'Default', remove = [] }: PresetFields,
  { content, structure, whole, example }: RemoveContext,
): Cause[] {
  const causes: Cause[] = []
  if (remove.length > 0 && strength !== 'Enforce') {
    const message = 'needs strength Enforce: a default only fills what is absent'
    causes.push({ rule: 'preset-remove', field: 'spec.remove', reason: 'FieldValueForbidden', message })
  }
  for (const [index, text] of remove.entries()) {
    const field = `spec.remove[${index}]`
    const path = parseRemovePath(text)
    const fault =
      path === undefined ? { message: `must be a path such as ${example}` } : pathFault(path, structure, whole)
    if (fault !== undefined) {
      causes.push({ rule: 'preset-remove', field, value: text, reason: 'FieldValueInvalid', ...fault })
    } else if (path !== undefined && isStated(path, content)) {
      const message = 'is also set by this preset: a preset cannot both set and remove a field'
      causes.push({ rule: 'preset-remove', field, value: text, reason: 'FieldValueInvalid', message })
    }
  }
  return causes
}

/** Returns why a path does not exist, or undefined if it exists. */
function pathFault(
  { text, steps }: RemovePath,
  structure: Structure | undefined,
  whole: readonly string[],
): { message: string; suggestion?: string } | undefined {
  return whole.includes(text) ? { message: `would remove the whole ${text}` } : stepsFault(steps, structure)
}

function stepsFault(
  steps: RemovePath['steps'],
  structure: Structure | undefined,
): { message: string; suggestion?: string } | undefined {
  let at = structure
  for (const step of steps) {
    if (step.kind === 'key' && at?.kind === 'object') {
      const next: Structure | undefined = at.field(step.key)
      if (next === undefined) return unknownKey(step.key, at.keys())
      at = next
    } else if (step.kind !== 'key' && at?.kind === 'list') {
      at = at.item
      const keys = step.kind === 'match' ? step.path : []
      const fault = stepsFault(
        keys.map((key) => ({ kind: 'key', key })),
        at,
      )
      if (fault !== undefined) return fault
    } else {
      const form = at?.kind === 'list' ? 'is a list: select an item with [0] or [KEY=VALUE]' : 'has no fields'
      return { message: `does not exist: the part before "${stepText(step)}" ${form}` }
    }
  }
  return undefined
}

const stepText = (step: RemovePath['steps'][number]): string =>
  step.kind === 'key' ? step.key : step.kind === 'index' ? `[${step.index}]` : `[${step.at}=${step.value}]`

function unknownKey(key: string, keys: readonly string[]): { message: string; suggestion?: string } {
  const message = `does not exist: no field "${key}"`
  if (key === 'spec' && keys.includes('domain'))
    return { message, suggestion: 'leave out "spec.": paths begin below it' }
  const near = nearest(key, keys)
  return near === undefined ? { message } : { message, suggestion: `did you mean ${JSON.stringify(near)}?` }
}

/** Whether a preset sets a value at or below a path that consists of keys only. */
function isStated({ steps }: RemovePath, content: object): boolean {
  let at: unknown = content
  for (const step of steps) {
    if (step.kind !== 'key') return false
    if (!isRecord(at) || !Object.hasOwn(at, step.key)) return false
    at = at[step.key]
  }
  return true
}

const pick = (spec: PresetSpec, keys: readonly (keyof PresetSpec)[]): object =>
  Object.fromEntries(keys.map((key) => [key, spec[key]]))

const contentKeys: readonly (keyof PresetSpec)[] = ['metadata', 'domain', ...specKeys]

/** Fields that libvirt fills in again when it defines a domain without them. */
const filledAgain: readonly string[] = [
  'domain.cpu',
  'domain.clock',
  'domain.onPoweroff',
  'domain.onReboot',
  'domain.onCrash',
  'domain.devices.emulator',
  'domain.devices.controllers',
  'domain.devices.inputs',
  'domain.devices.memballoon',
  'domain.devices.audios',
  'domain.uuid',
  'domain.vcpu',
  'domain.currentMemory',
]

function warningsOf({ kind, spec }: Preset): string[] {
  const { selector, remove = [] } = spec
  const isForAll = [selector.matchLabels ?? {}, selector.matchExpressions ?? []].every(
    (part) => Object.keys(part).length === 0,
  )
  const scope = kind === 'VirtualMachinePreset' ? 'its namespace' : 'every namespace that it applies to'
  const changesNothing = remove.length === 0 && contentKeys.every((key) => spec[key] === undefined)
  return [
    ...(isForAll ? [`spec.selector: {} selects every VM of ${scope}`] : []),
    ...(changesNothing ? ['spec: injects nothing and removes nothing'] : []),
    ...unknownPaths(domainStructure(), spec.domain, 'spec.domain').map(
      (path) => `${path}: has no effect together with the other fields that this preset sets`,
    ),
    ...remove.flatMap((text, index) => {
      const plain = text.replaceAll(/\[[^\]]*\]/g, '')
      return filledAgain.includes(plain) ? [`spec.remove[${index}]: libvirt sets ${plain} again if it is absent`] : []
    }),
  ]
}
