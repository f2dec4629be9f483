import type { Cause } from '../api/cause.ts'
import { targetText, type Target } from '../api/object-preset.ts'
import { isRecord } from '../api/schema.ts'
import type { Kind } from './kind.ts'
import { readSchema } from './schema.ts'
import { structureOf } from './schema-structure.ts'

/** A kind whose objects presets can complete, derived from its schema. */
export interface ObjectKind extends Kind {
  readonly target: Target
  readonly isNamespaced: boolean
}

/** A kind, or why its schema cannot be used. */
export type ReadKind = { readonly kind: ObjectKind } | { readonly causes: readonly Cause[] }

/** The kinds of some documents, by `targetText`. Each is read when it is first used: Kubernetes has hundreds. */
export type Kinds = ReadonlyMap<string, () => ReadKind>

type Fields = { readonly [key: string]: unknown }

interface Described {
  readonly target: Target
  readonly isNamespaced: boolean
  readonly schema: unknown
  readonly components?: Fields
}

/**
 * The kinds that a document describes: a CustomResourceDefinition, or an OpenAPI v3 document of the API server
 * (`kubectl get --raw /openapi/v3/api/v1`). Undefined if it is neither.
 * @param document untrusted JSON
 */
export function kindsIn(document: unknown): Kinds | undefined {
  if (!isRecord(document)) return undefined
  const described =
    document['kind'] === 'CustomResourceDefinition'
      ? versionsOf(document)
      : typeof document['openapi'] === 'string'
        ? componentsOf(document)
        : undefined
  if (described === undefined) return undefined
  return new Map(described.map((one) => [targetText(one.target), once(() => readKind(one))]))
}

function readKind({ target, isNamespaced, schema, components }: Described): ReadKind {
  const read = readSchema(schema, components === undefined ? { isStructural: true } : { components })
  if ('causes' in read) return read
  const { kind } = target
  return {
    kind: {
      target,
      isNamespaced,
      structure: structureOf(read.schema),
      noun: kind,
      removesBelow: [],
      pairsVolumes: false,
      keepsOwnedLabels: true,
    },
  }
}

function versionsOf({ spec }: Fields): readonly Described[] {
  if (!isRecord(spec) || !isRecord(spec['names']) || !Array.isArray(spec['versions'])) return []
  const { group, scope, names, versions } = spec
  const { kind } = names as Fields
  return (versions as readonly unknown[]).flatMap((version) => {
    if (!isRecord(version) || typeof version['name'] !== 'string' || typeof kind !== 'string') return []
    const { schema } = version
    const target = { apiVersion: `${String(group)}/${version['name']}`, kind }
    return [{ target, isNamespaced: scope !== 'Cluster', schema: isRecord(schema) ? schema['openAPIV3Schema'] : {} }]
  })
}

/** The components that are objects of their own: those with one kind and ObjectMeta. */
function componentsOf(document: Fields): readonly Described[] {
  const components = isRecord(document['components']) ? document['components']['schemas'] : undefined
  if (!isRecord(components)) return []
  const clusterScoped = clusterScopedIn(document['paths'])
  return Object.values(components).flatMap((schema): readonly Described[] => {
    if (!isRecord(schema)) return []
    const [only, ...others] = listOf(schema['x-kubernetes-group-version-kind'])
    const properties = isRecord(schema['properties']) ? schema['properties'] : {}
    const hasMetadata = JSON.stringify(properties['metadata'] ?? '').includes('.ObjectMeta"')
    if (!hasMetadata || others.length > 0) return []
    const target = targetOf(only)
    if (target === undefined) return []
    return [{ target, isNamespaced: !clusterScoped.has(targetText(target)), schema, components }]
  })
}

/** The kinds that are created at a path without a namespace. */
function clusterScopedIn(paths: unknown): ReadonlySet<string> {
  if (!isRecord(paths)) return new Set()
  const found = Object.entries(paths).flatMap(([path, item]) => {
    const post = isRecord(item) ? item['post'] : undefined
    const target = isRecord(post) ? targetOf(post['x-kubernetes-group-version-kind']) : undefined
    return target === undefined ? [] : [{ name: targetText(target), isNamespaced: path.includes('/{namespace}/') }]
  })
  const namespaced = new Set(found.flatMap(({ name, isNamespaced }) => (isNamespaced ? [name] : [])))
  return new Set(found.flatMap(({ name }) => (namespaced.has(name) ? [] : [name])))
}

const collection = /^\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/\{namespace\})?\/([^/{}]+)$/

/**
 * The name of the resource of a kind, e.g. `deployments`, according to the paths of an OpenAPI v3 document. Undefined
 * if objects of the kind cannot be created.
 * @param document untrusted JSON
 */
export function resourceOf(document: unknown, wanted: Target): string | undefined {
  const paths = isRecord(document) && isRecord(document['paths']) ? document['paths'] : {}
  for (const [path, item] of Object.entries(paths)) {
    const resource = collection.exec(path)?.[1]
    const post = resource !== undefined && isRecord(item) ? item['post'] : undefined
    const target = isRecord(post) ? targetOf(post['x-kubernetes-group-version-kind']) : undefined
    if (target?.apiVersion === wanted.apiVersion && target.kind === wanted.kind) return resource
  }
  return undefined
}

function targetOf(value: unknown): Target | undefined {
  if (!isRecord(value)) return undefined
  const { group = '', version, kind } = value
  if (typeof group !== 'string' || typeof version !== 'string' || typeof kind !== 'string') return undefined
  return { apiVersion: group === '' ? version : `${group}/${version}`, kind }
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: make() }).value
}
