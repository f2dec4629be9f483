import { customResourceDefinitions } from '../api/crd.ts'
import { domain } from '../api/domain/domain.ts'
import { schemaOf } from '../api/domain/schema.ts'
import { nearest } from '../api/nearest.ts'
import { apiVersion } from '../api/object.ts'
import type { Schema } from '../api/schema.ts'
import { Usage } from './failure.ts'
import type { Output } from './output.ts'

/** A JSON Schema as editors read it (draft 7). */
export interface JsonSchema {
  readonly [key: string]: unknown
}

const draft = 'http://json-schema.org/draft-07/schema#'

/**
 * `kubectl vm schema`: for yaml-language-server and its like. One document for all kinds, told apart by `kind`; or one for a kind.
 * @throws Usage for a kind that is none
 */
export async function printSchemas(kind: string | undefined, output: Output, isFiled: boolean): Promise<void> {
  const print = (name: string, schema: JsonSchema) =>
    output.result(`${name.toLowerCase()}.schema`, 'json', `${JSON.stringify({ $schema: draft, ...schema }, null, 1)}\n`)
  if (kind === undefined && !isFiled) return print('virtset', anyKind())
  const schemas = kindSchemas()
  const wanted = kind === undefined ? [...schemas.keys()] : [found(kind, schemas)]
  for (const name of wanted) await print(name, schemas.get(name) ?? {})
}

function found(kind: string, schemas: ReadonlyMap<string, JsonSchema>): string {
  const name = [...schemas.keys()].find((known) => known.toLowerCase() === kind.toLowerCase())
  if (name !== undefined) return name
  const near = nearest(kind, schemas.keys())
  throw new Usage(
    `kind "${kind}" is not known; ${near === undefined ? `there are ${[...schemas.keys()].join(', ')}` : `did you mean ${near}?`}`,
  )
}

/** A schema for each kind, from the one description that the CRDs come from; what is common to them is in `shared`, if that is given. */
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
      status: { type: 'object', description: 'What virtset makes of it; nobody writes it.' },
    },
    ...(shared === undefined ? { definitions: definitions.all() } : {}),
  }
}

/** Each object of known fields once, by its text: an address stands in hundreds of places. */
interface Definitions {
  /** @returns a reference to it */
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

/** In the CRDs of presets and templates the domain is opaque, for size alone; an editor has room. */
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

/** What is open in the CRD, so that the webhook can name the nearest key, is closed here: the editor shall underline it at once. */
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

/** By `kind`, so that an editor tells what is wrong with this kind, and not that it is none of the others. */
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
      // oxlint-disable-next-line unicorn/no-thenable -- JSON Schema's own word
      then: schema,
    })),
    definitions: definitions.all(),
  }
}
