/** How many connections a server accepts. A connection is pending until its client has proven who it is. */
export interface ConnectionLimits {
  /** Pending connections, of all addresses and of one address. The oldest is closed for the newest: an honest client is pending for milliseconds. */
  readonly pending: number
  readonly pendingPerAddress: number
  /** New connections of an address that has never proven anything: so many at once, and so many per second after that. */
  readonly burst: number
  readonly perSecond: number
  /** Connections of clients that have proven who they are. */
  readonly proven: number
}

export interface Arrival {
  readonly isAccepted: boolean
  /** The connection to close in exchange. */
  readonly evicted?: string
}

/** Which connections are open, by names that the caller chooses. */
export interface Connections {
  arrive(connection: string, address: string, nowMs: number): Arrival
  prove(connection: string): void
  leave(connection: string): void
}

/** So many addresses are remembered; the one that has been known longest is forgotten first. */
const mostAddresses = 4096

/** What runs in the process's own pod, e.g. a port-forward, needs no connections to do harm. */
const ownAddresses = ['127.0.0.1', '::ffff:127.0.0.1', '::1']

export function createConnections(limits: ConnectionLimits): Connections {
  /** In the order of their arrival. */
  const pending = new Map<string, string>()
  const proven = new Map<string, string>()
  const provenAddresses = new Map(ownAddresses.map((address) => [address, true]))
  const buckets = new Map<string, { readonly tokens: number; readonly atMs: number }>()

  /** Whether the address may open one more connection now. */
  const takeToken = (address: string, nowMs: number): boolean => {
    const { tokens, atMs } = buckets.get(address) ?? { tokens: limits.burst, atMs: nowMs }
    const refilled = Math.min(limits.burst, tokens + ((nowMs - atMs) / 1000) * limits.perSecond)
    remember(buckets, address, { tokens: refilled < 1 ? refilled : refilled - 1, atMs: nowMs })
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
      if (!provenAddresses.has(address) && !takeToken(address, nowMs)) return { isAccepted: false }
      const evicted = evict(address)
      pending.set(connection, address)
      return { isAccepted: true, ...(evicted === undefined ? {} : { evicted }) }
    },
    prove(connection) {
      const address = pending.get(connection)
      if (address === undefined) return
      pending.delete(connection)
      proven.set(connection, address)
      remember(provenAddresses, address, true)
    },
    leave(connection) {
      pending.delete(connection)
      proven.delete(connection)
    },
  }
}

function remember<V>(map: Map<string, V>, key: string, value: V): void {
  const [oldest] = map.keys()
  if (!map.has(key) && map.size >= mostAddresses && oldest !== undefined) map.delete(oldest)
  map.set(key, value)
}
