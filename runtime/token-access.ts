import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createBuckets } from './bucket.ts'
import type { Clock } from './clock.ts'
import { createLanes } from './lanes.ts'

/** `busy`: too many tokens are being reviewed; the client must retry. */
export type Reviewed<T> = T | 'busy'

/** A revoked token or permission takes effect after this time at the latest. */
const freshMs = 60_000
/** Separate, so that invented tokens do not displace those of real clients. */
const mostCached = { allowed: 100, refused: 1000 }
/** Reviews at once, in total and for one address. Addresses take turns. */
const lanes = { all: 4, perNamespace: 2 }
/** Reviews of an address: a burst, and then a rate per second. A real client needs one per minute. */
const reviewsOfAddress = { burst: 16, perSecond: 2 }
const mostAddresses = 1024
/** How long a token waits for its review to begin. */
const waitMs = 5000

/**
 * Reviews bearer tokens and caches the results, so that a client with invented tokens can overload neither the API
 * server through this process, nor delay the clients of other addresses by more than a few reviews.
 * @param review asks the API server; its errors are thrown and not cached
 */
export function createTokenAccess<T extends string>(
  review: (token: string) => Promise<T>,
  clock: Pick<Clock, 'monotonic' | 'after'>,
): (token: string, address: string) => Promise<Reviewed<T | 'allowed'>> {
  type Result = T | 'allowed'
  const cacheOf = (max: number) =>
    new LRUCache<string, Result>({ max, ttl: freshMs, ttlResolution: 0, perf: { now: () => clock.monotonic() } })
  const allowed = cacheOf(mostCached.allowed)
  const refused = cacheOf(mostCached.refused)
  const asking = new Map<string, Promise<Reviewed<Result>>>()
  const inTurn = createLanes(lanes)
  const bucketOf = createBuckets(reviewsOfAddress, mostAddresses, clock)

  const ask = async (token: string, key: string, address: string): Promise<Reviewed<Result>> => {
    const waiting = new AbortController()
    const late = new Error('the review did not begin in time')
    const cancel = clock.after(waitMs, () => waiting.abort(late))
    try {
      const result = await inTurn.run(
        address,
        () => {
          cancel()
          return review(token)
        },
        waiting.signal,
      )
      const cache = result === 'allowed' ? allowed : refused
      cache.set(key, result)
      return result
    } catch (error) {
      if (error === late) return 'busy'
      throw error
    } finally {
      cancel()
      asking.delete(key)
    }
  }

  return async (token, address) => {
    const key = createHash('sha256').update(token).digest('base64')
    const cached = allowed.get(key) ?? refused.get(key)
    if (cached !== undefined) return cached
    const joined = asking.get(key)
    if (joined !== undefined) return joined
    if (!bucketOf(address).takeIfAny()) return 'busy'
    const asked = ask(token, key, address)
    asking.set(key, asked)
    return asked
  }
}
