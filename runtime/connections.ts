import { LRUCache } from 'lru-cache'
import { createBuckets, type Rate } from './bucket.ts'
import type { Clock } from './clock.ts'

/** How many connections a server accepts. A connection is pending until its client is authenticated. */
export interface ConnectionLimits {
  /**
   * Pending connections, of all addresses and of one address without a proven client. The oldest is closed for the
   * newest: a well-behaved client is pending for milliseconds. If there are too many of all, it is the oldest of the
   * address with the most. Only this limits an address with a proven client: the API server opens hundreds at once when
   * many requests wait, and each request whose connection is closed fails.
   */
  readonly pending: number
  readonly pendingPerAddress: number
  /** New connections of an address without a proven client: a burst, and then a rate per second. */
  readonly burst: number
  readonly perSecond: number
  /** New connections of an address with a proven client; by default, any number. */
  readonly known?: Rate
  /** Connections of authenticated clients. */
  readonly proven: number
}

interface Arrival<Connection> {
  readonly isAccepted: boolean
  /** The connection to close in exchange. */
  readonly evicted?: Connection
}

/**
 * The open connections. An address and a port do not identify one: a client can open another one from the same port
 * before the end of the previous one was noticed.
 */
interface Connections<Connection> {
  arrive(connection: Connection, address: string): Arrival<Connection>
  prove(connection: Connection): void
  leave(connection: Connection): void
  /** Whether the address has a proven client, or is this pod's own. */
  isKnown(address: string): boolean
}

/** The number of remembered addresses; the oldest is forgotten first. */
const mostAddresses = 4096

/** The rate is not limited for a process in the same pod, or a port-forward: neither needs connections to do harm. */
const ownAddresses = ['127.0.0.1', '::ffff:127.0.0.1', '::1']

/** @typeParam Connection compared by identity */
export function createConnections<Connection>(
  limits: ConnectionLimits,
  clock: Pick<Clock, 'monotonic'>,
): Connections<Connection> {
  /** Their addresses, in the order of their arrival. */
  const pending = new Map<Connection, string>()
  const proven = new Set<Connection>()
  const provenAddresses = new LRUCache<string, true>({ max: mostAddresses })
  const bucketOf = createBuckets(limits, mostAddresses, clock)
  const knownBucketOf = limits.known && createBuckets(limits.known, mostAddresses, clock)
  const isKnown = (address: string) => ownAddresses.includes(address) || provenAddresses.has(address)

  const evict = (address: string): Connection | undefined => {
    const isOneTooMany = pending.size >= limits.pending
    if (!isOneTooMany && isKnown(address)) return undefined
    const byAddress = Map.groupBy(pending.keys(), (connection) => pending.get(connection))
    const own = isKnown(address) ? [] : (byAddress.get(address) ?? [])
    const tooMany = own.length >= limits.pendingPerAddress ? own : isOneTooMany ? longest([...byAddress.values()]) : []
    const [oldest] = tooMany
    if (oldest !== undefined) pending.delete(oldest)
    return oldest
  }

  return {
    arrive(connection, address) {
      if (proven.size >= limits.proven) return { isAccepted: false }
      const bucket = isKnown(address) ? knownBucketOf?.(address) : bucketOf(address)
      if (bucket?.takeIfAny() === false) return { isAccepted: false }
      const evicted = evict(address)
      pending.set(connection, address)
      return { isAccepted: true, ...(evicted === undefined ? {} : { evicted }) }
    },
    prove(connection) {
      const address = pending.get(connection)
      if (address === undefined) return
      pending.delete(connection)
      proven.add(connection)
      provenAddresses.set(address, true)
    },
    leave(connection) {
      pending.delete(connection)
      proven.delete(connection)
    },
    isKnown,
  }
}

/** The first one of equal length. */
const longest = <T>(lists: readonly (readonly T[])[]): readonly T[] =>
  lists.reduce((most, list) => (list.length > most.length ? list : most), [])
