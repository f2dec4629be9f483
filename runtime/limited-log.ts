import { LRUCache } from 'lru-cache'
import { createBucket, type Bucket, type Rate } from './bucket.ts'
import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'

/** A tenant causes lines as often as it likes. The kubelet keeps 50 MiB of a log by default. */
const lines: Rate = { perSecond: 0.1, burst: 16 }
const mostTenants = 4096

interface Logged {
  readonly bucket: Bucket
  /** Lines since the last one that was logged. */
  omitted: number
}

/** @param tenant whoever causes the line */
export type LimitedLog = (tenant: string, line: object, message: string, level?: 'info' | 'warn' | 'error') => void

/**
 * Logs what tenants cause, up to a rate for each of them, so that none can rotate the lines of others out of the log. The
 * next line counts those that were left out.
 */
export function createLimitedLog(
  log: Pick<Logger, 'info' | 'warn' | 'error'>,
  clock: Pick<Clock, 'monotonic'>,
): LimitedLog {
  const loggedOf = new LRUCache<string, Logged>({ max: mostTenants })
  return (tenant, line, message, level = 'info') => {
    const logged = loggedOf.get(tenant) ?? { bucket: createBucket(lines.perSecond, lines.burst, clock), omitted: 0 }
    loggedOf.set(tenant, logged)
    if (!logged.bucket.takeIfAny()) return void logged.omitted++
    const { omitted } = logged
    logged.omitted = 0
    log[level]({ ...line, ...(omitted === 0 ? {} : { omitted }) }, message)
  }
}
