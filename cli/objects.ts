import type { Cause } from '../api/cause.ts'
import { checkMetadata } from '../api/metadata.ts'
import { group, type ObjectMeta } from '../api/object.ts'
import { targetText, type Target } from '../api/object-preset.ts'
import { nearest } from '../api/nearest.ts'
import { isRecord } from '../api/schema.ts'
import { parseDocuments } from '../api/yaml.ts'
import { inNamespace, isObjectPreset, type Manifest } from '../inventory/manifests.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from '../presets/compile.ts'
import { injectInto, type Injected } from '../presets/inject.ts'
import type { Subject } from '../presets/kind.ts'
import { kindsIn, type Kinds } from '../presets/object-kind.ts'
import { compileObjectPreset } from '../presets/object-preset.ts'
import type { Labels } from '../presets/selector.ts'
import { Usage } from './failure.ts'
import { filesOf, nameOf, readText } from './input.ts'

/** Presets for objects of other kinds than virtset's, and the schemas of these kinds. */
export interface ObjectPresets {
  readonly kinds: Kinds
  /** By the `targetText` of their kind. */
  readonly presets: ReadonlyMap<string, readonly CompiledPreset[]>
  /** Broken presets, with the `targetText` of their kind if it can be read. */
  readonly quarantined: readonly { readonly quarantined: QuarantinedPreset; readonly target?: string }[]
}

/** @throws Usage for a file that describes no kind */
export async function readKinds(paths: readonly string[]): Promise<Kinds> {
  const kinds = new Map<string, NonNullable<ReturnType<Kinds['get']>>>()
  for (const path of paths) {
    for (const file of await filesOf(path)) {
      const found = documentsIn(file, await readText(file)).flatMap((document) => kindsIn(document) ?? [])
      if (found.length === 0)
        throw new Usage(`${file}: is neither a CustomResourceDefinition nor an OpenAPI v3 document of the API server`)
      for (const [name, read] of found.flatMap((some) => [...some])) kinds.set(name, read)
    }
  }
  return kinds
}

/** The documents of a file; the items of a list are documents of their own. */
function documentsIn(file: string, text: string): readonly unknown[] {
  const read = text.trimStart().startsWith('{') ? { values: [parseJson(file, text)] } : parsedYaml(file, text)
  return read.values.flatMap((value): readonly unknown[] =>
    isRecord(value) && Array.isArray(value['items']) ? value['items'] : [value],
  )
}

/** Documents of the API server have megabytes, which the parser of YAML would read a hundred times slower. */
function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Usage(`${file}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

function parsedYaml(file: string, text: string): { readonly values: readonly unknown[] } {
  const read = parseDocuments(text)
  if ('problem' in read) throw new Usage(`${file}:${read.problem}`)
  return { values: read.documents.map(({ value }) => value) }
}

/** Compiles the presets among some manifests. A later one replaces an earlier one of the same name. */
export function objectPresetsOf(manifests: Iterable<Manifest>, kinds: Kinds, namespace: string): ObjectPresets {
  const compiled = new Map<string, ReturnType<typeof compileObjectPreset>>()
  for (const manifest of manifests) {
    if (!isObjectPreset(manifest)) continue
    const one = compileObjectPreset(inNamespace(manifest, namespace), kinds)
    compiled.set('preset' in one ? one.preset.id : one.quarantined.id, one)
  }
  const all = [...compiled.values()]
  const working = all.flatMap((one) => ('preset' in one ? [one] : []))
  return {
    kinds,
    presets: new Map(
      [...Map.groupBy(working, ({ kind }) => targetText(kind.target))].map(([target, some]) => [
        target,
        some.map(({ preset }) => preset),
      ]),
    ),
    quarantined: all.flatMap((one) => ('quarantined' in one ? [one] : [])),
  }
}

/** Whether a manifest is of another API than virtset's. */
export const isForeign = ({ apiVersion }: Manifest): boolean =>
  typeof apiVersion === 'string' && !apiVersion.startsWith(`${group}/`)

export type ObjectOutcome =
  | ({ readonly outcome: 'completed' } & Omit<Injected, 'causes'>)
  | { readonly outcome: 'refused'; readonly causes: readonly Cause[]; readonly warnings: readonly string[] }

export interface ObjectSettings {
  readonly presets: ObjectPresets
  /** Of objects without one. */
  readonly namespace: string
  /** Labels of every namespace, beside the label of its name. */
  readonly namespaceLabels: Labels
}

/**
 * Merges presets into an object as its user wrote it.
 * @throws Usage if there is no schema of its kind
 */
export function completeObject(manifest: Manifest, settings: ObjectSettings): ObjectOutcome {
  const target: Target = { apiVersion: String(manifest['apiVersion']), kind: String(manifest['kind']) }
  const { presets, quarantined, kinds } = settings.presets
  const name = targetText(target)
  const read = kinds.get(name)?.()
  if (read === undefined) throw new Usage(unknownKind(name, nameOf(manifest), kinds))
  if ('causes' in read) {
    const [first] = read.causes
    throw new Usage(`the schema of ${name} cannot be used: ${first?.field} ${first?.message}`)
  }
  const causes = checkMetadata(manifest['metadata'], 'metadata')
  if (causes.length > 0) return { outcome: 'refused', causes, warnings: [] }
  // Its metadata has been checked, and nothing else is required of a subject.
  const object = manifest as unknown as Subject
  const namespace = read.kind.isNamespaced ? (object.metadata.namespace ?? settings.namespace) : ''
  const labels = { ...settings.namespaceLabels, 'kubernetes.io/metadata.name': namespace }
  const { causes: found, ...injected } = injectInto(object, read.kind, {
    presets: createCandidates(presets.get(name) ?? []),
    quarantined: quarantined.flatMap((one) => (one.target === name ? [one.quarantined] : [])),
    namespace: { name: namespace, labels: read.kind.isNamespaced ? labels : {} },
    request: requestFor(object.metadata, target, namespace, manifest),
  })
  if (found.length > 0) return { outcome: 'refused', causes: found, warnings: injected.warnings }
  return { outcome: 'completed', ...injected }
}

function unknownKind(name: string, object: string, kinds: Kinds): string {
  const near = nearest(name, kinds.keys())
  const hint = near === undefined ? 'add it with --schema' : `did you mean ${near}?`
  return `there is no schema of ${name}, the kind of "${object}"; ${hint}`
}

/** The members of the request that creates the object, as conditions see it, that are known. */
function requestFor({ name }: ObjectMeta, { apiVersion, kind }: Target, namespace: string, object: Manifest) {
  const [first = '', second] = apiVersion.split('/')
  const ofObject = { group: second === undefined ? '' : first, version: second ?? first, kind }
  return {
    kind: ofObject,
    requestKind: ofObject,
    ...(name === undefined ? {} : { name }),
    ...(namespace === '' ? {} : { namespace }),
    operation: 'CREATE',
    object,
    oldObject: null,
    dryRun: false,
  }
}
