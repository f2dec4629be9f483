import type { Cause } from '../api/cause.ts'
import type { Domain } from '../api/domain/domain.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { nearest } from '../api/nearest.ts'
import type { Preset, PresetSpec } from '../api/preset.ts'
import { isRecord } from '../api/schema.ts'
import { specKeys } from '../api/virtual-machine.ts'
import { shorten } from '../api/shorten.ts'
import { compileCondition } from './condition.ts'
import { amount, presetLimit, resources, type Meter } from './condition-budget.ts'
import { largestPattern } from './condition-pattern.ts'
import { ordinary, type Estimate } from './condition-estimate.ts'
import { hostPaths } from './grant.ts'
import { keysOfItem, withoutStars } from './items.ts'
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
 * The faults of a preset beyond its shape, and warnings for its author. Whether the author may grant host-reaching
 * fields is decided by the API server (`needsGrant`); `findOverlaps` compares it with other presets.
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
      ...checkRemoves(spec),
      ...checkDuplicates(spec),
    ],
    warnings: warningsOf(preset),
  }
}

/** In bytes of JSON. Each process caches all presets, in several times their size. */
export const maxPresetBytes = 64 * 1024

/** All namespaced presets of one namespace. */
export const maxNamespaceBytes = 1024 * 1024

/** Tenants write the presets of namespaces, and could fill the memory of all processes with them. */
function checkSize({ kind, spec }: Preset): Cause[] {
  const value = Buffer.byteLength(JSON.stringify(spec))
  if (kind === 'ClusterVirtualMachinePreset' || value <= maxPresetBytes) return []
  const message = `must be at most ${maxPresetBytes} bytes of JSON`
  const suggestion = 'split it, or use a ClusterVirtualMachinePreset'
  return [{ rule: 'preset-size', field: 'spec', value, reason: 'FieldValueTooLong', message, suggestion }]
}

/** A selector that contradicts itself selects nothing, ever. */
const checkSelectors = ({ selector, namespaceSelector }: PresetSpec): Cause[] =>
  Object.entries({ selector, namespaceSelector }).flatMap(([key, one]): Cause[] => {
    if (one === undefined || commonLabels([compileSelector(one)]) !== undefined) return []
    const message = 'contradicts itself: nothing can have labels that it selects'
    return [{ rule: 'preset-selects-nothing', field: `spec.${key}`, reason: 'FieldValueInvalid', message }]
  })

/** All expressions of a preset: what is longer takes long to read, and is read each time that the preset changes. */
const longestExpressions = 16_384

function checkConditions({ matchConditions = [] }: PresetSpec): Cause[] {
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
      causes.push(...costCauses(field, `condition "${name}"`, estimate))
      total.steps += estimate.steps
      total.bytes += estimate.bytes
    }
    total.instructions += condition.instructions
    // Compiling takes as long for a faulty condition. Those that are left are not even compiled.
    if (total.instructions > largestPattern) return [...causes, patternsCause]
  }
  return causes.length > 0 ? causes : costCauses('spec.matchConditions', 'the conditions together', total)
}

const patternsCause: Cause = {
  rule: 'preset-condition-cost',
  field: 'spec.matchConditions',
  reason: 'FieldValueInvalid',
  message: `the patterns of all conditions have more than ${largestPattern} instructions together, each repetition written out`,
  suggestion:
    'use smaller numbers in {}, no Unicode classes together with (?i), or the functions startsWith, endsWith and contains',
}

/** What a condition could take is estimated as Kubernetes does it: by the sizes of all that it handles. */
function costCauses(field: string, what: string, estimate: Readonly<Meter> & Partial<Estimate>): Cause[] {
  const resource = resources.find((one) => estimate[one] > presetLimit[one])
  if (resource === undefined) return []
  const { members, characters } = ordinary
  const where = estimate.dearest === undefined ? '' : `, most of them in ${shorten(estimate.dearest, 80)}`
  const message = `${what} could take ${amount(resource, estimate[resource])} on a VM with lists of ${members} items and texts of ${characters} characters${where}; a preset is allowed ${amount(resource, presetLimit[resource])}`
  const suggestion = 'avoid loops inside loops, texts and lists that are joined with themselves, and large patterns'
  return [{ rule: 'preset-condition-cost', field, reason: 'FieldValueInvalid', message, suggestion }]
}

const checkDomain = ({ domain }: PresetSpec): Cause[] =>
  domain === undefined ? [] : validateDomain(plainDomain(domain), 'spec.domain')

function domainStructure(): Structure | undefined {
  const spec = virtualMachineStructure().field('spec')
  return spec?.kind === 'object' ? spec.field('domain') : undefined
}

/** What a preset injects, without the `'*'` that matches every key: no scalar has this value. */
export const plainDomain = (domain: Domain): Domain => withoutEveryItem(domainStructure(), domain) as Domain

function withoutEveryItem(structure: Structure | undefined, value: unknown): unknown {
  if (structure?.kind === 'list' && Array.isArray(value)) {
    return value.map((item) => withoutEveryItem(structure.item, withoutStars(structure, item)))
  }
  if (structure?.kind !== 'object' || !isRecord(value)) return value
  const members = Object.entries(value).map(([key, member]) => [key, withoutEveryItem(structure.field(key), member)])
  return Object.fromEntries(members)
}

/** What is one VM's own cannot be given to many. */
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

