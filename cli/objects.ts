import type { Cause } from '../api/cause.ts'
import { checkMetadata } from '../api/metadata.ts'
import type { Target } from '../api/object-preset.ts'
import { isRecord } from '../api/schema.ts'
import type { Manifest } from '../inventory/manifests.ts'
import { injectInto, type Injected } from '../presets/inject.ts'
import type { Subject } from '../presets/kind.ts'
import type { ObjectScope, ObjectScopes } from './object-scope.ts'
import { refuseRounded } from './rounded.ts'

export const targetOf = (manifest: Manifest): Target => ({
  apiVersion: String(manifest['apiVersion']),
  kind: String(manifest['kind']),
})

/** An object with the scope that completes it. */
export interface PlacedObject {
  readonly object: Subject
  readonly scope: ObjectScope
  /** The IDs of the presets from which its user may exempt it; none if absent. */
  readonly exempt?: ReadonlySet<string>
}

/**
 * An object as its user wrote it, in its namespace, or what is wrong with its metadata.
 * @param otherwise the namespace of objects without one
 * @throws Usage if its kind cannot be completed, or the object not be kept as it is
 */
export async function placeObject(
  manifest: Manifest,
  scopes: ObjectScopes,
  otherwise: string,
): Promise<PlacedObject | { readonly causes: readonly Cause[] }> {
  const { metadata } = manifest
  const namespace = isRecord(metadata) && typeof metadata['namespace'] === 'string' ? metadata['namespace'] : otherwise
  const scope = await scopes.of(targetOf(manifest), namespace)
  const causes = checkMetadata(metadata, 'metadata')
  if (causes.length > 0) return { causes }
  refuseRounded(manifest)
  // Its metadata has been checked, and nothing else is required of a subject.
  const object = manifest as unknown as Subject
  return { object, scope, exempt: (await scope.exempt?.(object)) ?? new Set() }
}

export type ObjectOutcome = ({ readonly outcome: 'completed' } | { readonly outcome: 'refused' }) &
  Omit<Injected, 'warnings'> & { readonly warnings: readonly string[] }

/**
 * Merges the presets of a scope into an object as its user wrote it.
 * @param written the part that its user wrote, if the rest was filled in
 */
export function completeObject({ object, scope, exempt = new Set() }: PlacedObject, written?: Subject): ObjectOutcome {
  const { kind, candidates, quarantined, namespace, warnings } = scope
  const injected = injectInto(object, kind, {
    presets: candidates,
    quarantined,
    namespace,
    exempt,
    request: objectRequest({ object, scope }),
    ...(written === undefined ? {} : { written }),
  })
  const outcome = injected.causes.length > 0 ? 'refused' : 'completed'
  return { ...injected, outcome, warnings: [...warnings, ...injected.warnings] }
}

/** The members of the request that creates the object, as conditions see it, that are known. */
export function objectRequest({ object, scope: { kind, namespace, userInfo } }: PlacedObject) {
  const { apiVersion, kind: name } = kind.target
  const [first = '', second] = apiVersion.split('/')
  const ofObject = { group: second === undefined ? '' : first, version: second ?? first, kind: name }
  return {
    kind: ofObject,
    requestKind: ofObject,
    ...(object.metadata.name === undefined ? {} : { name: object.metadata.name }),
    ...(namespace.name === '' ? {} : { namespace: namespace.name }),
    operation: 'CREATE',
    ...(userInfo === undefined ? {} : { userInfo }),
    object,
    oldObject: null,
    dryRun: false,
  }
}
