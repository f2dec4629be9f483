import type { Cause } from '../../api/cause.ts'
import { wrongType } from '../../api/field-error.ts'
import { checkMetadata } from '../../api/metadata.ts'
import { isRecord } from '../../api/schema.ts'
import { completedByAnnotation, launcherPodFinalizer, parseVirtualMachine } from '../../api/virtual-machine.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { attachedVolumeCauses, withAttachedVolumesOf } from '../../completion/attached-volume.ts'
import { labelsSizeCauses } from '../../completion/labels-size.ts'
import { keptMedia, mediaCauses, withMediaOf } from '../../completion/media.ts'
import { objectSizeCauses } from '../../completion/object-size.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import { checkReserved, withFinalizer } from '../../completion/reserved.ts'
import { completeRequest } from './complete-request.ts'
import { enforcedCauses, remainWarnings, restoreEnforced } from './enforced-metadata.ts'
import type { Engine } from './engine.ts'
import { isBeingDeleted, isReleased, refuse, type Handle, type KindHandler, type Trust } from './kind.ts'
import { withoutManagedFields } from './managed-fields.ts'
import { patchBetween, writePatch } from './patch.ts'
import type { Permissions } from './permission.ts'
import { withoutRemovedItems } from './removed-items.ts'
import { isSameJson } from './same-json.ts'
import { nothingRecorded, recordedOrigins, restoreSpec } from './update.ts'
import type { AdmissionRequest, AdmissionResult } from './request.ts'
import { writtenOver } from './written-over.ts'

const mutate: Handle = (request, engine, trust, permissions) => {
  const stored = storedVm(request)
  return stored === undefined
    ? mutateNew(request, engine, trust, permissions)
    : mutateStored(request, stored, engine, trust.controllers.includes(request.user.username))
}

const validate: Handle = (request, engine, trust, permissions) => {
  const stored = storedVm(request)
  const isTrusted = trust.controllers.includes(request.user.username)
  if (stored !== undefined) return validateStored(request, stored, isTrusted)
  if (engine.wasCompletedHere(request)) return validateCompleted(request, isTrusted)
  const { faults, causes, vm } = completeRequest(request, engine, permissions, isTrusted)
  const over = vm === undefined ? [] : writtenOver(request.object, vm.completed)
  const all = [...faults, ...causes, ...over]
  return all.length > 0 ? refuse(all) : { allowed: true }
}

/** A stored VM is not completed again. */
const isNew = ({ operation }: AdmissionRequest): boolean => operation === 'CREATE'

export const virtualMachine: KindHandler = { mutate, validate, appliesPresets: isNew }

/** Only owners and finalizers may have changed since the mutating request checked the VM. */
function validateCompleted({ object }: AdmissionRequest, isTrusted: boolean): AdmissionResult {
  const reserved = isTrusted ? [] : checkReserved(object as VirtualMachine, undefined)
  return reserved.length > 0 ? refuse(reserved) : { allowed: true }
}

function mutateNew(request: AdmissionRequest, engine: Engine, trust: Trust, permissions: Permissions): AdmissionResult {
  const isTrusted = trust.controllers.includes(request.user.username)
  const { faults, causes, vm, warnings, audit } = completeRequest(request, engine, permissions, isTrusted)
  if (vm === undefined) return { ...refuse([...faults, ...causes], warnings), audit }
  const patch = engine.patch({ ...vm.sent }, { ...withoutManagedFields(withFinalizer(vm.completed.vm)) }, request)
  return { allowed: true, patch, warnings, audit, vm: vm.completed.vm }
}

/**
 * Restores what completion added and the manifest omits, and refuses other changes of the spec than of media and
 * attached volumes.
 */
function mutateStored(
  request: AdmissionRequest,
  stored: VirtualMachine,
  engine: Engine,
  isTrusted: boolean,
): AdmissionResult {
  const { object } = request
  if (isTrusted || !isRecord(object) || !isRecord(object['metadata'])) return { allowed: true }
  const unfinished = restoreMetadata(object['metadata'], stored, isBeingDeleted(request))
  if (!isCompleted(stored)) {
    return { allowed: true, patch: writePatch(patchBetween(object, { ...object, metadata: unfinished })) }
  }
  const origins = recordedOrigins(stored)
  const enforced = restoreEnforced(unfinished, stored, origins)
  const { spec: sent, sentPath } = withoutRemovedItems(object['spec'], stored.spec, origins.shortened)
  const changed = withAttachedVolumesOf(sent, withMediaOf(sent, stored.spec, origins))
  const outcome = restoreSpec(withoutAttachedVolumes(sent), withoutAttachedVolumes(changed), origins)
  const causes = [
    ...[enforced, outcome].flatMap((one) => ('causes' in one ? one.causes : [])),
    ...changeCauses(changed, stored),
  ]
  if ('causes' in outcome || 'causes' in enforced || causes.length > 0) {
    return refuse(causes.map((cause) => ({ ...cause, field: sentPath(cause.field) })))
  }
  const { metadata } = enforced
  const kept = remainWarnings(keptMedia(sent, stored.spec, origins))
  const { attachedVolumes } = changed
  const spec =
    isRecord(outcome.restored) && attachedVolumes ? { ...outcome.restored, attachedVolumes } : outcome.restored
  const patch = writePatch(patchBetween(object, { ...object, metadata, spec }))
  const claims = engine.attachmentWarnings(request, stored.spec, changed)
  return { allowed: true, patch, warnings: [...enforced.warnings, ...kept, ...claims] }
}

