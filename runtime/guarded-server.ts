import { createServer, type Server } from 'node:https'
import type { RequestListener } from 'node:http'
import type { SecureVersion } from 'node:tls'
import { createArrivalDeadlines } from './arrival-deadline.ts'
import type { Clock } from './clock.ts'
import type { ConnectionLimits } from './connections.ts'
import { guardConnections } from './guard.ts'
import { createSelfSigned } from './self-signed.ts'

/** 5 s for the handshake, and as long for the head of the request. */
const deadlineTurns = 20
const headersTimeoutMs = 5000

interface GuardedServerOptions {
  /** The name in its certificate. */
  readonly name: string
  readonly minVersion: SecureVersion
  readonly limits: ConnectionLimits
  readonly clock: Clock
  readonly respond: RequestListener
}

/** A TLS server with a certificate of its own, whose connections are limited. */
export function createGuardedServer({ name, minVersion, limits, clock, respond }: GuardedServerOptions): {
  readonly server: Server
  /** PEM. */
  readonly certificate: string
} {
  const certificate = createSelfSigned(name, clock.now())
  const server = createServer({ ...certificate, minVersion }, respond)
  server.headersTimeout = headersTimeoutMs
  server.requestTimeout = headersTimeoutMs
  guardConnections(server, {
    limits,
    deadlines: createArrivalDeadlines(clock, deadlineTurns),
    clock,
    rejected: () => {},
  })
  return { server, certificate: certificate.cert }
}
