import type { Cause } from '../../api/cause.ts'
import { nearest } from '../../api/nearest.ts'
import { parseObjectPreset, targetText, type ObjectPreset } from '../../api/object-preset.ts'
import { parsePresetTarget } from '../../api/preset-target.ts'
import { isRecord } from '../../api/schema.ts'
import type { ObjectTarget, WatchedObjects } from '../../inventory/objects.ts'
import type { Namespace } from '../../presets/candidates.ts'
import { sizeOf, validConditions } from '../../presets/check.ts'
import { exemptionsToAuthorize } from '../../presets/exclude.ts'
import { compileObjectPreset } from '../../presets/object-preset.ts'
import { restrictedWarnings } from '../../presets/restricted.ts'
import { checkPresetTarget } from '../../presets/target-check.ts'
import { ApiUnreachable } from '../../runtime/api-error.ts'
import { sleep, type Clock } from '../../runtime/clock.ts'
import { createLanes } from '../../runtime/lanes.ts'
import { keyOf, type Persisted } from '../../runtime/resource.ts'
import { pick } from '../../runtime/slim.ts'
import type { AdmissionHandler, Turn } from '../admission-routes.ts'
import { exclusionOf, exemptFrom, isSpecUnchanged, stringsOf } from '../admission/authorize.ts'
import { isReleased, refuse, unlessTooDeep } from '../admission/kind.ts'
import type { NewNamespaces } from '../admission/new-namespaces.ts'
import { createPendingPresets } from '../admission/pending-presets.ts'
import type { May, MayAccess } from '../admission/permission.ts'
import { namespaceSizeCauses, overlapWarnings, sizeOfPreset } from '../admission/preset-findings.ts'
import type { AdmissionRequest, AdmissionResult } from '../admission/request.ts'
import { requesterOf } from '../tenant-requests.ts'
import { recordAuthor } from './author.ts'
import { completeObject } from './complete-object.ts'
import { missingPermissions } from './preset-permission.ts'

/** Admission for kinds of other APIs. */
export interface ObjectHandlers {
  /** Handles `POST /objects`: applies presets to a new object. */
  readonly complete: AdmissionHandler
  /** Handles `POST /mutate` of presets for objects: records their author. */
  readonly mutate: AdmissionHandler
  /** Handles `POST /validate` of PresetTargets and presets for objects. */
  readonly validate: AdmissionHandler
}

export interface ObjectHandlersOptions {
  readonly objects: Pick<WatchedObjects, 'onChange' | 'read' | 'storedPresets' | 'target' | 'targets'>
  readonly namespaces: {
    readonly namespace: (name: string) => Namespace
    readonly newNamespaces: Pick<NewNamespaces, 'wait'>
  }
  readonly mayAccess: MayAccess
  readonly clock: Clock
}

/** The kinds that `validate` handles. */
export const isObjectKind = (kind: string): boolean =>
  kind === 'PresetTarget' || kind === 'ObjectPreset' || kind === 'ClusterObjectPreset'

/**
 * Before each further look for a target that was created with the preset. Together shorter than the API server waits.
 */
const pausesMs = [50, 150, 400, 900]
/** Of requests for the schemas of kinds, which have megabytes. */
const schemaLanes = { all: 2, perNamespace: 1 }

