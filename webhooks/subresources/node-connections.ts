import { connect as connectPlain, type Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { createBucket } from '../../runtime/bucket.ts'
import type { Clock } from '../../runtime/clock.ts'
import { MeteredSocket } from '../../runtime/metered-socket.ts'
import { createTimeBudget } from '../../runtime/time-budget.ts'

/** The handshake of a handler has a small certificate. */
const most = { handshakeBytes: 8 * 1024, pieceBytes: 16 * 1024 }

/** The milliseconds that handshakes of nodes take. */
const budgetMs = { perSecond: 125, burst: 250 }

/**
 * What arrives beneath TLS in addition to what it delivers: 22 bytes of each record of TLS 1.3 that delivers something,
 * whenever it arrives, one record that is not complete yet, and few messages that deliver nothing.
 */
const undelivered = { perSecond: 1024, burst: 8 * 1024, ofRecord: 22, recordBytes: 17 * 1024 }

const distrustMs = 60_000

export interface NodeConnections {
  /** What the node did within the last minute, for which no connection with it is opened. */
  offenseOf(node: string): string | undefined
  open(node: string, to: { readonly host: string; readonly port: number }): TLSSocket
}

/**
 * Connections with handlers, whose certificates are not verified here. A node under an attacker's control can make TLS
 * expensive: with certificates, or with messages that deliver nothing, such as KeyUpdate: 27 bytes take 6 µs, and no
 * event tells of them. Its connections are closed then, all of them, because it would have more.
 */
export function createNodeConnections(clock: Pick<Clock, 'after' | 'monotonic'>): NodeConnections {
  const budget = createTimeBudget(budgetMs, clock)
  const open = new Map<TLSSocket, string>()
  const offenses = new LRUCache<string, { readonly untilMs: number; readonly problem: string }>({ max: 1024 })
  const offend = (node: string, problem: string) => {
    offenses.set(node, { untilMs: clock.monotonic() + distrustMs, problem })
    for (const [socket, of] of open) if (of === node) socket.destroy(new Error(problem))
  }

  /** Gives turns to the handshake. */
  const limitHandshake = (metered: MeteredSocket, node: string) => {
    let leave = () => {}
    metered.limit(most.handshakeBytes, (bytes, deliver) => {
      const sum = metered.delivered + bytes
      if (sum > most.handshakeBytes) return offend(node, `its handshake has more than ${most.handshakeBytes} bytes`)
      leave = budget.add(node, bytes, metered.delivered, deliver)
      return undefined
    })
    metered.once('close', () => leave())
  }

  /** To be called after what joins records, and before what arrives is delivered. */
  const limitUndelivered = (metered: MeteredSocket, socket: TLSSocket, node: string) => {
    const bucket = createBucket(undelivered.perSecond, undelivered.burst, clock)
    let allowed = metered.delivered + undelivered.recordBytes
    let records = 0
    const push = socket.push.bind(socket)
    socket.push = (chunk: Buffer | null) => {
      if (chunk !== null && chunk.length > 0) records++
      return push(chunk)
    }
    metered.limit(most.pieceBytes, (_, deliver) => {
      deliver()
      const { bytesRead } = socket
      const rest = metered.delivered - bytesRead - records * undelivered.ofRecord
      const isTooMuch = rest > allowed && bucket.take(rest - allowed) > 0
      allowed = Math.min(Math.max(allowed, rest), rest + undelivered.recordBytes)
      if (isTooMuch) offend(node, `it sent ${metered.delivered} bytes that contained ${bytesRead}`)
    })
  }

  return {
    offenseOf(node) {
      const found = offenses.get(node)
      return found !== undefined && found.untilMs > clock.monotonic() ? found.problem : undefined
    },
    open(node, to) {
      const transport: Socket = connectPlain(to).setNoDelay(true)
      const metered = new MeteredSocket(transport)
      const socket = connect({ ...to, socket: metered, rejectUnauthorized: false, minVersion: 'TLSv1.3' })
      open.set(socket, node)
      limitHandshake(metered, node)
      socket.once('secureConnect', () => limitUndelivered(metered, socket, node))
      socket.once('close', () => open.delete(socket))
      return socket
    },
  }
}
