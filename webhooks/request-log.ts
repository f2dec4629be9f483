import { loggedCauses } from '../api/causes.ts'
import type { FastifyRequest } from 'fastify'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { Logger } from '../runtime/log.ts'
import type { AdmissionRequest, AdmissionResult } from './admission/request.ts'
import { tenantOf } from './subresources/tenant.ts'
import { tenantOfRequest } from './tenant-requests.ts'

/** Slower requests are logged at info. */
const slowMs = 100

/** The object and the outcome for a trace, without the spec, as in the log. */
export const spanAttributes = (request: AdmissionRequest, result: AdmissionResult | undefined) => ({
  'virtset.request.uid': request.uid,
  'virtset.object': objectOf(request),
  'virtset.operation': request.operation,
  'virtset.outcome': result === undefined ? 'timeout' : result.allowed ? 'allowed' : 'refused',
  ...(result?.allowed === false ? { 'virtset.rules': result.causes.map(({ rule }) => rule).join(' ') } : {}),
})

const objectOf = ({ kind, namespace, name }: AdmissionRequest): string =>
  `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`

/**
 * Whose lines have a limit together. The controller sends the requests of many namespaces, and those of one must not
 * prevent the lines of others.
 */
export const loggedFor = (request: AdmissionRequest): string => `${tenantOfRequest(request)}/${tenantOf(request.user)}`

/**
 * Logs refusals and slow requests at info, up to a rate for each user, and others at debug; never the spec, which may
 * contain secrets.
 */
export function logResult(
  { log, limitedLog }: { readonly log: Logger; readonly limitedLog: LimitedLog },
  path: string,
  { headers: { traceparent } }: FastifyRequest,
  request: AdmissionRequest,
  result: AdmissionResult,
  durationMs: number,
): void {
  const isNotable = !result.allowed || durationMs > slowMs
  if (!log.isLevelEnabled(isNotable ? 'info' : 'debug')) return
  const { uid, operation, isDryRun } = request
  const line = {
    path,
    uid,
    object: objectOf(request),
    operation,
    ...(isDryRun ? { isDryRun } : {}),
    durationMs: Math.round(durationMs * 100) / 100,
    ...(result.allowed ? { operations: result.patch?.operations ?? 0 } : { causes: loggedCauses(result.causes) }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
  if (isNotable) limitedLog(loggedFor(request), line, result.allowed ? 'slow admission request' : 'refused')
  else log.debug(line, 'allowed')
}
