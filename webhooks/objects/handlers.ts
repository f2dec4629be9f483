import type { Cause } from '../../api/cause.ts'
import { nearest } from '../../api/nearest.ts'
import { parseObjectPreset, targetText, type ObjectPreset } from '../../api/object-preset.ts'
import { groupOf, parsePresetTarget } from '../../api/preset-target.ts'
import { isRecord } from '../../api/schema.ts'
import type { ObjectTarget, WatchedObjects } from '../../inventory/objects.ts'
import type { Namespace } from '../../presets/candidates.ts'
import { specBytes } from '../../presets/check.ts'
import { compileObjectPreset } from '../../presets/object-preset.ts'
import { restrictedCause, restrictedUses, restrictedWarnings } from '../../presets/restricted.ts'
import { checkPresetTarget } from '../../presets/target-check.ts'
import { ApiUnreachable } from '../../runtime/api-error.ts'
import { sleep, type Clock } from '../../runtime/clock.ts'
import { keyOf, type Persisted } from '../../runtime/resource.ts'
import { pick } from '../../runtime/slim.ts'
import type { AdmissionHandler, Turn } from '../admission-routes.ts'
import { isSpecUnchanged } from '../admission/authorize.ts'
import { isReleased, refuse, unlessTooDeep } from '../admission/kind.ts'
import type { NewNamespaces } from '../admission/new-namespaces.ts'
import { createPendingPresets } from '../admission/pending-presets.ts'
import type { MayAccess } from '../admission/permission.ts'
import { namespaceSizeCauses, overlapWarnings } from '../admission/preset-findings.ts'
import type { AdmissionRequest, AdmissionResult } from '../admission/request.ts'
import { completeObject } from './complete-object.ts'

/** Admission for kinds of other APIs. */
export interface ObjectHandlers {
  /** Handles `POST /objects`: applies presets to a new object. */
  readonly complete: AdmissionHandler
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

export function createObjectHandlers(options: ObjectHandlersOptions): ObjectHandlers {
  const { objects, namespaces, mayAccess, clock } = options
  const pending = createPendingPresets(clock)
  objects.onChange((id) => {
    if (id !== undefined) pending.arrived(id)
  })

  const complete: AdmissionHandler = async (request, turn) => {
    const { namespace } = request
    const entry = objects.target(targetText(kindOf(request)))
    // A target that was just deleted, or updates, which are not completed.
    if (entry === undefined || request.operation !== 'CREATE') return { allowed: true }
    if (!('kind' in entry)) throw new ApiUnreachable(`the PresetTarget ${entry.target.metadata.name} is not ready`)
    await Promise.all([pending.wait(namespace), namespaces.newNamespaces.wait(namespace)])
    const tooDeep = unlessTooDeep(request)
    if (tooDeep !== undefined) return tooDeep
    await turn?.()
    return completeObject(request, entry, namespaces.namespace(namespace))
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

  /** Takes a turn for each piece of work between two waits: to check a large preset takes tens of milliseconds. */
  const validatePreset = async (request: AdmissionRequest, turn?: Turn): Promise<AdmissionResult> => {
    await turn?.()
    const parsed = parseObjectPreset(request.object)
    if ('causes' in parsed) return refuse(parsed.causes)
    const { preset } = parsed
    const entry = await targetFor(targetText(preset.spec.target))
    if ('causes' in entry) return refuse(entry.causes)
    await turn?.()
    const compiled = compileObjectPreset(preset, kindsOf(entry), entry.target.spec.restricted)
    if ('quarantined' in compiled) return refuse(compiled.quarantined.causes)
    // Users without the permissions may change labels and annotations.
    const causes = isSpecUnchanged(request) ? [] : await permissionCauses(request, preset, entry)
    await turn?.()
    const tooMuch = namespaceSizeCauses(preset, sizesOf(objects.storedPresets(), preset.metadata.namespace))
    if (causes.length + tooMuch.length > 0) return refuse([...causes, ...tooMuch], compiled.warnings)
    const overlaps = overlapWarnings(compiled.preset, entry.candidates.all(), entry.kind.structure)
    return { allowed: true, warnings: [...compiled.warnings, ...overlaps] }
  }

  /** Authors of presets decide what others create, so they must be allowed to create and update such objects. */
  const permissionCauses = async (
    { user, name }: AdmissionRequest,
    { kind, metadata, spec }: ObjectPreset,
    { resource, target, kind: { structure } }: ObjectTarget,
  ): Promise<readonly Cause[]> => {
    const scope = kind === 'ObjectPreset' ? { namespace: metadata.namespace ?? '' } : {}
    const access = { group: groupOf(spec.target.apiVersion), resource, name: '', ...scope }
    const verbs = ['create', 'update']
    const allowed = await Promise.all(verbs.map((verb) => mayAccess(user, { ...access, verb })))
    const missing = verbs.filter((_, index) => allowed[index] !== true)
    const uses = kind === 'ObjectPreset' ? [] : restrictedUses(spec, target.spec.restricted ?? [], structure)
    const mayGrant =
      uses.length === 0 || (await mayAccess(user, { verb: 'grant-host', resource: 'clusterobjectpresets', name }))
    return [
      ...(missing.length === 0 ? [] : [mayNotWrite(missing, resource, kind, metadata.namespace)]),
      ...(mayGrant ? [] : uses.map((use) => restrictedCause(use, grantMissing))),
    ]
  }

  const validateTarget = async (request: AdmissionRequest, turn?: Turn): Promise<AdmissionResult> => {
    const parsed = parsePresetTarget(request.object)
    if ('causes' in parsed) return refuse(parsed.causes)
    const { spec } = parsed.target
    const served = await objects.read(spec)
    await turn?.()
    const causes = checkPresetTarget(parsed.target, served)
    if (causes.length > 0) return refuse(causes)
    const warnings = 'kind' in served ? restrictedWarnings(spec.restricted ?? [], served.kind.structure) : []
    return { allowed: true, warnings }
  }

  return {
    complete,
    async validate(request, turn) {
      if (isReleased(request)) return { allowed: true }
      const tooDeep = unlessTooDeep(request)
      if (tooDeep !== undefined) return tooDeep
      if (request.kind === 'PresetTarget') return validateTarget(request, turn)
      const result = await validatePreset(request, turn)
      const { name, namespace } = request
      if (result.allowed && !request.isDryRun && name !== '' && !isSpecUnchanged(request)) {
        pending.expect(keyOf(namespace === '' ? { name } : { namespace, name }))
      }
      return result
    },
  }
}

/** The presets of a namespace share one limit, whatever their targets, and whether these can be used or not. */
const sizesOf = (presets: readonly Persisted<ObjectPreset>[], namespace: string | undefined) =>
  presets
    .filter(({ metadata }) => metadata.namespace === namespace)
    .map(({ metadata, spec }) => ({ id: keyOf(metadata), ...pick(metadata, 'namespace'), bytes: specBytes(spec) }))

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

const grantMissing =
  'is restricted by the PresetTarget: writing it requires the verb "grant-host" on clusterobjectpresets.virtset.io'

const mayNotWrite = (
  verbs: readonly string[],
  resource: string,
  kind: ObjectPreset['kind'],
  namespace: string | undefined,
): Cause => ({
  rule: 'preset-permission',
  field: 'spec.target',
  reason: 'FieldValueForbidden',
  message: `writing a preset requires the permission to ${verbs.join(' and ')} ${resource} in ${
    kind === 'ObjectPreset' ? `namespace "${namespace}"` : 'all namespaces'
  }`,
})
