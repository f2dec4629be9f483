import type { Server, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import type { ArrivalDeadlines } from './arrival-deadline.ts'
import type { Clock } from './clock.ts'
import { createConnections } from './connections.ts'
import type { ConnectionLimits } from './connections.ts'

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
  const connections = createConnections(limits, clock)
  const closing = new Map<string, (reason: ConnectionRejection) => void>()
  const cancelling = new Map<string, () => void>()
  const settle = (name: string) => {
    cancelling.get(name)?.()
    cancelling.delete(name)
  }

  const accept = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket
    // The client has disconnected already.
    if (remoteAddress === undefined) return socket.destroy()
    const name = nameOf(socket)
    const { isAccepted, evicted } = connections.arrive(name, remoteAddress)
    if (evicted !== undefined) closing.get(evicted)?.('overloaded')
    if (!isAccepted) {
      rejected('overloaded')
      return socket.destroy()
    }
    const close = (reason: ConnectionRejection) => {
      rejected(reason)
      socket.destroy()
    }
    closing.set(name, close)
    cancelling.set(
      name,
      deadlines.start(() => close('deadline')),
    )
    socket.once('close', () => {
      settle(name)
      closing.delete(name)
      connections.leave(name)
    })
    for (const listener of accept) Reflect.apply(listener, server, [socket])
    return undefined
  })

  const prove = (socket: Socket) => {
    settle(nameOf(socket))
    connections.prove(nameOf(socket))
  }
  if (!(server instanceof TlsServer)) return prove
  if (provenBy === 'handshake') server.on('secureConnection', prove)
  server.on('tlsClientError', (error: Error, socket: TLSSocket) => {
    const reason = reasonOf(error, socket)
    if (reason !== undefined) rejected(reason)
  })
  return prove
}

const nameOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string => `${remoteAddress} ${remotePort}`

/** Undefined where the client, or this guard, has closed the connection itself. */
function reasonOf(error: Error, { authorizationError }: TLSSocket): ConnectionRejection | undefined {
  const code = 'code' in error ? error.code : undefined
  if (code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') return 'unauthenticated'
  if (code !== 'ECONNRESET') return 'malformed'
  // Node declares an Error here; its code is a string.
  return authorizationError ? 'unauthenticated' : undefined
}
