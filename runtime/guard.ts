import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import { Server as TlsServer, TLSSocket } from 'node:tls'
import type { ArrivalDeadlines } from './arrival-deadline.ts'
import type { Rate } from './bucket.ts'
import type { Clock } from './clock.ts'
import { createConnections } from './connections.ts'
import type { ConnectionLimits } from './connections.ts'
import { createFairLimit, type Held } from './fair-limit.ts'
import { MeteredSocket } from './metered-socket.ts'
import { createTimeBudget, type ThreadTimes } from './time-budget.ts'

/**
 * More than what proves a client: a handshake with its certificates, or one without and the head of a request, which has
 * at most 16 KiB. OpenSSL verifies a chain of certificates before it looks for their authority, which takes up to 5 ms
 * for each KiB, and reads messages that deliver nothing, such as KeyUpdate: 27 bytes take 6 µs.
 */
const mostPendingBytes = { handshake: 16 * 1024, caller: 24 * 1024, nothing: 4096 }

/** A handshake with a certificate and its issuer usually fits into one. */
const pieceBytes = 4096

/**
 * The milliseconds that clients that are not proven take, mostly for TLS, of addresses without and with one that is:
 * neither do strangers stop the latter, nor does a client that shares their address stop the process.
 */
const budgets = { strangers: { perSecond: 125, burst: 250 }, known: { perSecond: 250, burst: 500 } }

/**
 * What was read of clients that are not proven and waits for its turn, up to 64 KiB of each. An honest one has sent its
 * first request behind its handshake.
 */
const mostWaitingBytes = 16 * 1024 * 1024

/** Why a connection was closed before a request was read. */
export type ConnectionRejection = 'overloaded' | 'deadline' | 'unauthenticated' | 'malformed'

export interface GuardOptions {
  readonly limits: ConnectionLimits
  /**
   * What authenticates a client: the handshake of a TLS server with its certificate, or the caller by a request. Nothing
   * does where all clients are strangers: their connections are pending until they end.
   */
  readonly provenBy: 'handshake' | 'caller' | 'nothing'
  /** How long a connection may be pending. */
  readonly deadlines: ArrivalDeadlines
  readonly clock: Pick<Clock, 'after' | 'monotonic'>
  readonly rejected: (reason: ConnectionRejection) => void
  /**
   * What arrives of clients that are proven takes turns as well, until the caller trusts it: a budget in
   * milliseconds, and the most bytes that the head of a request can have.
   */
  readonly requests?: { readonly budget: Rate; readonly mostHeadBytes: number }
  /** By default, of this thread. */
  readonly times?: ThreadTimes
}

/** What the caller decides about connections. */
interface Guard {
  /** The client was authenticated by the caller. */
  readonly prove: (socket: Socket) => void
  /** Delivers at once what arrives from now on. */
  readonly trust: (socket: Socket) => void
  /** Whether the address has a client that was authenticated, or is this pod's own. */
  readonly isKnown: (address: string) => boolean
  /** The socket that the server has accepted, of one that it passes to requests. */
  readonly acceptedOf: (socket: Socket) => Socket
}

/**
 * Limits the connections of a server, and closes those that are pending for too long. Call it before the server
 * listens. A connection is pending until its client is authenticated.
 */
