import type { Cause } from '../api/cause.ts'
import { shorten, statusCauses, type StatusCause } from '../api/refusal.ts'
import { isRecord } from '../api/schema.ts'
import type { Patch } from './patch.ts'

/** What is asked of us: an AdmissionReview v1 with what we read of its request. */
export interface Review {
  readonly uid: string
  readonly kind: string
  /** As the request names it; empty with `generateName`. */
  readonly name: string
  /** Empty for a cluster-wide kind. */
  readonly namespace: string
  readonly operation: 'CREATE' | 'UPDATE'
  readonly user: User
  readonly isDryRun: boolean
  readonly object: unknown
  /** What is stored, with UPDATE. */
  readonly oldObject: unknown
  /** The request as it came, for the presets' conditions. */
  readonly request: { readonly [key: string]: unknown }
  /** Told of each part of the work, with the seconds that it took, where the review is traced. */
  readonly onPart?: (name: string, seconds: number) => void
}

export interface User {
  readonly username: string
  readonly groups: readonly string[]
  readonly uid?: string
  readonly extra?: { readonly [key: string]: unknown }
}

export type Verdict =
  | {
      readonly allowed: true
      readonly patch?: Patch
      readonly warnings?: readonly string[]
      readonly audit?: Audit
    }
  | {
      readonly allowed: false
      readonly causes: readonly Cause[]
      readonly warnings?: readonly string[]
      readonly audit?: Audit
    }

/** For the API server's audit log. */
export type Audit = Readonly<Record<string, string>>

/** The answer to a review, as the API server wants it. */
export interface ReviewAnswer {
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

/** The door. `problem` says what is not as the API server sends it; `uid` is '' where even that is missing. */
export function parseReview(
  body: unknown,
): { readonly review: Review } | { readonly uid: string; readonly problem: string } {
  if (!isRecord(body)) return { uid: '', problem: 'the body is no object' }
  const { apiVersion, kind, request } = body
  if (kind !== 'AdmissionReview' || !isRecord(request))
    return { uid: '', problem: 'the body is no AdmissionReview with a request' }
  const uid = text(request['uid'])
  if (apiVersion !== 'admission.k8s.io/v1') return { uid, problem: 'only admission.k8s.io/v1 is spoken here' }
  if (uid === '') return { uid, problem: 'the request has no uid' }
  const { operation, object, oldObject } = request
  if (operation !== 'CREATE' && operation !== 'UPDATE')
    return { uid, problem: 'only CREATE and UPDATE are reviewed here' }
  const kindName = isRecord(request['kind']) ? text(request['kind']['kind']) : ''
  return {
    review: {
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

export function answerReview(review: Review, verdict: Verdict): ReviewAnswer {
  const warnings = warningsThatFit(verdict.warnings ?? [])
  const { audit = {} } = verdict
  const common = {
    uid: review.uid,
    ...(warnings.length > 0 ? { warnings } : {}),
    ...(Object.keys(audit).length > 0 ? { auditAnnotations: audit } : {}),
  }
  if (!verdict.allowed) return envelope({ ...common, allowed: false, status: refusal(review, verdict.causes) })
  const { patch } = verdict
  if (patch === undefined || patch.operations === 0) return envelope({ ...common, allowed: true })
  return envelope({ ...common, allowed: true, patchType: 'JSONPatch', patch: patch.encoded })
}

/** The answer to what is no review, or could not be reviewed: well-formed all the same. */
export const answerFailure = (uid: string, status: Status): ReviewAnswer => envelope({ uid, allowed: false, status })

const envelope = (response: ReviewAnswer['response']): ReviewAnswer => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  response,
})

/** The only form in which kubectl prints every cause: 422 Invalid with `details`. */
function refusal(review: Review, given: readonly Cause[]): Status {
  const { kind, object } = review
  const metadata = isRecord(object) && isRecord(object['metadata']) ? object['metadata'] : {}
  const name = review.name || text(metadata['name']) || text(metadata['generateName'])
  const causes = statusCauses(given)
  const [first] = causes
  const more = causes.length > 1 ? ` (and ${given.length - 1} more)` : ''
  const summary = first === undefined ? 'refused' : `${first.field}: ${first.message}${more}`
  return {
    code: 422,
    reason: 'Invalid',
    message: `${kind} ${JSON.stringify(name)} is invalid: ${summary}`,
    details: { group: 'virtset.io', kind, name, causes },
  }
}

/** The API server cuts a warning at 256 characters, drops all after 4096 in sum; kubectl reads well up to 120. */
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
