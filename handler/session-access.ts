import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'
import { sessionAudience } from '../runtime/handler-sessions.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { createTokenAccess, type Reviewed } from '../runtime/token-access.ts'

type Access = 'allowed' | 'forbidden'
export type SessionAccess = Reviewed<Access>

/**
 * Whether a bearer token may open sessions: the API server authenticates it for the audience `virtset-handler` as the
 * account of the webhooks. Results are cached for a minute. Throws the errors of the client.
 */
export const createSessionAccess = (
  kube: Pick<KubeClient, 'request'>,
  clock: Pick<Clock, 'monotonic' | 'after'>,
  account: string,
): ((token: string, address: string) => Promise<SessionAccess>) =>
  createTokenAccess((token) => review(kube, token, account), clock)

async function review(kube: Pick<KubeClient, 'request'>, token: string, account: string): Promise<Access> {
  const response = await kube.request('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token, audiences: [sessionAudience] },
  })
  const status = isRecord(response) && isRecord(response['status']) ? response['status'] : {}
  const { authenticated, audiences, user } = status
  // An authenticator that ignores audiences returns none.
  const isForSessions = Array.isArray(audiences) && audiences.includes(sessionAudience)
  const isAccount = isRecord(user) && user['username'] === account
  return authenticated === true && isForSessions && isAccount ? 'allowed' : 'forbidden'
}
