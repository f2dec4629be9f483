import { LRUCache } from 'lru-cache'
import { createBucket, type Bucket, type Rate } from '../../runtime/bucket.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import type { User } from '../admission/request.ts'
import { tenantOf } from './tenant.ts'

/** A user is refused as often as it asks. The kubelet keeps 50 MiB of a log by default. */
const lines: Rate = { perSecond: 0.1, burst: 16 }
const mostUsers = 4096

interface Logged {
  readonly bucket: Bucket
  /** Refusals since the last one that was logged. */
  omitted: number
}

/**
 * Logs refused sessions, up to a rate for each user, so that none can rotate the records of sessions out of the log. The
 * next line counts those that were left out.
 */
export function createRefusalLog(
  log: Pick<Logger, 'info'>,
  clock: Pick<Clock, 'monotonic'>,
): (user: User, line: object) => void {
  const loggedOf = new LRUCache<string, Logged>({ max: mostUsers })
  return (user, line) => {
    const key = tenantOf(user)
    const logged = loggedOf.get(key) ?? { bucket: createBucket(lines.perSecond, lines.burst, clock), omitted: 0 }
    loggedOf.set(key, logged)
    if (!logged.bucket.takeIfAny()) return void logged.omitted++
    const { omitted } = logged
    logged.omitted = 0
    log.info({ ...line, ...(omitted === 0 ? {} : { omitted }) }, 'a session was refused')
  }
}
