import type { Cause } from '../../api/cause.ts'
import { statusCauses, type StatusCause } from '../../api/refusal.ts'
import { isRecord } from '../../api/schema.ts'
import { shorten } from '../../api/shorten.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { Patch } from './patch.ts'

/** The request of an AdmissionReview v1. */
export interface AdmissionRequest {
  readonly uid: string
  readonly kind: string
  /** Empty with `generateName`. */
  readonly name: string
  /** Empty for a cluster-scoped kind. */
  readonly namespace: string
  readonly operation: 'CREATE' | 'UPDATE'
  readonly user: User
  readonly isDryRun: boolean
  readonly object: unknown
  /** The stored object, with UPDATE. */
  readonly oldObject: unknown
  /** The request as received, for the presets' conditions. */
  readonly request: { readonly [key: string]: unknown }
  /** Called after each part of the work with its duration, if the request is traced. */
  readonly onPart?: (name: string, seconds: number) => void
}

export interface User {
  readonly username: string
  readonly groups: readonly string[]
  readonly uid?: string
  readonly extra?: { readonly [key: string]: unknown }
}

export type AdmissionResult =
  | {
      readonly allowed: true
      readonly patch?: Patch
      readonly warnings?: readonly string[]
      readonly audit?: Audit
      /** A new VM, as it will be stored. */
      readonly vm?: VirtualMachine
    }
  | {
      readonly allowed: false
      readonly causes: readonly Cause[]
      readonly warnings?: readonly string[]
      readonly audit?: Audit
    }

/** For the API server's audit log. */
export type Audit = Readonly<Record<string, string>>

/** The response in the form that the API server expects. */
export interface AdmissionReview {
  readonly apiVersion: 'admission.k8s.io/v1'
  readonly kind: 'AdmissionReview'
  readonly response: {
    readonly uid: string
    readonly allowed: boolean
    readonly status?: Status
    readonly patchType?: 'JSONPatch'
    readonly patch?: string
    readonly warnings?: readonly string[]
    readonly auditAnnotations?: Audit
  }
}

export interface Status {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly details?: {
    readonly group: string
    readonly kind: string
    readonly name: string
    readonly causes: readonly StatusCause[]
  }
}

/** `problem` states what is malformed; `uid` is empty if the request has none. */
export function parseAdmissionReview(
  body: unknown,
): { readonly request: AdmissionRequest } | { readonly uid: string; readonly problem: string } {
  if (!isRecord(body)) return { uid: '', problem: 'the body is not an object' }
  const { apiVersion, kind, request } = body
  if (kind !== 'AdmissionReview' || !isRecord(request))
    return { uid: '', problem: 'the body is not an AdmissionReview with a request' }
  const uid = text(request['uid'])
  if (apiVersion !== 'admission.k8s.io/v1') return { uid, problem: 'only admission.k8s.io/v1 is supported' }
  if (uid === '') return { uid, problem: 'the request has no uid' }
  const { operation, object, oldObject } = request
  if (operation !== 'CREATE' && operation !== 'UPDATE')
    return { uid, problem: 'only the operations CREATE and UPDATE are supported' }
  const kindName = isRecord(request['kind']) ? text(request['kind']['kind']) : ''
  return {
    request: {
      uid,
      kind: kindName,
      name: text(request['name']),
      namespace: text(request['namespace']),
      operation,
      user: readUser(request['userInfo']),
      isDryRun: request['dryRun'] === true,
      object,
      oldObject,
      request,
    },
  }
}

function readUser(value: unknown): User {
  if (!isRecord(value)) return { username: '', groups: [] }
  const { username, groups, uid, extra } = value
  return {
    username: text(username),
    groups: Array.isArray(groups) ? groups.map(text) : [],
    ...(typeof uid === 'string' ? { uid } : {}),
    ...(isRecord(extra) ? { extra } : {}),
  }
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

export function admissionReviewOf(request: AdmissionRequest, result: AdmissionResult): AdmissionReview {
  const warnings = warningsThatFit(result.warnings ?? [])
  const { audit = {} } = result
  const common = {
    uid: request.uid,
    ...(warnings.length > 0 ? { warnings } : {}),
    ...(Object.keys(audit).length > 0 ? { auditAnnotations: audit } : {}),
  }
  if (!result.allowed) return envelope({ ...common, allowed: false, status: refusal(request, result.causes) })
  const { patch } = result
  if (patch === undefined || patch.operations === 0) return envelope({ ...common, allowed: true })
  return envelope({ ...common, allowed: true, patchType: 'JSONPatch', patch: patch.encoded })
}

/** The response to a malformed review, or to one that failed. */
export const failedReview = (uid: string, status: Status): AdmissionReview => envelope({ uid, allowed: false, status })

const envelope = (response: AdmissionReview['response']): AdmissionReview => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  response,
})

/** The API server refuses longer names, but only after the webhooks have answered. */
const maxNameCharacters = 253

/** kubectl prints every cause only for 422 Invalid with `details`. */
function refusal(request: AdmissionRequest, given: readonly Cause[]): Status {
  const { kind, object } = request
  const metadata = isRecord(object) && isRecord(object['metadata']) ? object['metadata'] : {}
  const name = shorten(request.name || text(metadata['name']) || text(metadata['generateName']), maxNameCharacters)
  const causes = statusCauses(given)
  const [first] = causes
  const more = causes.length > 1 ? ` (and ${given.length - 1} more)` : ''
  const summary = first === undefined ? 'refused' : `${first.field}: ${first.message}${more}`
  return {
    code: 422,
    reason: 'Invalid',
    message: `${kind} ${JSON.stringify(name)} is invalid: ${summary}`,
    details: { group: groupOf(request), kind, name, causes },
  }
}

function groupOf({ request: { kind } }: AdmissionRequest): string {
  const group = isRecord(kind) ? kind['group'] : undefined
  return typeof group === 'string' ? group : 'virtset.io'
}

/**
 * The API server truncates a warning at 256 characters and drops warnings beyond a total of 4096 characters. A line of
 * 120 fits a terminal.
 */
const maxWarningCharacters = 119
const maxWarningsCharacters = 4096 - 64

function warningsThatFit(given: readonly string[]): string[] {
  const fitting: string[] = []
  let size = 0
  for (const warning of new Set(given)) {
    const short = shorten(warning, maxWarningCharacters)
    size += short.length
    if (size > maxWarningsCharacters) return [...fitting, `and ${new Set(given).size - fitting.length} more warnings`]
    fitting.push(short)
  }
  return fitting
}
