import { isRecord } from '../../api/schema.ts'
import { allDevices } from './device.ts'
import { duplicate, forbidden, invalid, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const seclabelUnique: Rule = {
  id: 'seclabel-unique',
  description:
    'At most one label per security module; `model`, `label` and `relabel` must match the type of the label.',
  about: ['seclabels'],
  *check({ domain }) {
    const seen = new Set<string>()
    for (const [index, { model, type, label, relabel }] of (domain.seclabels ?? []).entries()) {
      const field = `spec.domain.seclabels[${index}]`
      if (model === undefined) yield required(`${field}.model`, 'must be set: the security module', 'e.g. selinux')
      else if (seen.has(model))
        yield duplicate(`${field}.model`, model, 'already has a label in another item of seclabels')
      else seen.add(model)
      if (type === 'dynamic' && relabel === false)
        yield invalid(`${field}.relabel`, false, 'must be true for type dynamic, which labels all resources')
      if (type === 'none' && relabel === true)
        yield invalid(`${field}.relabel`, true, 'must be false for type none, which has no label')
      if (type === 'static' && label === undefined && model !== 'none')
        yield required(`${field}.label`, 'must be set for type static')
    }
  },
  example: example(
    { seclabels: ['a', 'b'].map((label) => ({ model: 'selinux', type: 'static' as const, label })) },
    { seclabels: ['a'].map((label) => ({ model: 'selinux', type: 'static' as const, label })) },
  ),
}

interface Label {
  readonly model?: unknown
  readonly relabel?: unknown
  readonly label?: unknown
}

function* check(
  labels: readonly Label[],
  fields: readonly string[],
  unlabelled: ReadonlySet<unknown>,
): Iterable<Finding> {
  const seen = new Set<unknown>()
  for (const [index, { model, relabel, label }] of labels.entries()) {
    const field = fields[index] ?? ''
    if (typeof model === 'string' && unlabelled.has(model))
      yield forbidden(field, undefined, `must not be set: spec.domain.seclabels disables labels of ${model}`)
    if (seen.has(model)) yield duplicate(`${field}.model`, model, 'already has a label for this source')
    seen.add(model)
    if (relabel === true && label === undefined) yield required(`${field}.label`, 'must be set when relabel is true')
    if (relabel === false && label !== undefined)
      yield invalid(`${field}.relabel`, false, 'must be true when a label is set')
  }
}

/** The fields of a device or source that hold a source. */
const sources = new Set(['source', 'sources', 'backend', 'backingStore', 'dataStore', 'mirror'])

/** The labels of each source of a device. */
function* labelsOf(value: unknown, path: string): Iterable<{ labels: Label[]; fields: string[] }> {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* labelsOf(item, `${path}[${index}]`)
    return
  }
  if (!isRecord(value)) return
  const { seclabels, seclabel } = value
  if (Array.isArray(seclabels)) {
    yield { labels: seclabels.filter(isRecord), fields: seclabels.map((_, index) => `${path}.seclabels[${index}]`) }
  }
  if (isRecord(seclabel)) yield { labels: [seclabel], fields: [`${path}.seclabel`] }
  for (const [key, member] of Object.entries(value)) {
    if (sources.has(key)) yield* labelsOf(member, `${path}.${key}`)
  }
}

const seclabelSource: Rule = {
  id: 'seclabel-source',
  description:
    'At most one label per security module and source; `label` must be set if and only if `relabel` is true.',
  about: ['seclabel', 'seclabels'],
  *check({ domain }) {
    const unlabelled = new Set<unknown>(
      (domain.seclabels ?? [])
        .filter(({ type, relabel }) => type === 'none' || relabel === false)
        .map(({ model }) => model),
    )
    for (const { at, device } of allDevices(domain)) {
      for (const { labels, fields } of labelsOf(device, at)) yield* check(labels, fields, unlabelled)
    }
  },
  example: example(
    {
      devices: {
        disks: [{ target: { dev: 'vda' }, source: { file: '/d', seclabel: { model: 'selinux', relabel: true } } }],
      },
    },
    {
      devices: {
        disks: [{ target: { dev: 'vda' }, source: { file: '/d', seclabel: { model: 'selinux', relabel: false } } }],
      },
    },
  ),
}

export const seclabelRules: readonly Rule[] = [seclabelUnique, seclabelSource]
