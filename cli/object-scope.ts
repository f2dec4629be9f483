import { targetText, type Target } from '../api/object-preset.ts'
import type { PresetTarget } from '../api/preset-target.ts'
import { nearest } from '../api/nearest.ts'
import { isRecord } from '../api/schema.ts'
import { inNamespace, isObjectPreset, type Manifest } from '../inventory/manifests.ts'
import { createCandidates, type Candidates, type Namespace } from '../presets/candidates.ts'
import type { CompiledPreset, QuarantinedPreset } from '../presets/compile.ts'
import { exemptionsToAuthorize } from '../presets/exclude.ts'
import type { Subject } from '../presets/kind.ts'
import type { Kinds, ObjectKind } from '../presets/object-kind.ts'
import { compileObjectPreset } from '../presets/object-preset.ts'
import { compileSelector, isSelected, type Labels } from '../presets/selector.ts'
import { clusterObjectPresets, objectPresets, presetTargets } from '../runtime/resource.ts'
import { exemptOf, labelsOf, listAll, once, whoAmI } from './cluster.ts'
import { Usage } from './failure.ts'
import type { KindSource } from './object-kinds.ts'
import type { Cluster } from './world.ts'

/** What completes objects of one kind in one namespace. */
export interface ObjectScope {
  readonly kind: ObjectKind
  readonly candidates: Candidates
  readonly quarantined: readonly QuarantinedPreset[]
  /** Without a name for cluster-scoped kinds. */
  readonly namespace: Namespace
  /** The user as in an admission request; absent if unknown. */
  readonly userInfo?: unknown
  /** The IDs of the presets from which the user may exempt the object; none without a cluster. */
  readonly exempt?: (object: Subject) => Promise<ReadonlySet<string>>
  readonly warnings: readonly string[]
}

export interface ObjectScopes {
  /** @throws Usage if the kind is unknown, cannot be used, or is not completed in the cluster */
  readonly of: (target: Target, namespace: string) => Promise<ObjectScope>
}

/** The presets of one kind. */
export interface ObjectPresets {
  readonly compiled: ReadonlyMap<string, CompiledPreset>
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
}

/**
 * Compiles the presets for a kind among some manifests. A later one replaces an earlier one of the same name.
 * @param namespace of presets without one
 */
export function objectPresetsOf(
  manifests: Iterable<Manifest>,
  kind: ObjectKind,
  namespace: string,
  restricted: readonly string[] = [],
): ObjectPresets {
  const name = targetText(kind.target)
  const kinds = new Map([[name, () => ({ kind })]])
  const compiled = new Map<string, CompiledPreset>()
  const quarantined = new Map<string, QuarantinedPreset>()
  for (const manifest of manifests) {
    const target = targetIn(manifest)
    if (target === undefined || targetText(target) !== name) continue
    const one = compileObjectPreset(inNamespace(manifest, namespace), kinds, restricted)
    const id = 'preset' in one ? one.preset.id : one.quarantined.id
    compiled.delete(id)
    quarantined.delete(id)
    if ('preset' in one) compiled.set(id, one.preset)
    else quarantined.set(id, one.quarantined)
  }
  return { compiled, quarantined }
}

/** The kind that a preset for objects is for; undefined for other manifests and malformed ones. */
export function targetIn(manifest: Manifest): Target | undefined {
  const { spec } = manifest
  const target = isObjectPreset(manifest) && isRecord(spec) ? spec['target'] : undefined
  const { apiVersion, kind } = isRecord(target) ? target : {}
  return typeof apiVersion === 'string' && typeof kind === 'string' ? { apiVersion, kind } : undefined
}

/** The kinds of the presets among some manifests, each once. */
export function targetsIn(manifests: Iterable<Manifest>): readonly Target[] {
  const targets = [...manifests].flatMap((manifest) => targetIn(manifest) ?? [])
  return [...new Map(targets.map((target) => [targetText(target), target])).values()]
}

export interface FilePresets {
  readonly manifests: readonly Manifest[]
  /** The namespace of presets that state none. */
  readonly namespace: string
  /** Labels of every namespace, beside the label of its name. */
  readonly namespaceLabels: Labels
  /** Called once for each preset that is not applied. */
  readonly onBroken: (preset: QuarantinedPreset) => void
}

