import type { Cause } from '../../api/cause.ts'
import { isRecord, nestingCauses } from '../../api/schema.ts'
import { isSpecUnchanged } from './authorize.ts'
import type { Engine } from './engine.ts'
import type { Permissions } from './permission.ts'
import type { AdmissionRequest, AdmissionResult } from './request.ts'

/** Accounts that may write what users must not. */
export interface Trust {
  readonly controllers: readonly string[]
}

export type Handle = (
  request: AdmissionRequest,
  engine: Engine,
  trust: Trust,
  permissions: Permissions,
) => AdmissionResult

/** Handles the requests for one kind. Pure except for the engine's caches. */
export interface KindHandler {
  /** `POST /mutate`. */
  readonly mutate: Handle
  /** `POST /validate`: the object as it will be stored, including later changes by other webhooks. */
  readonly validate: Handle
  /** Whether presets are applied, so that the request has to wait for those that are being stored; never if absent. */
  readonly appliesPresets?: (request: AdmissionRequest) => boolean
}

export const refuse = (causes: readonly Cause[], warnings: readonly string[] = []): AdmissionResult => ({
  allowed: false,
  causes,
  warnings,
})

/**
 * Whether this updates an object that is being deleted without changing its spec. Such an update is not checked:
 * finalizers must be removable even from a broken object. A changed spec is checked as always, because the object
 * counts until it is gone.
 */
export const isReleased = (request: AdmissionRequest): boolean => isBeingDeleted(request) && isSpecUnchanged(request)

/** Reads the stored object rather than the request, whose deletionTimestamp could be forged. */
export function isBeingDeleted({ oldObject }: AdmissionRequest): boolean {
  const metadata = isRecord(oldObject) ? oldObject['metadata'] : undefined
  return isRecord(metadata) && typeof metadata['deletionTimestamp'] === 'string'
}

/** The API server accepts 10,000 levels; nothing behind this check descends that far. */
export function unlessTooDeep(request: AdmissionRequest): AdmissionResult | undefined {
  // Stored without the webhooks, and must be removable all the same.
  if (isReleased(request)) return undefined
  const { object, oldObject } = request
  const causes = nestingIn(object)
  if (causes.length > 0) return refuse(causes)
  // An update that makes the object flat would be compared with it.
  const stored = nestingIn(oldObject)
  return stored.length === 0 ? undefined : refuse(stored.map((cause) => ({ ...cause, suggestion: deleteStored })))
}

const nestingIn = (object: unknown): Cause[] =>
  isRecord(object) ? Object.entries(object).flatMap(([key, value]) => nestingCauses(value, key)) : []

const deleteStored = 'delete the stored object, which was written without the webhooks'
