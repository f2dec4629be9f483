import type { Cause } from '../api/cause.ts'
import { completedByAnnotation, launcherPodFinalizer, parseMachine } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { checkMetadata } from '../api/metadata.ts'
import { parsePreset } from '../api/preset.ts'
import { isRecord } from '../api/schema.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { checkReserved, withFinalizer } from '../completion/reserved.ts'
import type { Engine } from './engine.ts'
import { judgeMachine } from './judge.ts'
import { noPermissions } from './permission.ts'
import type { Permissions } from './permission.ts'
import { patchBetween, writePatch } from './patch.ts'
import type { Review, Verdict } from './review.ts'
import { hasTemplate, reviewTemplate } from './template.ts'
import { restoreSpec } from './update.ts'
import type { Remembered } from './update.ts'

/** Who may write what users may not: virtset's controller, and Kubernetes' own when it orphans what an owner leaves. */
export interface Trust {
  readonly controllers: readonly string[]
}

/** Answers `POST /mutate`: the VM completed, or what is wrong with it. Pure but for the engine's caches. */
export function mutate(review: Review, engine: Engine, trust: Trust, permissions = noPermissions): Verdict {
  if (hasTemplate(review)) return reviewTemplate(review, engine, permissions)
  if (review.kind !== 'VirtualMachine') return reviewPreset(review, engine, permissions)
  const stored = storedMachine(review)
  return stored === undefined
    ? mutateNew(review, engine, trust, permissions)
    : mutateStored(review, stored, engine, trust)
}

/** Answers `POST /validate`: whether what is about to be stored is whole and well, whoever changed it since. */
export function validate(review: Review, engine: Engine, trust: Trust, permissions = noPermissions): Verdict {
  if (hasTemplate(review)) return reviewTemplate(review, engine, permissions)
  if (review.kind !== 'VirtualMachine') return reviewPreset(review, engine, permissions)
  const stored = storedMachine(review)
  const isTrusted = trust.controllers.includes(review.user.username)
  if (stored !== undefined) return validateStored(review, stored, isTrusted)
  if (engine.isOwn(review.object, review)) return validateOwn(review, isTrusted)
  const { faults, causes } = judgeMachine(review, engine, permissions, isTrusted)
  return faults.length + causes.length > 0 ? refuse([...faults, ...causes]) : { allowed: true }
}

/** Owners and finalizers are not completion's, and may have come since; the rest was judged when it was completed. */
function validateOwn(review: Review, isTrusted: boolean): Verdict {
  const reserved = isTrusted ? [] : checkReserved(review.object as VirtualMachine, undefined)
  return reserved.length > 0 ? refuse(reserved) : { allowed: true }
}

function mutateNew(review: Review, engine: Engine, trust: Trust, permissions: Permissions): Verdict {
  const isTrusted = trust.controllers.includes(review.user.username)
  const { faults, causes, machine, warnings, audit } = judgeMachine(review, engine, permissions, isTrusted)
  if (machine === undefined) return { ...refuse([...faults, ...causes], warnings), audit }
  const patch = engine.patch({ ...machine.sent }, { ...withFinalizer(machine.completed.machine) }, review)
  return { allowed: true, patch, warnings, audit }
}

/**
 * A VM that ends is let end; one whose spec is untouched is not looked into. Otherwise what completion had added and the
 * manifest does not have is put back.
 */
function mutateStored(review: Review, stored: VirtualMachine, engine: Engine, trust: Trust): Verdict {
  const { object } = review
  if (!isRecord(object) || !isRecord(object['metadata']) || trust.controllers.includes(review.user.username)) {
    return { allowed: true }
  }
  const isEnding = stored.metadata.deletionTimestamp !== undefined
  const metadata = keepOurs(object['metadata'], stored, isEnding)
  if (!isCompleted(stored)) return { allowed: true, patch: writePatch(patchBetween(object, { ...object, metadata })) }
  const outcome = restoreSpec(object['spec'], stored.spec, engine.remember(stored))
  if ('causes' in outcome) return refuse(outcome.causes)
  return { allowed: true, patch: writePatch(patchBetween(object, { ...object, metadata, spec: outcome.restored })) }
}