/** Only the presets of some files. */
export function scopesOfFiles(
  source: KindSource,
  { manifests, namespace: own, namespaceLabels, onBroken }: FilePresets,
): ObjectScopes {
  const known = new Map<string, Promise<Pick<ObjectScope, 'kind' | 'candidates' | 'quarantined'>>>()
  const read = async (target: Target) => {
    const kind = kindIn(await source.read([target]), target)
    const { compiled, quarantined } = objectPresetsOf(manifests, kind, own)
    const broken = [...quarantined.values()]
    for (const preset of broken) onBroken(preset)
    return { kind, candidates: createCandidates(compiled.values()), quarantined: broken }
  }
  return {
    async of(target, namespace) {
      const scope = await cached(known, targetText(target), () => read(target))
      return { ...scope, namespace: namespaceFor(scope.kind, namespace, namespaceLabels), warnings: [] }
    },
  }
}

/** The presets of the cluster, for the kinds of its PresetTargets. */
export function scopesOfCluster({ kube, server }: Pick<Cluster, 'kube' | 'server'>, source: KindSource): ObjectScopes {
  const targets = once(() => listAll(kube, presetTargets))
  const ofCluster = once(() => listAll(kube, clusterObjectPresets))
  const userInfo = once(() => whoAmI(kube))
  const known = new Map<string, Promise<ObjectScope>>()
  const read = async (wanted: Target, namespace: string): Promise<ObjectScope> => {
    const name = targetText(wanted)
    const all = await targets()
    const target = all.find(({ spec }) => targetText(spec) === name)
    if (target === undefined) {
      const near = nearest(
        name,
        all.map(({ spec }) => targetText(spec)),
      )
      const hint = near === undefined ? '' : `; did you mean ${near}?`
      throw new Usage(`the cluster at ${server} applies no presets to ${name}: it has no PresetTarget for it${hint}`)
    }
    const kind = kindIn(await source.read([wanted]), wanted)
    const [labels, cluster, namespaced, user] = await Promise.all([
      labelsOf(kube, namespace),
      ofCluster(),
      listAll(kube, objectPresets, namespace),
      userInfo(),
    ])
    const manifests = [...cluster, ...namespaced].map((preset) => ({ ...preset }))
    const presets = objectPresetsOf(manifests, kind, namespace, target.spec.restricted)
    const place = namespaceFor(kind, namespace, labels)
    const isExcluded = !isSelected(compileSelector(target.spec.namespaceSelector ?? {}), labels)
    const candidates = createCandidates(isExcluded ? [] : presets.compiled.values())
    return {
      kind,
      candidates,
      quarantined: isExcluded ? [] : [...presets.quarantined.values()],
      namespace: place,
      exempt({ metadata }) {
        const selected = candidates.select(metadata.labels ?? {}, place)
        return exemptOf(kube, exemptionsToAuthorize(metadata.annotations, selected), presetResources)
      },
      ...(user === undefined ? {} : { userInfo: user }),
      warnings: [...warningsOf(target), ...(isExcluded ? [excluded(target, namespace)] : [])],
    }
  }
  return {
    of: (target, namespace) => cached(known, `${targetText(target)} ${namespace}`, () => read(target, namespace)),
  }
}

const presetResources = { namespaced: 'objectpresets', cluster: 'clusterobjectpresets' }

/** @throws Usage */
export function kindIn(kinds: Kinds, target: Target): ObjectKind {
  const name = targetText(target)
  const read = kinds.get(name)?.()
  if (read === undefined) {
    const near = nearest(name, kinds.keys())
    throw new Usage(
      `there is no schema of ${name}; ${near === undefined ? 'add it with --schema' : `did you mean ${near}?`}`,
    )
  }
  if ('kind' in read) return read.kind
  const [first] = read.causes
  const { message = '', suggestion, field = '' } = first ?? {}
  const hint = suggestion === undefined ? '' : `; ${suggestion}`
  // The API server does not serve it.
  if (first?.reason === 'FieldValueNotFound') throw new Usage(`${message}${hint}`)
  throw new Usage(`the schema of ${name} cannot be used: ${field} ${message}${hint}`)
}

export const namespaceFor = ({ isNamespaced }: ObjectKind, name: string, labels: Labels): Namespace =>
  isNamespaced ? { name, labels: { ...labels, 'kubernetes.io/metadata.name': name } } : { name: '', labels: {} }

function warningsOf({ metadata, status }: PresetTarget): readonly string[] {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  if (ready?.status === 'True') return []
  const why = ready === undefined ? 'the webhooks have not reported its status yet' : ready.message
  return [`the PresetTarget ${metadata.name} is not ready, so the cluster applies no presets: ${why}`]
}

const excluded = ({ metadata }: PresetTarget, namespace: string): string =>
  `the PresetTarget ${metadata.name} does not select namespace "${namespace}": no preset applies`

function cached<T>(known: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const found = known.get(key) ?? make()
  known.set(key, found)
  return found
}
