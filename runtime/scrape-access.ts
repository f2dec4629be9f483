import { isRecord } from '../api/schema.ts'
import type { Clock } from './clock.ts'
import type { KubeClient } from './kube.ts'
import { createTokenAccess, type Reviewed } from './token-access.ts'

type Access = 'allowed' | 'unauthenticated' | 'forbidden'
export type ScrapeAccess = Reviewed<Access>

/**
 * Whether a bearer token may read metrics, by the rules of the cluster: it authenticates at the API server
 * (TokenReview), and its user may `get` the non-resource URL `/metrics` (SubjectAccessReview). Results are cached for a
 * minute. Throws the errors of the client.
 */
export const createScrapeAccess = (
  kube: Pick<KubeClient, 'request'>,
  clock: Pick<Clock, 'monotonic' | 'after'>,
): ((token: string, address: string) => Promise<ScrapeAccess>) =>
  createTokenAccess((token) => review(kube, token), clock)

async function review(kube: Pick<KubeClient, 'request'>, token: string): Promise<Access> {
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
