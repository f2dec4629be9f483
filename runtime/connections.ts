import { LRUCache } from 'lru-cache'

/** How many connections a server accepts. A connection is pending until its client is authenticated. */
export interface ConnectionLimits {
  /**
   * Pending connections, of all addresses and of one address. The oldest is closed for the newest: a well-behaved
   * client is pending for milliseconds.
   */
  readonly pending: number
  readonly pendingPerAddress: number
  /** New connections of an address without a proven client: a burst, and then a rate per second. */
  readonly burst: number
  readonly perSecond: number
  /** Connections of authenticated clients. */
  readonly proven: number
}

interface Arrival {
  readonly isAccepted: boolean
  /** The connection to close in exchange. */
  readonly evicted?: string
}

/** The open connections, by keys that the caller chooses. */
interface Connections {
  arrive(connection: string, address: string, nowMs: number): Arrival
  prove(connection: string): void
  leave(connection: string): void
}

/** The number of remembered addresses; the oldest is forgotten first. */
const mostAddresses = 4096

/** A process in the same pod, such as a port-forward, could do harm without connections too. */
const ownAddresses = ['127.0.0.1', '::ffff:127.0.0.1', '::1']

export function createConnections(limits: ConnectionLimits): Connections {
  /** In the order of their arrival. */
  const pending = new Map<string, string>()
  const proven = new Map<string, string>()
  const provenAddresses = new LRUCache<string, true>({ max: mostAddresses })
  const buckets = new LRUCache<string, { readonly tokens: number; readonly atMs: number }>({ max: mostAddresses })

  /** Whether the address may open one more connection now. */
  const takeToken = (address: string, nowMs: number): boolean => {
    const { tokens, atMs } = buckets.get(address) ?? { tokens: limits.burst, atMs: nowMs }
    const refilled = Math.min(limits.burst, tokens + ((nowMs - atMs) / 1000) * limits.perSecond)
    buckets.set(address, { tokens: refilled < 1 ? refilled : refilled - 1, atMs: nowMs })
    return refilled >= 1
  }

  const evict = (address: string): string | undefined => {
    const own = [...pending].filter(([, of]) => of === address).map(([connection]) => connection)
    const isFull = own.length >= limits.pendingPerAddress ? own : pending.size >= limits.pending ? pending.keys() : []
    const [oldest] = isFull
    if (oldest !== undefined) pending.delete(oldest)
    return oldest
  }

  return {
    arrive(connection, address, nowMs) {
      if (proven.size >= limits.proven) return { isAccepted: false }
      const isProven = ownAddresses.includes(address) || provenAddresses.has(address)
      if (!isProven && !takeToken(address, nowMs)) return { isAccepted: false }
      const evicted = evict(address)
      pending.set(connection, address)
      return { isAccepted: true, ...(evicted === undefined ? {} : { evicted }) }
    },
    prove(connection) {
      const address = pending.get(connection)
      if (address === undefined) return
      pending.delete(connection)
      proven.set(connection, address)
      provenAddresses.set(address, true)
    },
    leave(connection) {
      pending.delete(connection)
      proven.delete(connection)
    },
  }
}
