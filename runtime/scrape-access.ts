import { createHash } from 'node:crypto'
import { isRecord } from '../api/schema.ts'
import type { Clock } from './clock.ts'
import type { KubeClient } from './kube.ts'

/** `busy`: so many tokens are being reviewed that this one has to come again. */
export type ScrapeAccess = 'allowed' | 'unauthenticated' | 'forbidden' | 'busy'

/** A token that was revoked, or a right that was taken away, counts after this long at the latest. */
const freshMs = 60_000
/** An API server that is asked about every token that somebody makes up would be the victim. */
const maxAsking = 4
const maxKept = 100

/**
 * Whether a bearer token may read metrics, by the rules of the cluster: it authenticates at the API server (TokenReview), and its user may `get` the
 * non-resource URL `/metrics` (SubjectAccessReview). Answers are kept for a minute. Throws what the client throws.
 */
export function createScrapeAccess(
  kube: Pick<KubeClient, 'request'>,
  clock: Pick<Clock, 'monotonic'>,
): (token: string) => Promise<ScrapeAccess> {
  const kept = new Map<string, { readonly access: ScrapeAccess; readonly atMs: number }>()
  let asking = 0
  return async (token) => {
    const key = createHash('sha256').update(token).digest('base64')
    const known = kept.get(key)
    if (known !== undefined && clock.monotonic() - known.atMs < freshMs) return known.access
    if (asking >= maxAsking) return 'busy'
    asking++
    try {
      const access = await review(kube, token)
      kept.delete(key)
      kept.set(key, { access, atMs: clock.monotonic() })
      const [oldest] = kept.keys()
      if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest)
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

function statusOf(answer: unknown): Record<string, unknown> {
  return isRecord(answer) && isRecord(answer['status']) ? answer['status'] : {}
}
