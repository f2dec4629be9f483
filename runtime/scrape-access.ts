import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../api/schema.ts'
import type { Clock } from './clock.ts'
import type { KubeClient } from './kube.ts'

/** `busy`: too many tokens are being reviewed; the client must retry. */
export type ScrapeAccess = 'allowed' | 'unauthenticated' | 'forbidden' | 'busy'

/** A revoked token or permission takes effect after this time at the latest. */
const freshMs = 60_000
/** Otherwise a client with invented tokens could overload the API server through this process. */
const maxAsking = 4
const maxCached = 100

/**
 * Whether a bearer token may read metrics, by the rules of the cluster: it authenticates at the API server
 * (TokenReview), and its user may `get` the non-resource URL `/metrics` (SubjectAccessReview). Results are cached for a
 * minute. Throws the errors of the client.
 */
export function createScrapeAccess(
  kube: Pick<KubeClient, 'request'>,
  clock: Pick<Clock, 'monotonic'>,
): (token: string) => Promise<ScrapeAccess> {
  const results = new LRUCache<string, ScrapeAccess>({
    max: maxCached,
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  })
  let asking = 0
  return async (token) => {
    const key = createHash('sha256').update(token).digest('base64')
    const cached = results.get(key)
    if (cached !== undefined) return cached
    if (asking >= maxAsking) return 'busy'
    asking++
    try {
      const access = await review(kube, token)
      results.set(key, access)
      return access
    } finally {
      asking--
    }
  }
}

async function review(kube: Pick<KubeClient, 'request'>, token: string): Promise<ScrapeAccess> {
  const authentication = await kube.request('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token },
  })
  const { authenticated, user } = statusOf(authentication)
  if (authenticated !== true || !isRecord(user)) return 'unauthenticated'
  const { username, groups, uid, extra } = user
  const authorization = await kube.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user: username, groups, uid, extra, nonResourceAttributes: { path: '/metrics', verb: 'get' } },
  })
  return statusOf(authorization)['allowed'] === true ? 'allowed' : 'forbidden'
}

function statusOf(review: unknown): Record<string, unknown> {
  return isRecord(review) && isRecord(review['status']) ? review['status'] : {}
}
