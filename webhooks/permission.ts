import type { Clock } from '../runtime/clock.ts'
import type { User } from './review.ts'

/** An access of which the API server says whether a user may. */
export interface Access {
  readonly verb: string
  /** virtset.io where absent. */
  readonly group?: string
  readonly resource: string
  readonly subresource?: string
  readonly name: string
  readonly namespace?: string
}

export interface Permissions {
  /** Ids of presets that the user may be exempt from. */
  readonly exempt: ReadonlySet<string>
  /** Whether the user may write a preset that grants what reaches the host. */
  readonly mayGrantHost: boolean
}

export const noPermissions: Permissions = { exempt: new Set(), mayGrantHost: false }

/** The part of a client that is needed. */
export interface Asker {
  request(method: 'POST', path: string, body: object): Promise<unknown>
}

export type MayAccess = (user: User, access: Access) => Promise<boolean>

/** A right that was given or taken away counts after this long at the latest. */
const freshMs = 10_000
/** Answers that are kept; beyond that the oldest goes. */
const maxKept = 1000

/**
 * Asks the API server by SubjectAccessReview, and keeps the answers for a moment. These are the only questions on the path of a review,
 * asked only for what few reviews have: the wish to be exempt from a preset, and the grant of a host-reaching field.
 * What is thrown is the client's.
 */
export function createMayAccess(asker: Asker, clock: Clock): MayAccess {
  const kept = new Map<string, { readonly isAllowed: boolean; readonly askedMs: number }>()
  return async (user, access) => {
    const key = JSON.stringify([user.username, user.groups, user.extra, access])
    const known = kept.get(key)
    if (known !== undefined && clock.monotonic() - known.askedMs < freshMs) return known.isAllowed
    const askedMs = clock.monotonic()
    const isAllowed = await ask(asker, user, access)
    kept.delete(key)
    kept.set(key, { isAllowed, askedMs })
    const [oldest] = kept.keys()
    if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest)
    return isAllowed
  }
}

async function ask(asker: Asker, { username, groups, extra, uid }: User, access: Access): Promise<boolean> {
  const answer = await asker.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user: username, groups, uid, extra, resourceAttributes: { group: 'virtset.io', version: '*', ...access } },
  })
  const status = typeof answer === 'object' && answer !== null && 'status' in answer ? answer.status : undefined
  return typeof status === 'object' && status !== null && 'allowed' in status && status.allowed === true
}
