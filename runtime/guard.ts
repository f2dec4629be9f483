import type { Server, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import type { ArrivalDeadlines } from './arrival-deadline.ts'
import type { Clock } from './clock.ts'
import { createConnections } from './connections.ts'
import type { ConnectionLimits } from './connections.ts'
import { transportOf } from './transport.ts'

/**
 * More than what proves a client: a handshake with its certificates, or one without and the head of a request, which has
 * at most 16 KiB. TLS reads messages that deliver nothing, such as KeyUpdate, without a limit: 27 bytes take 6 µs.
 */
const mostPendingBytes = { handshake: 64 * 1024, caller: 24 * 1024 }

/** Why a connection was closed before a request was read. */
export type ConnectionRejection = 'overloaded' | 'deadline' | 'unauthenticated' | 'malformed'

interface GuardOptions {
  readonly limits: ConnectionLimits
  /** What authenticates a client: the handshake of a TLS server with its certificate, or the caller by a request. */
  readonly provenBy: 'handshake' | 'caller'
  /** How long a connection may be pending. */
  readonly deadlines: ArrivalDeadlines
  readonly clock: Pick<Clock, 'monotonic'>
  readonly rejected: (reason: ConnectionRejection) => void
}

/**
 * Limits the connections of a server, and closes those that are pending for too long. Call it before the server
 * listens. A connection is pending until its client is authenticated.
 * @returns to be called with the connection of a client that the caller has authenticated
 */
export function guardConnections(
  server: Server,
  { limits, provenBy, deadlines, clock, rejected }: GuardOptions,
): (socket: Socket) => void {
  const connections = createConnections<Socket>(limits, clock)
  const cancelling = new Map<Socket, () => void>()
  const settle = (socket: Socket) => {
    cancelling.get(socket)?.()
    cancelling.delete(socket)
  }
  const close = (socket: Socket, reason: ConnectionRejection) => {
    rejected(reason)
    socket.destroy()
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
    const hasSentTooMuch = () => socket.bytesRead > mostPendingBytes[provenBy]
    cancelling.set(
      socket,
      deadlines.start(() => close(socket, 'deadline'), hasSentTooMuch),
    )
    socket.once('close', () => {
      if (server instanceof TlsServer && cancelling.has(socket) && hasSentTooMuch()) connections.distrust(remoteAddress)
      settle(socket)
      connections.leave(socket)
    })
    for (const listener of accept) Reflect.apply(listener, server, [socket])
    return undefined
  })

  const prove = (socket: Socket) => {
    const accepted = transportOf(socket)
    settle(accepted)
    connections.prove(accepted)
  }
  if (!(server instanceof TlsServer)) return prove
  if (provenBy === 'handshake') server.on('secureConnection', prove)
  server.on('tlsClientError', (error: Error, socket: TLSSocket) => {
    const reason = reasonOf(error, socket)
    if (reason !== undefined) rejected(reason)
  })
  return prove
}

/** Undefined where the client, or this guard, has closed the connection itself. */
function reasonOf(error: Error, { authorizationError }: TLSSocket): ConnectionRejection | undefined {
  const code = 'code' in error ? error.code : undefined
  if (code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') return 'unauthenticated'
  if (code !== 'ECONNRESET') return 'malformed'
  // Node declares an Error here; its code is a string.
  return authorizationError ? 'unauthenticated' : undefined
}