/** The provenance as stored, and the finalizer: a manifest has neither. */
function keepOurs(sent: { readonly [key: string]: unknown }, stored: VirtualMachine, isEnding: boolean) {
  const finalizers = Array.isArray(sent['finalizers']) ? sent['finalizers'] : []
  const hadFinalizer = stored.metadata.finalizers?.includes(launcherPodFinalizer) === true
  const isLost = hadFinalizer && !isEnding && !finalizers.includes(launcherPodFinalizer)
  const { [completedByAnnotation]: sentProvenance, ...others } = isRecord(sent['annotations'])
    ? sent['annotations']
    : {}
  const provenance = stored.metadata.annotations?.[completedByAnnotation]
  const annotations =
    sentProvenance === provenance
      ? sent['annotations']
      : { ...others, ...(provenance === undefined ? {} : { [completedByAnnotation]: provenance }) }
  return {
    ...sent,
    ...(annotations === undefined ? {} : { annotations }),
    ...(isLost ? { finalizers: [...finalizers, launcherPodFinalizer] } : {}),
  }
}

function validateStored(review: Review, stored: VirtualMachine, isTrusted: boolean): Verdict {
  const { object } = review
  if (!isRecord(object)) return refuse([notWhole])
  const isFixed = !isTrusted || isCompleted(stored)
  const changed = isFixed && patchBetween({ spec: stored.spec }, { spec: object['spec'] }).length > 0
  if (changed) {
    // Mutation has said it in detail; here is only what another webhook changed after it, or a never completed VM.
    const outcome = restoreSpec(object['spec'], stored.spec, nothingAdded)
    return refuse('causes' in outcome ? outcome.causes : [respelled])
  }
  if (!isFixed || isTrusted) {
    const parsed = parseMachine(object)
    return 'causes' in parsed ? refuse(parsed.causes) : { allowed: true }
  }
  const faults = checkMetadata(object['metadata'], 'metadata')
  if (faults.length > 0) return refuse(faults)
  // The spec is the stored one, and the metadata was looked at now.
  const reserved = checkReserved(object as unknown as VirtualMachine, stored)
  return reserved.length > 0 ? refuse(reserved) : { allowed: true }
}

/** After mutation nothing may be absent any more. */
const nothingAdded: Remembered = { isUsers: () => true, isOverridden: () => false }

const notWhole: Cause = { rule: 'type', field: '', reason: 'FieldValueTypeInvalid', message: 'must be an object' }

const respelled: Cause = {
  rule: 'spec-immutable',
  field: 'spec',
  reason: 'FieldValueForbidden',
  message: 'may not be spelled anew; the spec of a VM is fixed once it is stored',
}

function reviewPreset(review: Review, engine: Engine, permissions: Permissions): Verdict {
  // What ends needs no approval: broken presets must be deletable, finalizers and all.
  if (
    isRecord(review.object) &&
    isRecord(review.object['metadata']) &&
    review.object['metadata']['deletionTimestamp']
  ) {
    return { allowed: true }
  }
  const parsed = parsePreset(review.object)
  if ('causes' in parsed) return refuse(parsed.causes)
  const { causes, warnings } = engine.checkPreset(parsed.preset, permissions)
  return causes.length > 0 ? refuse(causes, warnings) : { allowed: true, warnings }
}

/** The old object comes from etcd: what stands there is trusted to be a VM. */
function storedMachine(review: Review): VirtualMachine | undefined {
  return review.operation === 'UPDATE' && isRecord(review.oldObject)
    ? (review.oldObject as unknown as VirtualMachine)
    : undefined
}

const isCompleted = (machine: VirtualMachine): boolean =>
  decodeProvenance(machine.metadata.annotations?.[completedByAnnotation] ?? '') !== undefined

const refuse = (causes: readonly Cause[], warnings: readonly string[] = []): Verdict => ({
  allowed: false,
  causes,
  warnings,
})
