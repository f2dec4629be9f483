import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../../api/schema.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createSharedWork } from '../../runtime/shared-work.ts'
import type { Requester, TenantRequests } from '../tenant-requests.ts'
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

/** @param requester for whom the review is sent, which can be another tenant than the user's */
export type MayAccess = (user: User, access: Access, requester: Requester) => Promise<boolean>

/** `MayAccess` for the user of one request. */
export type May = (access: Access) => Promise<boolean>

/** A changed permission takes effect after this time at the latest. */
const freshMs = 10_000
/** The reviews of two requests with the most exemptions. */
const maxCached = 128
/** Of those that have used a permission most recently. */
const maxTenants = 128

/**
 * Sends SubjectAccessReviews and caches their results. Few admission requests need one: those that exclude presets, and
 * those that write a preset which grants host reach. Each tenant has its own share of the cache, so that none can
 * displace the results of others. Throws what the client throws.
 */
export function createMayAccess(client: TenantRequests, clock: Clock): MayAccess {
  const tenants = new LRUCache<string, LRUCache<string, boolean>>({ max: maxTenants })
  const reviews = createSharedWork<boolean>()
  const createResults = () =>
    new LRUCache<string, boolean>({
      max: maxCached,
      ttl: freshMs,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() },
    })
  return async (user, access, { signal, ...requester }) => {
    const { tenant } = requester
    const results = tenants.get(tenant) ?? createResults()
    tenants.set(tenant, results)
    // The key stands for the whole user as it is sent, because an authorizer may decide by any part of it. It is a
    // digest, because a user can have many groups.
    const key = hash('sha256', JSON.stringify([user, access]), 'base64')
    const cached = results.get(key)
    if (cached !== undefined) return cached
    // The result expires counting from when the request could be sent, because it may be that old.
    const start = clock.monotonic()
    const send = async (aborted: AbortSignal): Promise<boolean> => {
      const isAllowed = await review(client, user, access, { ...requester, signal: aborted })
      results.set(key, isAllowed, { start })
      return isAllowed
    }
    // Until the result arrives, callers share the pending request.
    return reviews.run(`${key} ${tenant}`, send, signal)
  }
}

async function review(
  client: TenantRequests,
  { username, groups, extra, uid }: User,
  access: Access,
  requester: Requester,
): Promise<boolean> {
  const response = await client.request(requester, 'POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user: username, groups, uid, extra, resourceAttributes: { group: 'virtset.io', version: '*', ...access } },
  })
  const status = isRecord(response) ? response['status'] : undefined
  return isRecord(status) && status['allowed'] === true
}