export function createObjectHandlers(options: ObjectHandlersOptions): ObjectHandlers {
  const { objects, namespaces, mayAccess, clock } = options
  const pending = createPendingPresets(clock)
  const reading = createLanes(schemaLanes)
  const sizeOfStored = (id: string): number => {
    const preset = objects.storedPresets().find(({ metadata }) => keyOf(metadata) === id)
    return preset === undefined ? 0 : storedSize(preset.spec)
  }
  objects.onChange((id) => {
    if (id !== undefined) pending.arrived(id, () => sizeOfStored(id))
  })

  const mayOf =
    (request: AdmissionRequest, signal: AbortSignal | undefined): May =>
    (access) =>
      mayAccess(request.user, access, requesterOf(request, signal))

  const complete: AdmissionHandler = async (request, turn, signal) => {
    const entry = objects.target(targetText(kindOf(request)))
    // A target that was just deleted, or updates, which are not completed.
    if (entry === undefined || request.operation !== 'CREATE') return { allowed: true }
    if (!('kind' in entry)) throw new ApiUnreachable(`the PresetTarget ${entry.target.metadata.name} is not ready`)
    const { isNamespaced } = entry.kind
    // That of a request for a Namespace is the name of this Namespace, which does not exist yet.
    const { namespace } = request
    await Promise.all([pending.wait(namespace), isNamespaced ? namespaces.newNamespaces.wait(namespace) : undefined])
    // Whatever reads the object takes a turn: all requests that waited for one preset continue at the same time.
    await turn?.()
    const tooDeep = unlessTooDeep(request)
    if (tooDeep !== undefined) return tooDeep
    const ofNamespace = isNamespaced ? namespaces.namespace(namespace) : { name: '', labels: {} }
    const reviews = exemptionsOf(request, entry, ofNamespace, mayOf(request, signal))
    if (reviews === undefined) return completeObject(request, entry, ofNamespace, new Set())
    const exempt = await reviews
    await turn?.()
    return completeObject(request, entry, ofNamespace, exempt)
  }

  /** Few objects exclude presets that not everyone can exclude, and only these need the API server. */
  const exemptionsOf = (
    { object }: AdmissionRequest,
    { candidates }: ObjectTarget,
    namespace: Namespace,
    may: May,
  ): Promise<ReadonlySet<string>> | undefined => {
    const metadata = isRecord(object) && isRecord(object['metadata']) ? object['metadata'] : {}
    const exclusion = exclusionOf(metadata['annotations'])
    if (exclusion === undefined) return undefined
    const selected = candidates.select(stringsOf(metadata['labels']), namespace)
    const ids = exemptionsToAuthorize(exclusion, selected)
    return ids.length === 0 ? undefined : exemptFrom(presetResources, ids, may)
  }

  /** Waits for a target whose schema is not read yet, which a user may have created a moment ago. */
  const targetFor = async (name: string): Promise<ObjectTarget | { readonly causes: readonly Cause[] }> => {
    for (const pauseMs of pausesMs) {
      const entry = objects.target(name)
      if (entry !== undefined && 'kind' in entry) return entry
      await sleep(clock, pauseMs)
    }
    const entry = objects.target(name)
    if (entry === undefined)
      return {
        causes: [
          noTarget(
            name,
            [...objects.targets()].map(({ target }) => targetText(target.spec)),
          ),
        ],
      }
    return 'kind' in entry ? entry : { causes: [notReady(name)] }
  }

  /**
   * Takes a turn for each further piece of work between two waits: to check a large preset takes tens of milliseconds.
   */
  const validatePreset = async (
    request: AdmissionRequest,
    turn?: Turn,
    signal?: AbortSignal,
  ): Promise<AdmissionResult> => {
    const parsed = parseObjectPreset(request.object)
    if ('causes' in parsed) return refuse(parsed.causes)
    const { preset } = parsed
    const entry = await targetFor(targetText(preset.spec.target))
    if ('causes' in entry) return refuse(entry.causes)
    await turn?.()
    const compiled = compileObjectPreset(preset, kindsOf(entry), entry.target.spec.restricted)
    if ('quarantined' in compiled) return refuse(compiled.quarantined.causes)
    // Users without the permissions may change labels and annotations.
    const causes = isSpecUnchanged(request) ? [] : await missingPermissions(preset, entry, mayOf(request, signal))
    await turn?.()
    const stored = sizesOf(objects.storedPresets(), preset.metadata.namespace)
    const tooMuch = namespaceSizeCauses(preset, stored, pending)
    if (causes.length + tooMuch.length > 0) return refuse([...causes, ...tooMuch], compiled.warnings)
    const overlaps = overlapWarnings(compiled.preset, entry.candidates.all(), entry.kind.structure)
    return { allowed: true, warnings: [...compiled.warnings, ...overlaps] }
  }

  const validateTarget = async (
    request: AdmissionRequest,
    turn?: Turn,
    signal?: AbortSignal,
  ): Promise<AdmissionResult> => {
    const parsed = parsePresetTarget(request.object)
    if ('causes' in parsed) return refuse(parsed.causes)
    const { spec } = parsed.target
    const { tenant } = requesterOf(request)
    const served = await reading.run(tenant, () => objects.read(spec), signal)
    await turn?.()
    const causes = checkPresetTarget(parsed.target, served)
    if (causes.length > 0) return refuse(causes)
    const warnings = 'kind' in served ? restrictedWarnings(spec.restricted ?? [], served.kind.structure) : []
    return { allowed: true, warnings }
  }

  return {
    complete,
    async mutate(request, turn) {
      await turn?.()
      return recordAuthor(request)
    },
    async validate(request, turn, signal) {
      await turn?.()
      if (isReleased(request)) return { allowed: true }
      const tooDeep = unlessTooDeep(request)
      if (tooDeep !== undefined) return tooDeep
      if (request.kind === 'PresetTarget') return validateTarget(request, turn, signal)
      const result = await validatePreset(request, turn, signal)
      const { name, namespace } = request
      if (result.allowed && !request.isDryRun && name !== '' && !isSpecUnchanged(request)) {
        pending.expect(keyOf(namespace === '' ? { name } : { namespace, name }), sizeOfPreset(request))
      }
      return result
    },
  }
}

const presetResources = { namespaced: 'objectpresets', cluster: 'clusterobjectpresets' }

/** The presets of a namespace share one limit, whatever their targets, and whether these can be used or not. */
function* sizesOf(presets: readonly Persisted<ObjectPreset>[], namespace: string | undefined) {
  for (const { metadata, spec } of presets) {
    if (metadata.namespace !== namespace) continue
    yield { id: keyOf(metadata), ...pick(metadata, 'namespace'), size: storedSize(spec) }
  }
}

const sizes = new WeakMap<ObjectPreset['spec'], number>()

/** Determined once for each cached object, because such an object never changes. */
function storedSize(spec: ObjectPreset['spec']): number {
  const size = sizes.get(spec) ?? sizeOf(spec, validConditions(spec))
  sizes.set(spec, size)
  return size
}

const kindsOf = ({ target, kind }: ObjectTarget) => new Map([[targetText(target.spec), () => ({ kind })]])

/** The kind of the object as it was converted for the rule of the webhook. */
function kindOf({ request, kind }: AdmissionRequest) {
  const { group, version } = isRecord(request['kind']) ? request['kind'] : {}
  return { apiVersion: group === '' ? String(version) : `${String(group)}/${String(version)}`, kind }
}

function noTarget(name: string, known: readonly string[]): Cause {
  const near = nearest(name, known)
  return {
    rule: 'preset-target',
    field: 'spec.target',
    value: name,
    reason: 'FieldValueNotFound',
    message: 'there is no PresetTarget for this kind, which an operator creates',
    ...(near === undefined ? {} : { suggestion: `did you mean ${near}?` }),
  }
}

const notReady = (name: string): Cause => ({
  rule: 'preset-target',
  field: 'spec.target',
  value: name,
  reason: 'FieldValueInvalid',
  message: 'the PresetTarget for this kind is not ready; see its status',
})