function checkReach({ kind, spec: { domain } }: Preset): Cause[] {
  if (kind === 'ClusterVirtualMachinePreset' || domain === undefined) return []
  return hostPaths(domain).map((field) => ({
    rule: 'preset-reach',
    field,
    reason: 'FieldValueForbidden',
    message: 'reaches the host, which only a ClusterVirtualMachinePreset may grant',
  }))
}

function checkRemoves({ strength = 'Default', remove = [], ...spec }: PresetSpec): Cause[] {
  const causes: Cause[] = []
  if (remove.length > 0 && strength !== 'Enforce') {
    const message = 'needs strength Enforce: a default only fills what is absent'
    causes.push({ rule: 'preset-remove', field: 'spec.remove', reason: 'FieldValueForbidden', message })
  }
  for (const [index, text] of remove.entries()) {
    const field = `spec.remove[${index}]`
    const path = parseRemovePath(text)
    const fault =
      path === undefined ? { message: 'must be a path such as domain.devices.disks[target.dev=vdb]' } : pathFault(path)
    if (fault !== undefined) {
      causes.push({ rule: 'preset-remove', field, value: text, reason: 'FieldValueInvalid', ...fault })
    } else if (path !== undefined && isStated(path, spec)) {
      const message = 'is set by this preset too; it cannot be both'
      causes.push({ rule: 'preset-remove', field, value: text, reason: 'FieldValueInvalid', message })
    }
  }
  return causes
}

/** Where a path leads nowhere in the description of a VM. */
function pathFault({ text, steps }: RemovePath): { message: string; suggestion?: string } | undefined {
  if (text === 'domain') return { message: 'would take away the whole VM' }
  let at: Structure | undefined = virtualMachineStructure().field('spec')
  for (const step of steps) {
    if (step.kind === 'key' && at?.kind === 'object') {
      const next: Structure | undefined = at.field(step.key)
      if (next === undefined) return unknownKey(step.key, at.keys())
      at = next
    } else if (step.kind !== 'key' && at?.kind === 'list') {
      at = at.item
    } else {
      const form = at?.kind === 'list' ? 'is a list: say which item, e.g. [0] or [KEY=VALUE]' : 'has nothing below'
      return { message: `leads nowhere: what comes before "${stepText(step)}" ${form}` }
    }
  }
  return undefined
}

const stepText = (step: RemovePath['steps'][number]): string =>
  step.kind === 'key' ? step.key : step.kind === 'index' ? `[${step.index}]` : `[${step.path.join('.')}=${step.value}]`

function unknownKey(key: string, keys: readonly string[]): { message: string; suggestion?: string } {
  const near = nearest(key, keys)
  const message = `leads nowhere: "${key}" does not exist`
  return near === undefined ? { message } : { message, suggestion: `did you mean ${JSON.stringify(near)}?` }
}

/** Whether a preset states something at or below a path that goes by keys alone. */
function isStated({ steps }: RemovePath, spec: { readonly [key: string]: unknown }): boolean {
  let at: unknown = spec
  for (const step of steps) {
    if (step.kind !== 'key') return false
    if (!isRecord(at) || !Object.hasOwn(at, step.key)) return false
    at = at[step.key]
  }
  return true
}

/** Two items of one key in one list would disagree with each other in every VM. */
function checkDuplicates(spec: PresetSpec): Cause[] {
  const causes: Cause[] = []
  const visit = (structure: Structure | undefined, value: unknown, field: string): void => {
    if (structure?.kind === 'list' && Array.isArray(value)) {
      const seen = new Map<string, number>()
      for (const [index, item] of value.entries()) {
        for (const id of keysOfItem(structure, item)) {
          const before = seen.get(id)
          if (before !== undefined) {
            const message = `is the same item as ${field}[${before}]`
            causes.push({
              rule: 'preset-duplicate',
              field: `${field}[${index}]`,
              reason: 'FieldValueDuplicate',
              message,
            })
          } else seen.set(id, index)
        }
        visit(structure.item, item, `${field}[${index}]`)
      }
    } else if (structure?.kind === 'object' && isRecord(value)) {
      for (const [key, member] of Object.entries(value)) visit(structure.field(key), member, `${field}.${key}`)
    }
  }
  const structure = virtualMachineStructure().field('spec')
  const stated = contentKeys.filter((key) => key !== 'metadata' && spec[key] !== undefined)
  visit(structure, Object.fromEntries(stated.map((key) => [key, spec[key]])), 'spec')
  return causes
}

const contentKeys: readonly (keyof PresetSpec)[] = ['metadata', 'domain', ...specKeys]

/** What libvirt puts back when it defines a domain without it. */
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
  const scope = kind === 'VirtualMachinePreset' ? 'its namespace' : 'every namespace that it is for'
  const changesNothing = remove.length === 0 && contentKeys.every((key) => spec[key] === undefined)
  return [
    ...(isForAll ? [`spec.selector: {} selects every VM of ${scope}`] : []),
    ...(changesNothing ? ['spec: injects nothing and removes nothing'] : []),
    ...unknownPaths(domainStructure(), spec.domain, 'spec.domain').map(
      (path) => `${path}: never applies beside the other fields that this preset sets`,
    ),
    ...remove.flatMap((text, index) => {
      const plain = text.replaceAll(/\[[^\]]*\]/g, '')
      return filledAgain.includes(plain) ? [`spec.remove[${index}]: libvirt puts ${plain} back when it is absent`] : []
    }),
  ]
}
