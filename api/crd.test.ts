import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { customResourceDefinitions } from './crd.ts'
import { domain } from './domain/domain.ts'
import { schemaOf } from './domain/schema.ts'
import { crdManifests } from './generate-manifests.ts'
import { isRecord, type Schema } from './schema.ts'

describe('the manifests', () => {
  const folder = new URL('../manifests/crds/', import.meta.url)

  test.each([...crdManifests()])('%s is up to date with `npm run manifests`', (name, text) => {
    expect(readFileSync(new URL(name, folder), 'utf8') === text).toBe(true)
  })

  test('no other files exist', () => {
    const files = readdirSync(folder).filter((name) => name !== 'kustomization.yaml')
    expect(files.toSorted()).toEqual([...crdManifests().keys()].toSorted())
  })

  test("fit the API server's request limit of 3 MiB, and as JSON etcd's limit of 1.5 MiB", () => {
    const sizes = [...crdManifests().values()].map((text) => [text.length, JSON.stringify(parse(text)).length] as const)
    expect(sizes.filter(([yaml, json]) => yaml > 3 * 1024 * 1024 || json > 1.5 * 1024 * 1024)).toEqual([])
  })
})

/** The API server's rules for structural schemas that we are likely to break. */
function faults(schema: unknown, at: string): string[] {
  if (!isRecord(schema)) return [`${at}: no schema`]
  const found: string[] = []
  const { type, properties, additionalProperties, items, required } = schema
  const isAny = schema['x-kubernetes-int-or-string'] === true || schema['x-kubernetes-preserve-unknown-fields'] === true
  if (type === undefined && !isAny) found.push(`${at}: no type`)
  if (properties !== undefined && additionalProperties !== undefined) found.push(`${at}: both kinds of properties`)
  if (type === 'array' && items === undefined) found.push(`${at}: no items`)
  for (const word of ['$ref', 'const', 'patternProperties', 'uniqueItems', '$defs']) {
    if (Object.hasOwn(schema, word)) found.push(`${at}: ${word}`)
  }
  if (Array.isArray(required)) {
    const known = isRecord(properties) ? Object.keys(properties) : []
    for (const key of required) if (!known.includes(key)) found.push(`${at}: requires unknown ${key}`)
  }
  for (const [key, value] of Object.entries(isRecord(properties) ? properties : {})) {
    if (at !== '' || key !== 'metadata') found.push(...faults(value, `${at}.${key}`))
    if ((at !== '' || key !== 'metadata') && isRecord(value) && typeof value['description'] !== 'string') {
      found.push(`${at}.${key}: no description`)
    }
  }
  if (items !== undefined) found.push(...faults(items, `${at}[]`))
  if (additionalProperties !== undefined) found.push(...faults(additionalProperties, `${at}{}`))
  return found
}

/** The lists, maps and strings of a schema without a bound, each of which would make the cost of a review unlimited. */
function unbounded(schema: Schema, at: string): string[] {
  const { type, enum: words, properties = {}, additionalProperties, items } = schema
  const isOpen =
    (type === 'string' && words === undefined && schema.maxLength === undefined) ||
    (items !== undefined && schema.maxItems === undefined) ||
    (additionalProperties !== undefined && schema.maxProperties === undefined)
  return [
    ...(isOpen ? [at] : []),
    ...Object.entries(properties).flatMap(([key, below]) => unbounded(below, `${at}.${key}`)),
    ...(additionalProperties ? unbounded(additionalProperties, `${at}{}`) : []),
    ...(items ? unbounded(items, `${at}[]`) : []),
  ]
}

describe('each definition', () => {
  const definitions = customResourceDefinitions(schemaOf(domain)).map((of) => [of.spec.names.kind, of] as const)

  test.each(definitions)('of %s has a structural schema with a description on every field', (_, { spec }) => {
    expect(spec.versions.flatMap((version) => faults(version.schema.openAPIV3Schema, ''))).toEqual([])
  })

  test.each(definitions.filter(([kind]) => kind !== 'NodeProfile'))(
    'of %s bounds every list, map and string of spec',
    (_, { spec }) => {
      const root = spec.versions[0]?.schema.openAPIV3Schema
      expect(unbounded(root?.properties?.['spec'] ?? {}, 'spec')).toEqual([])
    },
  )

  // No webhook sees these.
  const unseen = ['NodeProfile', 'NodeCapabilitySet', 'VirtualMachineSnapshot']
  test.each(definitions.filter(([kind]) => !unseen.includes(kind)))(
    'of %s keeps unknown fields of spec for the webhook',
    (_, { spec }) => {
      const root = spec.versions[0]?.schema.openAPIV3Schema
      expect(root?.properties?.['spec']?.['x-kubernetes-preserve-unknown-fields']).toBe(true)
      expect(root?.properties?.['status']?.['x-kubernetes-preserve-unknown-fields']).toBeUndefined()
    },
  )
})
