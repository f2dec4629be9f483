import { list, open, type Schema } from '../schema.ts'
import { elementOf, maxItemsOf, type Element, type Field } from './description.ts'
import { maxCpusetLength, maxForeignLength, maxTextLength } from './limits.ts'
import { limitsOf } from './scalar-value.ts'
import { wordOf, type Scalar } from './scalar.ts'

/**
 * The structural schema of an element for a CRD. Every object preserves unknown fields, so that the webhook can name
 * the nearest known one. Beyond the schema, the webhook checks the exact syntax of strings and numbers. Numbers are
 * integers or decimal strings. A recursive element (a backing store of a backing store) ends in a preserved subtree.
 */
export const schemaOf = (element: Element): Schema => elementSchema(element, element.description, [])

const elementSchema = (element: Element, description: string, above: readonly Element[]): Schema => {
  const properties: { [key: string]: Schema } = {}
  const inside = [...above, element]
  for (const [key, field] of Object.entries(element.fields)) {
    const schema = fieldSchema(field, inside)
    properties[key] = schema
    if (field.at === 'children' && field.single !== undefined && schema.items) {
      properties[field.single] = { ...schema.items, description: `The only item of \`${key}\`.` }
    }
  }
  return open(description, properties)
}

const fieldSchema = (field: Field, above: readonly Element[]): Schema => {
  const description = [describe(field), ...numberText(field), ...limitsText(field)].join(' ')
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      return { description, ...scalarSchema(field.scalar) }
    case 'leaves':
      return list(description, scalarSchema(field.scalar), { maxItems: maxItemsOf(field) })
    case 'foreign':
      return { description, type: 'string', maxLength: maxForeignLength }
    case 'child':
      return below(elementOf(field), description, above)
    case 'children': {
      const element = elementOf(field)
      return list(description, below(element, element.description, above), { maxItems: maxItemsOf(field) })
    }
  }
}

const below = (element: Element, description: string, above: readonly Element[]): Schema =>
  above.includes(element)
    ? { description, type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
    : elementSchema(element, description, above)

/** Adds which values users cannot set, for readers of `kubectl explain`. */
const describe = ({ description, reach, reachOf }: Field): string => {
  if (reach === 'host') {
    const not = Object.keys(reachOf ?? {}).filter((value) => reachOf?.[value] !== 'host')
    return `${description} Reaches the host${not.length > 0 ? `, except for ${not.join(', ')}` : ''}: only a cluster preset may set it.`
  }
  const host = Object.keys(reachOf ?? {}).filter((value) => reachOf?.[value] === 'host')
  return host.length > 0 ? `${description} Only a cluster preset may set ${host.join(', ')}.` : description
}

/** `kubectl explain` shows no type for a number that may be a string. */
const numberText = (field: Field): string[] => {
  const scalar = 'scalar' in field ? field.scalar : undefined
  if (scalar?.kind === 'decimal') return ['A number.']
  if (scalar?.kind !== 'integer') return []
  const { min, max, words = [] } = scalar
  const range = min !== undefined && max !== undefined && max < 0xffff_ffff ? ` from ${min} to ${max}` : ''
  return [`An integer${range}${words.map((word) => `, or \`${word}\``).join('')}.`]
}

/**
 * What a text may contain. The schema itself limits only the length, because the webhook's message explains more than a
 * pattern.
 */
const limitsText = (field: Field): string[] => {
  const limits = 'scalar' in field ? limitsOf(field.scalar) : undefined
  return limits === undefined ? [] : [`${capitalised(limits.allowed)}; at most ${limits.maxBytes} bytes.`]
}

const capitalised = (phrase: string): string => phrase.charAt(0).toUpperCase() + phrase.slice(1)

const scalarSchema = (scalar: Scalar): Schema => {
  switch (scalar.kind) {
    case 'boolean':
      return { 'x-kubernetes-preserve-unknown-fields': true, enum: [true, false, ...scalar.words] }
    case 'enumeration': {
      const words = [true, false].filter((value) => wordOf(scalar.values, value) !== undefined)
      return words.length === 0
        ? { type: 'string', enum: scalar.values }
        : { 'x-kubernetes-preserve-unknown-fields': true, enum: [...scalar.values, ...words] }
    }
    case 'integer':
      return { 'x-kubernetes-int-or-string': true }
    case 'decimal':
      // A structural schema has no type for "number or string", so none is set.
      return { 'x-kubernetes-preserve-unknown-fields': true }
    case 'cpuset':
      return { type: 'string', maxLength: maxCpusetLength }
    default:
      return { type: 'string', maxLength: limitsOf(scalar)?.maxBytes ?? maxTextLength }
  }
}
