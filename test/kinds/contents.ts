import type { PlainSchema } from '../../presets/schema.ts'
import type { Chance } from '../chance.ts'

/** Fields of a whole object that no preset can set, and those that none can set anywhere. */
const fixed: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'status', 'metadata'])
const forbidden: ReadonlySet<string> = new Set([
  'serviceAccountName',
  'serviceAccount',
  'ownerReferences',
  'finalizers',
])

/** A random part of an object, with the fields that its schema requires and values that fit it. */
export function contentOf(schema: PlainSchema, chance: Chance): { readonly [key: string]: unknown } {
  const fields = Object.entries(schema.properties ?? {}).filter(([key]) => !fixed.has(key) && !forbidden.has(key))
  const chosen = chance.pick(fields)
  const labels = { metadata: { annotations: { generated: 'yes' } } }
  return chosen === undefined ? labels : { ...labels, [chosen[0]]: valueOf(chosen[1], chance, 0) }
}

const examples: Readonly<Record<string, string>> = { byte: 'YQ==', 'date-time': '2030-01-01T00:00:00.000000Z' }

/** Deeper than this, only required fields are set. */
const deep = 5

function valueOf(schema: PlainSchema, chance: Chance, level: number): unknown {
  if (schema.isQuantity === true) return '1Gi'
  if (schema['x-kubernetes-int-or-string'] === true) return 80
  if (schema.enum !== undefined) return chance.pick(schema.enum)
  switch (schema.type) {
    case 'integer':
    case 'number':
      return Math.max(schema.minimum ?? 1, Math.min(schema.maximum ?? 1, 1))
    case 'boolean':
      return chance.random() < 0.5
    case 'string':
      // Sometimes a wrong value, for which the preset must be refused.
      if (schema.format !== undefined && chance.random() < 0.8) return examples[schema.format] ?? 'a'
      return 'a'.repeat(Math.max(1, schema.minLength ?? 1))
    case 'array':
      return [valueOf(schema.items ?? {}, chance, level + 1)]
    case 'object':
      return objectOf(schema, chance, level)
    default:
      return { any: 'value' }
  }
}

function objectOf(schema: PlainSchema, chance: Chance, level: number): object {
  const { properties = {}, additionalProperties, required = [], oneOf } = schema
  if (additionalProperties !== undefined) return { key: valueOf(additionalProperties, chance, level + 1) }
  const union = (oneOf ?? []).map(({ required: [kind] }) => kind)
  const branch = chance.pick(union)
  const optional = Object.keys(properties).filter((key) => !forbidden.has(key) && !union.includes(key))
  const some = level < deep ? [chance.pick(optional), chance.pick(optional)] : []
  const keys = new Set([...required, branch, ...some].filter((key) => key !== undefined))
  return Object.fromEntries(
    [...keys].flatMap((key) => {
      const below = properties[key]
      return below === undefined || forbidden.has(key) ? [] : [[key, valueOf(below, chance, level + 1)]]
    }),
  )
}

/** The content with one field misspelled, or one value of another type. */
export function spoiled(content: { readonly [key: string]: unknown }, chance: Chance): object {
  const { metadata, ...fields } = content
  const [[key, value] = ['spec', {}]] = Object.entries(fields)
  if (chance.random() < 0.5) return { metadata, [`${key}x`]: value }
  return { metadata: { annotations: { generated: 7 } }, ...fields }
}
