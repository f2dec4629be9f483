import { customResourceDefinitions } from '../api/crd.ts'
import { domain } from '../api/domain/domain.ts'
import { schemaOf } from '../api/domain/schema.ts'
import { nearest } from '../api/nearest.ts'
import { apiVersion } from '../api/object.ts'
import type { Schema } from '../api/schema.ts'
import { Usage } from './failure.ts'
import type { Output } from './output.ts'

/** A JSON Schema for editors (draft 7). */
export interface JsonSchema {
  readonly [key: string]: unknown
}

const draft = 'http://json-schema.org/draft-07/schema#'

/**
 * `kubectl vm schema`: prints JSON Schemas for yaml-language-server and other editors, as one document for all kinds,
 * distinguished by `kind`, or for one kind.
 * @throws Usage for an unknown kind
 */
export async function printSchemas(kind: string | undefined, output: Output, isFiled: boolean): Promise<void> {
  const print = (name: string, schema: JsonSchema) =>
    output.result(`${name.toLowerCase()}.schema`, 'json', `${JSON.stringify({ $schema: draft, ...schema }, null, 1)}\n`)
  if (kind === undefined && !isFiled) return print('virtset', anyKind())
  const schemas = kindSchemas()
  const wanted = kind === undefined ? [...schemas.keys()] : [found(kind, schemas)]
  for (const name of wanted) await print(name, schemas.get(name) ?? {})
}

/** The schema of a kind. @throws Usage for an unknown kind */
export function schemaFor(kind: string): JsonSchema {
  const schemas = kindSchemas()
  return schemas.get(found(kind, schemas)) ?? {}
}

function found(kind: string, schemas: ReadonlyMap<string, JsonSchema>): string {
  const name = [...schemas.keys()].find((known) => known.toLowerCase() === kind.toLowerCase())
  if (name !== undefined) return name
  const near = nearest(kind, schemas.keys())
  throw new Usage(
    `unknown kind "${kind}"; ${near === undefined ? `must be one of ${[...schemas.keys()].join(', ')}` : `did you mean ${near}?`}`,
  )
}

/** A schema for each kind, generated from the same description as the CRDs; `shared` receives the common parts. */
export function kindSchemas(shared?: Definitions): ReadonlyMap<string, JsonSchema> {
  const domainSchema = schemaOf(domain)
  return new Map(
    customResourceDefinitions(domainSchema).map(({ spec }) => {
      const [version] = spec.versions
      if (version === undefined) throw new Error(`no version of ${spec.names.kind}`)
      return [spec.names.kind, kindSchema(spec.names.kind, version.schema.openAPIV3Schema, domainSchema, shared)]
    }),
  )
}

function kindSchema(
  kind: string,
  { description, properties = {} }: Schema,
  domainSchema: Schema,
  shared: Definitions | undefined,
): JsonSchema {
  const definitions = shared ?? createDefinitions()
  const spec = jsonSchema(withDomain(properties['spec'] ?? {}, domainSchema), 'spec', definitions)
  return {
    title: kind,
    description,
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    additionalProperties: false,
    properties: {
      apiVersion: { const: apiVersion },
      kind: { const: kind },
      metadata: { type: 'object', description: "Kubernetes' own metadata: name, namespace, labels, annotations." },
      spec,
      status: { type: 'object', description: 'Set by virtset; read-only.' },
    },
    ...(shared === undefined ? { definitions: definitions.all() } : {}),
  }
}

/** Defines each object schema once, identified by its text, because an address occurs in hundreds of places. */
interface Definitions {
  readonly define: (key: string, schema: JsonSchema) => JsonSchema
  readonly all: () => JsonSchema
}

function createDefinitions(): Definitions {
  const names = new Map<string, string>()
  const schemas = new Map<string, JsonSchema>()
  return {
    define(key, schema) {
      const text = JSON.stringify(schema)
      const known = names.get(text)
      const name = known ?? (schemas.has(key) ? `${key}-${schemas.size}` : key)
      names.set(text, name)
      schemas.set(name, schema)
      return { $ref: `#/definitions/${name}` }
    },
    all: () => Object.fromEntries(schemas),
  }
}

/** Inserts the domain, which the CRDs of presets and templates leave opaque only because of its size. */
function withDomain(schema: Schema, domainSchema: Schema): Schema {
  const { properties, items } = schema
  if (items !== undefined) return { ...schema, items: withDomain(items, domainSchema) }
  if (properties === undefined) return schema
  const members = Object.entries(properties).map(([key, member]) => [
    key,
    key === 'domain' && member.properties === undefined ? domainSchema : withDomain(member, domainSchema),
  ])
  return { ...schema, properties: Object.fromEntries(members) }
}

/**
 * Closes objects that the CRD leaves open for the webhook's suggestions, so that editors mark unknown keys immediately.
 */
function jsonSchema(schema: Schema, at: string, definitions: Definitions): JsonSchema {
  const { description, type, properties, additionalProperties, items, required, enum: values, ...rest } = schema
  const limits = Object.fromEntries(Object.entries(rest).filter(([key]) => !key.startsWith('x-kubernetes-')))
  const isNumberOrText = schema['x-kubernetes-int-or-string'] === true
  const made = {
    ...(description === undefined ? {} : { description }),
    ...(isNumberOrText ? { type: ['integer', 'string'] } : type === undefined ? {} : { type }),
    ...(values === undefined ? {} : { enum: values }),
    ...(items === undefined ? {} : { items: jsonSchema(items, at, definitions) }),
    ...(required === undefined ? {} : { required }),
    ...limits,
    ...(additionalProperties === undefined
      ? {}
      : { additionalProperties: jsonSchema(additionalProperties, at, definitions) }),
  }
  if (properties === undefined) return made
  const members = Object.entries(properties).map(([key, member]) => [key, jsonSchema(member, key, definitions)])
  return definitions.define(at, { ...made, properties: Object.fromEntries(members), additionalProperties: false })
}

/** A schema that selects by `kind`, so that an editor reports only the errors of this kind. */
function anyKind(): JsonSchema {
  const definitions = createDefinitions()
  const schemas = kindSchemas(definitions)
  return {
    title: 'virtset',
    type: 'object',
    required: ['kind'],
    properties: { kind: { enum: [...schemas.keys()] } },
    allOf: [...schemas].map(([kind, schema]) => ({
      if: { properties: { kind: { const: kind } }, required: ['kind'] },
      // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
      then: schema,
    })),
    definitions: definitions.all(),
  }
}
