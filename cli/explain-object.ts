import type { PresetTarget } from '../api/preset-target.ts'
import { groupOf } from '../api/preset-target.ts'
import { refusalText } from '../api/refusal.ts'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import type { Manifest } from '../inventory/manifests.ts'
import { isForbidden, isNotFound } from '../runtime/api-error.ts'
import { presetTargets, resource, type KubeObject } from '../runtime/resource.ts'
import { listAll } from './cluster.ts'
import { consideredIn, type ConsideredNow } from './considered.ts'
import { explanationOf, type Explanation, type ExplainSettings, type RefusedObject } from './explanation.ts'
import { Usage } from './failure.ts'
import { nameOf } from './input.ts'
import { asObjectSent } from './object-sent.ts'
import { completeObject, objectRequest, placeObject, type PlacedObject } from './objects.ts'
import type { Cluster } from './world.ts'
import { explanationOfStored, ranksAmong } from './stored-explanation.ts'

/** Explains an object of another kind than virtset's by completing it. @throws Usage */
export async function explainManifest(
  manifest: Manifest,
  settings: ExplainSettings,
): Promise<Explanation | RefusedObject> {
  const refusal = (causes: Parameters<typeof refusalText>[2]) =>
    refusalText(String(manifest['kind']), nameOf(manifest), causes)
  const placed = await placeObject(manifest, settings.objects, settings.namespace)
  if ('causes' in placed) return { refusal: refusal(placed.causes), presets: [] }
  const outcome = completeObject(placed)
  const presets = consideredFor(placed)
  if (outcome.outcome === 'refused') return { refusal: refusal(outcome.causes), presets }
  const { namespace, candidates } = placed.scope
  const { metadata } = outcome.object
  const object = namespace.name === '' ? metadata : { namespace: namespace.name, ...metadata }
  return explanationOf(
    { ...outcome.object, metadata: object },
    outcome,
    presets,
    ranksAmong(candidates),
    outcome.warnings,
  )
}

function consideredFor(placed: PlacedObject): readonly ConsideredNow[] {
  const { kind, ...scope } = placed.scope
  return consideredIn(placed.object, {
    ...scope,
    exempt: placed.exempt ?? new Set(),
    request: objectRequest(placed),
    noun: kind.noun,
  })
}

/**
 * Explains a stored object by its provenance. Undefined if the word does not begin with the name of a PresetTarget,
 * such as `pods/web`, or with its kind in lower case.
 * @throws Usage
 */
export async function explainStoredObject(word: string, settings: ExplainSettings): Promise<Explanation | undefined> {
  const { cluster, namespace, objects } = settings
  const [type = '', name] = word.split('/')
  if (cluster === undefined || name === undefined) return undefined
  const target = (await targetsOf(cluster)).find(
    ({ metadata, spec }) => type === metadata.name || type === spec.kind.toLowerCase(),
  )
  if (target === undefined) return undefined
  const { kube, server } = cluster
  const { userInfo: _, ...scope } = await objects.of(target.spec, namespace)
  const { isNamespaced } = scope.kind
  const place = isNamespaced ? { namespace, name } : { name }
  const stored = await kube.get(resourceFor(target, isNamespaced), place).catch((error: unknown) => {
    if (isNotFound(error))
      throw new Usage(`${word} not found ${isNamespaced ? `in namespace "${namespace}" of` : 'in'} ${server}`)
    throw error
  })
  const provenance = decodeProvenance(stored.metadata.annotations?.[completedByAnnotation] ?? '')
  if (provenance === undefined) throw new Usage(`${word} has no provenance: no preset has changed it`)
  const object = asObjectSent(stored, scope.kind.structure)
  const exempt = (await scope.exempt?.(object)) ?? new Set<string>()
  const presets = consideredFor({ object, scope, exempt })
  return explanationOfStored({ ...stored }, provenance, presets, ranksAmong(scope.candidates))
}

/** None for users who cannot read them, and in clusters without them. */
const targetsOf = ({ kube }: Cluster): Promise<readonly PresetTarget[]> =>
  listAll(kube, presetTargets).catch((error: unknown) => {
    if (isForbidden(error) || isNotFound(error)) return []
    throw error
  })

/** A target has the name of its resource and group. */
function resourceFor({ metadata: { name = '' }, spec: { apiVersion, kind } }: PresetTarget, namespaced: boolean) {
  const [plural = ''] = name.split('.')
  const version = apiVersion.split('/').at(-1) ?? ''
  return resource<KubeObject>({ group: groupOf(apiVersion), version, plural, kind, namespaced })
}
