import { LRUCache } from 'lru-cache'
import { isRecord } from '../../api/schema.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { User } from './request.ts'

/** The access that a SubjectAccessReview checks. */
export interface Access {
  readonly verb: string
  /** virtset.io if absent. */
  readonly group?: string
  readonly resource: string
  readonly subresource?: string
  readonly name: string
  readonly namespace?: string
}

export interface Permissions {
  /** Ids of presets from which the user may exempt a VM. */
  readonly exempt: ReadonlySet<string>
  /** Whether the user may write a preset that grants host reach. */
  readonly mayGrantHost: boolean
}

export const noPermissions: Permissions = { exempt: new Set(), mayGrantHost: false }

/** The part of a Kubernetes client that this needs. */
interface AccessReviewClient {
  request(method: 'POST', path: string, body: object): Promise<unknown>
}

export type MayAccess = (user: User, access: Access) => Promise<boolean>

/** A changed permission takes effect after this time at the latest. */
const freshMs = 10_000
const maxCached = 1000

/**
 * Sends SubjectAccessReviews and caches their results. These are the only API requests during an admission request, and
 * few need one: those that exclude presets, and those that write a preset which grants host reach. Throws what the
 * client throws.
 */
export function createMayAccess(client: AccessReviewClient, clock: Clock): MayAccess {
  const results = new LRUCache<string, Promise<boolean>>({
    max: maxCached,
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  })
  return (user, access) => {
    // The key contains the whole user as it is sent, because an authorizer may decide by any part of it.
    const key = JSON.stringify([user, access])
    const cached = results.get(key)
    if (cached !== undefined) return cached
    const result = review(client, user, access)
    // The result expires counting from when the request was sent, because it may be that old. Until it arrives, callers
    // share the pending request.
    results.set(key, result, { start: clock.monotonic() })
    result.catch(() => {
      if (results.peek(key) === result) results.delete(key)
    })
    return result
  }
}

async function review(
  client: AccessReviewClient,
  { username, groups, extra, uid }: User,
  access: Access,
): Promise<boolean> {
  const response = await client.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user: username, groups, uid, extra, resourceAttributes: { group: 'virtset.io', version: '*', ...access } },
  })
  const status = isRecord(response) ? response['status'] : undefined
  return isRecord(status) && status['allowed'] === true
}
