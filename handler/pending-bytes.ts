import { InvalidLauncherResponse } from '../runtime/launcher-api.ts'

/**
 * The memory of unfinished exchanges with launchers, over all launchers of the node. When they exceed the limit
 * together, the largest exchange of the tenant that holds the most is ended: a tenant cannot cause the end of an
 * exchange of a tenant that holds less.
 */
interface PendingBytes {
  /** `end` is called at most once, and never after `release`. */
  hold(tenant: string, end: (reason: InvalidLauncherResponse) => void): HeldBytes
}

export interface HeldBytes {
  grow(bytes: number): void
  release(): void
}

interface Exchange {
  readonly tenant: string
  readonly end: (reason: InvalidLauncherResponse) => void
  bytes: number
}

export function createPendingBytes(limitBytes: number): PendingBytes {
  const exchanges = new Set<Exchange>()
  let totalBytes = 0

  const release = (exchange: Exchange) => {
    if (exchanges.delete(exchange)) totalBytes -= exchange.bytes
  }

  const endLargest = () => {
    const byTenant = Map.groupBy(exchanges, ({ tenant }) => tenant)
    const most = largest([...byTenant.values()], (held) => held.reduce((sum, { bytes }) => sum + bytes, 0))
    const worst = largest(most ?? [], ({ bytes }) => bytes)
    if (worst === undefined) return
    release(worst)
    worst.end(new InvalidLauncherResponse(`${worst.bytes} bytes of its response were pending, too many for this node`))
  }

  return {
    hold(tenant, end) {
      const exchange: Exchange = { tenant, end, bytes: 0 }
      exchanges.add(exchange)
      return {
        grow(bytes) {
          if (!exchanges.has(exchange)) return
          exchange.bytes += bytes
          totalBytes += bytes
          while (totalBytes > limitBytes) endLargest()
        },
        release: () => release(exchange),
      }
    },
  }
}

function largest<T>(of: readonly T[], size: (one: T) => number): T | undefined {
  return of.toSorted((one, other) => size(other) - size(one))[0]
}
