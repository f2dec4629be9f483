import type { Cause } from '../../api/cause.ts'
import { isRecord } from '../../api/schema.ts'
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

/** How the requests for one kind are handled. Pure but for the engine's caches. */
export interface KindHandler {
  /** `POST /mutate`. */
  readonly mutate: Handle
  /** `POST /validate`: the object as it will be stored, whatever other webhooks changed since. */
  readonly validate: Handle
  /** The request that decides which permissions the user needs; the request itself where absent. */
  readonly authorize?: (request: AdmissionRequest) => AdmissionRequest
}

export const refuse = (causes: readonly Cause[], warnings: readonly string[] = []): AdmissionResult => ({
  allowed: false,
  causes,
  warnings,
})

/**
 * Whether an update of an object that is being deleted leaves its spec as it is. Such an update is not checked:
 * finalizers must be removable, however broken the object is. Until it is gone an object counts as any other, so that a
 * new spec is checked as always.
 */
export const isReleased = (request: AdmissionRequest): boolean => isBeingDeleted(request) && isSpecUnchanged(request)

/** The stored object decides, not the request: deletionTimestamp there cannot be forged. */
export function isBeingDeleted({ oldObject }: AdmissionRequest): boolean {
  const metadata = isRecord(oldObject) ? oldObject['metadata'] : undefined
  return isRecord(metadata) && typeof metadata['deletionTimestamp'] === 'string'
}
