import { Ajv, type ErrorObject, type SchemaObject, type ValidateFunction } from 'ajv'
import type { Cause } from '../cause.ts'
import { isRecord, unknownField } from '../schema.ts'
import { elementOf, type Element, type Field } from './description.ts'
import { domain as root, type Domain } from './domain.ts'
import { foreignFault } from './foreign.ts'
import { placeFor } from './misplaced.ts'
import { maxXmlDepth } from './sax.ts'
import { valueFault } from './scalar-value.ts'
import type { Scalar } from './scalar.ts'
import { fieldAt } from './walk.ts'

/**
 * Everything in which a value is not a domain as the description has it, each with the value, what is allowed and the likely fix. What
 * libvirt demands beyond single values is the rules' matter. Safe for any JSON whatsoever.
 * @param field where the value stands, as kubectl prints it
 */
export const validateDomain = (value: unknown, field = 'spec.domain'): Cause[] => {
  if (isDeeper(value, maxXmlDepth)) {
    const message = `may not nest deeper than ${maxXmlDepth}`
    return [{ rule: 'nesting', field, reason: 'FieldValueInvalid', message }]
  }
  const validate = domainValidator()
  if (validate(value)) return []
  return (validate.errors ?? []).map((error) => causeOf(error, value, field))
}

/** The door for domains that are no XML. */
export const parseDomain = (value: unknown, field?: string): { domain: Domain } | { causes: Cause[] } => {
  const causes = validateDomain(value, field)
  // What the validator passes is what `Domain` is made of, but for other spellings of one value.
  return causes.length > 0 ? { causes } : { domain: value as Domain }
}

let compiled: ValidateFunction | undefined

/** Compiles the description once; a process that answers requests calls this before it is ready. */
export const domainValidator = (): ValidateFunction => {
  compiled ??= compile()
  return compiled
}

const compile = (): ValidateFunction => {
  const ajv = new Ajv({
    allErrors: true,
    verbose: true,
    messages: false,
    strict: false,
    validateSchema: false,
    addUsedSchema: false,
    inlineRefs: false,
    code: { optimize: false },
  })
  ajv.addKeyword({
    keyword: 'scalar',
    errors: false,
    compile: (scalar: Scalar) => (value: unknown) => valueFault(scalar, value) === undefined,
  })
  ajv.addKeyword({
    keyword: 'foreign',
    errors: false,
    validate: (_: unknown, value: unknown) => typeof value === 'string' && foreignFault(value) === undefined,
  })
  ajv.addKeyword({
    keyword: 'notBoth',
    errors: false,
    validate: (pairs: [string, string][], value: unknown) =>
      isRecord(value) && pairs.every(([one, other]) => !(Object.hasOwn(value, one) && Object.hasOwn(value, other))),
  })
  return ajv.compile(domainSchema())
}

/** A schema for each element that can be reached; those that refer to each other, or to themselves, do so by name. */
const domainSchema = (): SchemaObject => {
  const names = new Map<Element, string>()
  const definitions: { [name: string]: SchemaObject } = {}
  const waiting: Element[] = []
  const reference = (element: Element): string => {
    const name = names.get(element) ?? `e${names.size}`
    if (!names.has(element)) waiting.push(element)
    names.set(element, name)
    return `#/definitions/${name}`
  }
  const $ref = reference(root)
  for (let element = waiting.pop(); element; element = waiting.pop()) {
    definitions[names.get(element) ?? ''] = elementSchema(element, reference)
  }
  return { definitions, $ref }
}

const elementSchema = (element: Element, reference: (element: Element) => string): SchemaObject => {
  const properties: { [key: string]: SchemaObject } = {}
  const pairs: [string, string][] = []
  for (const [key, field] of Object.entries(element.fields)) {
    properties[key] = fieldSchema(field, reference)
    if (field.at !== 'children' || field.single === undefined) continue
    properties[field.single] = { $ref: reference(elementOf(field)) }
    pairs.push([key, field.single])
  }
  return { type: 'object', properties, additionalProperties: false, ...(pairs.length > 0 ? { notBoth: pairs } : {}) }
}

const fieldSchema = (field: Field, reference: (element: Element) => string): SchemaObject => {
  switch (field.at) {
    case 'attribute':
    case 'content':
    case 'leaf':
      return { scalar: field.scalar }
    case 'leaves':
      return { type: 'array', items: { scalar: field.scalar } }
    case 'foreign':
      return { foreign: true }
    case 'child':
      return { $ref: reference(elementOf(field)) }
    case 'children':
      return { type: 'array', items: { $ref: reference(elementOf(field)) } }
  }
}