/** These are compared by name, not by place. */
function withoutAttachedVolumes(spec: unknown): unknown {
  if (!isRecord(spec) || !Object.hasOwn(spec, 'attachedVolumes')) return spec
  const { attachedVolumes: _, ...rest } = spec
  return rest
}

/** The stored VM can be invalid, if it was stored without the webhooks. */
function changeCauses(changed: VirtualMachine['spec'], stored: VirtualMachine): readonly Cause[] {
  if (changed === stored.spec) return []
  const parsed = parseVirtualMachine({ ...stored, spec: changed })
  if ('causes' in parsed) return parsed.causes
  return [...mediaCauses(changed, stored.spec), ...attachedVolumeCauses(changed, stored.spec)]
}

/**
 * The sent metadata with the stored provenance and the finalizer, neither of which is in a user's manifest. Undefined
 * members count as absent.
 */
function restoreMetadata(sent: { readonly [key: string]: unknown }, stored: VirtualMachine, isEnding: boolean) {
  const finalizers = Array.isArray(sent['finalizers']) ? sent['finalizers'] : []
  const hadFinalizer = stored.metadata.finalizers?.includes(launcherPodFinalizer) === true
  const isLost = hadFinalizer && !isEnding && !finalizers.includes(launcherPodFinalizer)
  const { [completedByAnnotation]: sentProvenance, ...others } = isRecord(sent['annotations'])
    ? sent['annotations']
    : {}
  const provenance = stored.metadata.annotations?.[completedByAnnotation]
  const annotations =
    sentProvenance === provenance ? sent['annotations'] : { ...others, [completedByAnnotation]: provenance }
  return {
    ...sent,
    annotations,
    ...(isLost ? { finalizers: [...finalizers, launcherPodFinalizer] } : {}),
  }
}

/**
 * The spec is immutable, except for the media of its drives and its attached volumes, and that a trusted account may
 * complete a VM that was stored without completion.
 */
function validateStored(request: AdmissionRequest, stored: VirtualMachine, isTrusted: boolean): AdmissionResult {
  const { object } = request
  if (!isRecord(object)) return refuse([wrongType('', object, 'an object')])
  const mayComplete = isTrusted && !isCompleted(stored)
  if (!mayComplete && !isSameJson(stored.spec, object['spec'])) {
    const { enforced } = recordedOrigins(stored)
    const inDrives = withMediaOf(object['spec'], stored.spec, { ...nothingRecorded, enforced })
    const changed = withAttachedVolumesOf(object['spec'], inDrives)
    const causes = changeCauses(changed, stored)
    if (causes.length > 0) return refuse(causes)
    if (!isSameJson(changed, object['spec'])) {
      // The mutating webhook has reported the user's changes in detail, so another webhook made this change.
      const outcome = restoreSpec(object['spec'], changed, nothingRecorded)
      return refuse('causes' in outcome ? outcome.causes : [respelled])
    }
  }
  if (isTrusted) {
    // A VM of an earlier version can exceed a limit of this one, and must still be able to end.
    if (isReleased(request)) return { allowed: true }
    const parsed = parseVirtualMachine(object)
    return 'causes' in parsed ? refuse(parsed.causes) : { allowed: true }
  }
  const faults = checkMetadata(object['metadata'], 'metadata')
  if (faults.length > 0) return refuse(faults)
  // The spec was checked above, as was the metadata.
  const vm = object as unknown as VirtualMachine
  const reserved = [
    // The last change is that of a finalizer.
    ...(isBeingDeleted(request) ? [] : objectSizeCauses(vm, stored)),
    ...labelsSizeCauses(vm.metadata.labels, stored.metadata.labels),
    ...checkReserved(vm, stored),
    ...enforcedCauses(object['metadata'], stored, recordedOrigins(stored)),
  ]
  return reserved.length > 0 ? refuse(reserved) : { allowed: true }
}

const respelled: Cause = {
  rule: 'spec-immutable',
  field: 'spec',
  reason: 'FieldValueForbidden',
  message: "is immutable: a VM's spec cannot change after creation, not even to an equivalent spelling",
}

/** Only admitted VMs are stored, so the old object is trusted to be a VM. */
const storedVm = ({ operation, oldObject }: AdmissionRequest): VirtualMachine | undefined =>
  operation === 'UPDATE' && isRecord(oldObject) ? (oldObject as unknown as VirtualMachine) : undefined

const isCompleted = ({ metadata }: VirtualMachine): boolean =>
  decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '') !== undefined