export function guardConnections(
  server: Server,
  { limits, provenBy, deadlines, clock, rejected, requests, times }: GuardOptions,
): Guard {
  const connections = createConnections<Socket>(limits, clock)
  const strangers = createTimeBudget(budgets.strangers, clock, times)
  const known = createTimeBudget(budgets.known, clock, times)
  const memory = createFairLimit(mostWaitingBytes)
  /** What ends the deadlines of those that are pending. */
  const cancelling = new Map<Socket, () => void>()
  /** Those beneath the sockets of TLS. */
  const transports = new WeakMap<Socket, MeteredSocket>()
  const places = new WeakMap<MeteredSocket, Held>()
  /** Of a client that is proven, how many bytes of the head of its request have arrived, and then its body. */
  const headBytes = new WeakMap<MeteredSocket, number | 'body'>()
  const mostHeadBytes = requests?.mostHeadBytes ?? 0
  const requestBudget = requests && createTimeBudget(requests.budget, clock, times)
  let delivering: MeteredSocket | undefined
  const settle = (socket: Socket) => {
    cancelling.get(socket)?.()
    cancelling.delete(socket)
  }
  const close = (socket: Socket, reason: ConnectionRejection) => {
    rejected(reason)
    socket.destroy()
  }

  const meter = (socket: Socket, address: string): MeteredSocket => {
    const metered = new MeteredSocket(socket)
    let leave = () => {}
    const place = memory.hold(address, () => close(socket, 'overloaded'))
    let waiting = 0
    metered.limit(pieceBytes, (bytes, deliver) => {
      place.grow(metered.waitingBytes - waiting)
      waiting = metered.waitingBytes
      if (socket.destroyed) return undefined
      const run = () => {
        delivering = metered
        deliver()
        delivering = undefined
      }
      const arrived = headBytes.get(metered)
      if (requestBudget !== undefined && arrived !== undefined) {
        const isInHead = arrived !== 'body' && arrived > 0
        if (arrived !== 'body') headBytes.set(metered, arrived + bytes)
        // The head of which most has arrived is the smallest work: so few are in memory in part.
        leave = requestBudget.add(address, bytes, isInHead ? Math.max(1, mostHeadBytes - arrived) : 0, run)
        return undefined
      }
      if (metered.delivered + bytes > mostPendingBytes[provenBy]) return close(socket, 'malformed')
      const budget = connections.isKnown(address) ? known : strangers
      leave = budget.add(address, bytes, metered.delivered, run)
      return undefined
    })
    socket.once('close', () => {
      leave()
      place.release()
    })
    places.set(metered, place)
    return metered
  }

  const accept = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket
    // The client has disconnected already.
    if (remoteAddress === undefined) return socket.destroy()
    const { isAccepted, evicted } = connections.arrive(socket, remoteAddress)
    if (evicted !== undefined) close(evicted, 'overloaded')
    if (!isAccepted) return close(socket, 'overloaded')
    const stream = meter(socket, remoteAddress)
    const startDeadline = () => {
      const expire = () => {
        // It does not have to wait for the turns of others within its own time.
        if (stream.isHeld()) startDeadline()
        else close(socket, 'deadline')
      }
      cancelling.set(socket, deadlines.start(expire))
    }
    startDeadline()
    socket.once('close', () => {
      settle(socket)
      connections.leave(socket)
    })
    for (const listener of accept) Reflect.apply(listener, server, [stream])
    return undefined
  })

  const acceptedOf = (socket: Socket) => transports.get(socket)?.transport ?? socket
  const trust = (socket: Socket) => {
    const metered = transports.get(socket)
    if (metered === undefined) return
    metered.trust()
    places.get(metered)?.release()
  }
  const prove = (socket: Socket) => {
    const metered = transports.get(socket)
    if (metered === undefined || requestBudget === undefined) trust(socket)
    else headBytes.set(metered, isMultiplexed(socket) ? 'body' : 0)
    const accepted = acceptedOf(socket)
    settle(accepted)
    connections.prove(accepted)
  }
  const guard = { prove, trust, isKnown: (address: string) => connections.isKnown(address), acceptedOf }
  if (!(server instanceof TlsServer)) return guard
  if (requestBudget !== undefined) {
    server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      const metered = transports.get(socket)
      if (metered === undefined) return
      headBytes.set(metered, 'body')
      response.once('close', () => headBytes.set(metered, 0))
    })
  }
  // Emitted while the piece is delivered that completes the handshake.
  server.prependListener('secureConnection', (socket) => {
    if (delivering === undefined) return void socket.destroy()
    transports.set(socket, delivering)
    const { remoteAddress } = delivering.transport
    Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress })
    if (provenBy === 'handshake') prove(socket)
    return undefined
  })
  server.on('tlsClientError', (error: Error, socket: TLSSocket) => {
    const reason = reasonOf(error, socket)
    if (reason !== undefined) rejected(reason)
  })
  return guard
}

/** Heads and bodies of many requests arrive on it in turn. */
const isMultiplexed = (socket: Socket) => socket instanceof TLSSocket && socket.alpnProtocol === 'h2'

/** Undefined where the client, or this guard, has closed the connection itself. */
function reasonOf(error: Error, { authorizationError }: TLSSocket): ConnectionRejection | undefined {
  const code = 'code' in error ? error.code : undefined
  if (code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') return 'unauthenticated'
  if (code !== 'ECONNRESET') return 'malformed'
  // Node declares an Error here; its code is a string.
  return authorizationError ? 'unauthenticated' : undefined
}