const causeOf = (error: ErrorObject, whole: unknown, prefix: string): Cause => {
  const path = fieldPath(error.instancePath, whole)
  const field = path === '' ? prefix : `${prefix}.${path}`
  const { data: value } = error
  const described = path === '' ? undefined : fieldAt(path)
  const element = described ? elementBelow(described) : root
  switch (error.keyword) {
    case 'additionalProperties':
      return unknownKey(String(error.params['additionalProperty']), value, field, path)
    case 'scalar':
      return scalarCause(described, value, field)
    case 'foreign':
      return foreignCause(value, field)
    case 'notBoth':
      return bothCause(element, value, field)
    case 'type':
      return typeCause(String(error.params['type']), element, value, field)
    default:
      throw new Error(`the validator of domains has no words for ${error.keyword}`)
  }
}

const elementBelow = (field: Field): Element | undefined =>
  field.at === 'child' || field.at === 'children' ? elementOf(field) : undefined

const scalarCause = (described: Field | undefined, value: unknown, field: string): Cause => {
  const scalar = described && 'scalar' in described ? described.scalar : undefined
  const fault = scalar && valueFault(scalar, value)
  if (!fault) throw new Error(`${field} was refused as a scalar, and is none the worse`)
  const rule =
    scalar.kind === 'enumeration' ? 'enumeration' : fault.reason === 'FieldValueTypeInvalid' ? 'type' : 'value'
  return { rule, field, value, ...fault }
}

const foreignCause = (value: unknown, field: string): Cause => {
  if (typeof value !== 'string') {
    return { rule: 'type', field, value, reason: 'FieldValueTypeInvalid', message: 'must be a string of XML' }
  }
  const fault = foreignFault(value)
  const message = fault ? `must be well-formed XML: line ${fault.line}: ${fault.message}` : 'must be well-formed XML'
  return { rule: 'value', field, value, reason: 'FieldValueInvalid', message }
}

const bothCause = (element: Element | undefined, value: unknown, field: string): Cause => {
  for (const [key, of] of Object.entries(element?.fields ?? {})) {
    if (of.at !== 'children' || of.single === undefined || !isRecord(value)) continue
    if (!Object.hasOwn(value, key) || !Object.hasOwn(value, of.single)) continue
    const message = `stands beside ${key}, and is only the short form of a list of one`
    return { rule: 'value', field: `${field}.${of.single}`, reason: 'FieldValueForbidden', message }
  }
  throw new Error(`${field} was refused for a list in two forms, and has none`)
}

const typeCause = (type: string, element: Element | undefined, value: unknown, field: string): Cause => {
  const wanted = type === 'array' ? 'a list' : 'an object'
  const found =
    value === null ? 'null' : Array.isArray(value) ? 'a list' : isRecord(value) ? 'an object' : `a ${typeof value}`
  const isText = type !== 'array' && typeof value !== 'object' && element?.fields['value']?.at === 'content'
  return {
    rule: 'type',
    field,
    value,
    reason: 'FieldValueTypeInvalid',
    message: `must be ${wanted}, not ${found}`,
    ...(isText ? { suggestion: `did you mean {value: ${JSON.stringify(value)}}?` } : {}),
  }
}

const unknownKey = (key: string, holder: unknown, field: string, path: string): Cause => {
  const described = path === '' ? undefined : fieldAt(path)
  const element = described ? elementBelow(described) : root
  const value = isRecord(holder) ? holder[key] : undefined
  const known = element ? Object.keys(element.fields) : []
  const at = /^\w+$/.test(key) ? `${field}.${key}` : `${field}[${key}]`
  const cause = unknownField(at, key, value, known)
  const place = element && placeFor(key, element, path)
  return place === undefined ? cause : { ...cause, suggestion: place }
}

/** `/devices/disks/1/target` is `devices.disks[1].target`. */
const fieldPath = (pointer: string, whole: unknown): string => {
  let path = ''
  let value = whole
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(value)) {
      path += `[${key}]`
      value = value[Number(key)]
      continue
    }
    path += path === '' ? key : `.${key}`
    value = isRecord(value) ? value[key] : undefined
  }
  return path
}

/** Without recursion, which a hostile value could exhaust. */
const isDeeper = (value: unknown, limit: number): boolean => {
  let level: unknown[] = [value]
  for (let depth = 0; depth <= limit; depth += 1) {
    const next: unknown[] = []
    for (const item of level) if (typeof item === 'object' && item !== null) next.push(...Object.values(item))
    if (next.length === 0) return false
    level = next
  }
  return true
}
