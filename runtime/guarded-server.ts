import { createServer, type Server } from 'node:https'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import type { SecureVersion } from 'node:tls'
import { createArrivalDeadlines } from './arrival-deadline.ts'
import type { Clock } from './clock.ts'
import type { ConnectionLimits } from './connections.ts'
import { guardConnections } from './guard.ts'
import { surviveBackpressure } from './paused-parser.ts'
import { createSelfSigned } from './self-signed.ts'
import { deliverPiecewise } from './untrusted-response.ts'

/** 15 s for the handshake, the request, and the review of its token, which waits for up to 5 s. */
const deadlineTurns = 60
const headersTimeoutMs = 5000

interface GuardedServerOptions {
  /** The name in its certificate. */
  readonly name: string
  readonly minVersion: SecureVersion
  readonly limits: ConnectionLimits
  readonly clock: Clock
  readonly respond: RequestListener
}

/**
 * A TLS server with a certificate of its own, whose connections are limited.
 * @returns `prove`: to be called with the connection of a client whose token was accepted. Others are closed after a
 *   deadline, and earlier if there are too many
 */
export function createGuardedServer({ name, minVersion, limits, clock, respond }: GuardedServerOptions): {
  readonly server: Server
  /** PEM. */
  readonly certificate: string
  readonly prove: (socket: Socket) => void
} {
  const certificate = createSelfSigned(name, clock.now())
  const proven = new WeakSet<Socket>()
  const responding = new WeakSet<Socket>()
  /** What lets a connection deliver as much as was read. */
  const wholes = new WeakMap<Socket, () => void>()
  const server = createServer({ ...certificate, minVersion, requireHostHeader: false }, (request, response) => {
    const { socket, headers } = request
    // An honest client sends none, and Node would store it while a token is reviewed.
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (hasBody && !proven.has(socket)) {
      return void socket.destroy()
    }
    // While a token is reviewed, one connection could send thousands of requests.
    if (responding.has(socket) && !proven.has(socket)) return void socket.destroy()
    responding.add(socket)
    response.once('close', () => responding.delete(socket))
    return respond(request, response)
  })
  // Node would answer it itself, before any of the above.
  server.on('checkExpectation', ({ socket }: IncomingMessage) => socket.destroy())
  server.on('secureConnection', (socket) => wholes.set(socket, deliverPiecewise(socket)))
  server.headersTimeout = headersTimeoutMs
  server.requestTimeout = headersTimeoutMs
  surviveBackpressure(server)
  const { prove } = guardConnections(server, {
    limits,
    provenBy: 'caller',
    deadlines: createArrivalDeadlines(clock, deadlineTurns),
    clock,
    rejected: () => {},
  })
  return {
    server,
    certificate: certificate.cert,
    prove(socket) {
      proven.add(socket)
      wholes.get(socket)?.()
      prove(socket)
    },
  }
}
