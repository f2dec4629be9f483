import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../api/schema.ts'
import type { Clock } from '../runtime/clock.ts'
import { doorAudience } from '../runtime/door-api.ts'
import type { KubeClient } from '../runtime/kube.ts'

/** `busy`: too many tokens are being reviewed; the client must retry. */
export type DoorAccess = 'allowed' | 'forbidden' | 'busy'

/** A revoked token is refused after this time at the latest. */
const freshMs = 60_000
/** Otherwise a client with invented tokens could overload the API server through this process. */
const maxAsking = 4
const maxCached = 100

/**
 * Whether a bearer token may open the door: the API server authenticates it for the audience `virtset-handler` as the
 * account of the webhooks. Results are cached for a minute. Throws the errors of the client.
 */
export function createDoorAccess(
  kube: Pick<KubeClient, 'request'>,
  clock: Pick<Clock, 'monotonic'>,
  account: string,
): (token: string) => Promise<DoorAccess> {
  const results = new LRUCache<string, DoorAccess>({
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
      const access = await review(kube, token, account)
      results.set(key, access)
      return access
    } finally {
      asking--
    }
  }
}

async function review(kube: Pick<KubeClient, 'request'>, token: string, account: string): Promise<DoorAccess> {
  const response = await kube.request('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token, audiences: [doorAudience] },
  })
  const status = isRecord(response) && isRecord(response['status']) ? response['status'] : {}
  const { authenticated, audiences, user } = status
  // An authenticator that ignores audiences returns none.
  const isForDoor = Array.isArray(audiences) && audiences.includes(doorAudience)
  const isAccount = isRecord(user) && user['username'] === account
  return authenticated === true && isForDoor && isAccount ? 'allowed' : 'forbidden'
}
