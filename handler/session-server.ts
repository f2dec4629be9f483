import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { SessionEndpoint } from '../api/session-endpoint.ts'
import { carry } from '../runtime/carry.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ConnectionLimits } from '../runtime/connections.ts'
import { refuseEarlyBytes } from '../runtime/early-bytes.ts'
import { parseEndpointPath } from '../runtime/handler-sessions.ts'
import { createFairLimit } from '../runtime/fair-limit.ts'
import { createGuardedServer } from '../runtime/guarded-server.ts'
import { hostPort } from '../runtime/host-port.ts'
import { InvalidLauncherResponse } from '../runtime/launcher-api.ts'
import { createLimitedLog } from '../runtime/limited-log.ts'
import { listen } from '../runtime/listen.ts'
import type { Logger } from '../runtime/log.ts'
import { limitRecords } from '../runtime/record-limit.ts'
import {
  formatHead,
  poolOf,
  sessionProtocol,
  sessionsPerVm,
  type SessionPool,
  type SessionTarget,
} from '../runtime/session-api.ts'
import type { SessionAccess } from './session-access.ts'
import { LauncherAbsent, LauncherRefusal, LauncherUnreachable } from './launcher.ts'
import { loggedError, loggedText } from './launcher-log.ts'
import type { LauncherSession } from './launcher-session.ts'

interface SessionServerOptions {
  /** 0: any free port. */
  readonly port: number
  /** Absent: every address. */
  readonly host?: string
  /** The address of this pod, for the webhooks. */
  readonly address: string
  readonly accessOf: (token: string, address: string) => Promise<SessionAccess>
  /** The namespace of a pod that is that of a VM of this node; undefined for all others. */
  readonly namespaceOf: (podUID: string) => string | undefined
  readonly mostSessions?: number
  readonly open: (podUID: string, target: SessionTarget) => Promise<LauncherSession>
  readonly log: Logger
  readonly clock: Clock
}

export interface SessionServer {
  /** What the NodeProfile publishes. */
  readonly published: SessionEndpoint
  /** The number of open sessions. */
  sessions(): number
  /** The VM of the pod is no longer on this node: ends its sessions. */
  endSessionsOf(podUID: string): void
  close(): Promise<void>
}

/** The most sessions of a node. One takes 130 KiB, and up to 200 KiB while it is full; the handler has 320 MiB. */
const defaultMostSessions = 256

/** The webhooks open a connection for each session, and a user can open 128 at once. */
const connectionLimits: Omit<ConnectionLimits, 'proven'> = {
  pending: 256,
  pendingPerAddress: 128,
  burst: 64,
  perSecond: 32,
}

interface Wanted {
  readonly podUID: string
  readonly target: SessionTarget
  readonly namespace: string
}

interface Refusal {
  readonly status: number
  readonly reason: string
  readonly message: string
}

/**
 * The handler’s session server: a TLS server through which the webhooks reach the launchers of this node. Callers prove
 * with a token that they are the webhooks, and reach only pods of VMs that are on this node.
 */
export async function startSessionServer(options: SessionServerOptions): Promise<SessionServer> {
  const { port, host, address, clock, log, mostSessions = defaultMostSessions } = options
  const limitedLog = createLimitedLog(log, clock)
  const sessions = new Map<Duplex, { readonly podUID: string; readonly pool: SessionPool }>()
  /** A namespace with fewer sessions takes a place from the one with the most. */
  const places = createFairLimit(mostSessions)
  const { server, certificate, prove } = createGuardedServer({
    name: 'virtset-handler',
    minVersion: 'TLSv1.3',
    limits: { ...connectionLimits, proven: mostSessions + 64 },
    clock,
    respond: (_, response) => response.writeHead(404, { connection: 'close' }).end(),
  })

  /**
   * The token is reviewed last: the UIDs of pods cannot be guessed, so a client that knows none causes no request to
   * the API server.
   */
  const check = async (request: IncomingMessage): Promise<Wanted | Refusal> => {
    const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? []
    if (token === undefined) return forbidden
    const found = parseEndpointPath(request.url ?? '')
    if (found === undefined || request.headers.upgrade !== sessionProtocol) return unknownPath
    const namespace = options.namespaceOf(found.podUID)
    if (namespace === undefined) return notHere
    const access = await options.accessOf(token, request.socket.remoteAddress ?? '')
    if (access === 'busy') return { status: 503, reason: 'Busy', message: 'too many tokens are being reviewed' }
    if (access === 'forbidden') return forbidden
    prove(request.socket)
    return { ...found, namespace }
  }

  /** Returns what releases the place, or why there is none. */
  const take = (socket: Duplex, { podUID, target, namespace }: Wanted): (() => void) | Refusal => {
    const pool = poolOf(target)
    const own = [...sessions.values()].filter((one) => one.podUID === podUID && one.pool === pool).length
    // The launcher counts as well. A hostile one does not.
    if (own >= sessionsPerVm[pool]) return tooManyOfVm(sessionsPerVm[pool])
    let [isOpen, isDisplaced] = [false, false]
    sessions.set(socket, { podUID, pool })
    const place = places.hold(namespace, () => {
      isDisplaced = true
      sessions.delete(socket)
      // One that has only arrived is refused.
      if (isOpen) socket.destroy()
    })
    place.grow(1)
    if (isDisplaced) return tooManyOfNode
    isOpen = true
    return () => {
      sessions.delete(socket)
      place.release()
    }
  }

  const connect = async (request: IncomingMessage, socket: Duplex, accept: () => void): Promise<void> => {
    const checked = await check(request)
    if ('reason' in checked) return refuse(socket, checked)
    const { podUID, target } = checked
    const leave = take(socket, checked)
    if ('reason' in leave) return refuse(socket, leave)
    try {
      const inner = await options.open(podUID, target)
      if (!sessions.has(socket) || socket.destroyed) {
        inner.socket.destroy()
        return
      }
      accept()
      socket.write(formatHead(sessionProtocol, inner))
      const { sent, received } = await carry(socket, inner.socket, clock)
      log.debug({ podUID, kind: target.kind, sent, received }, 'a session ended')
    } finally {
      leave()
    }
  }

  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', (error) => log.debug({ err: error }, 'a session was disconnected'))
    limitRecords(request.socket, clock)
    connect(request, socket, refuseEarlyBytes(socket, head)).catch((error: unknown) => {
      const refusal = refusalOf(error)
      const path = request.url ?? ''
      const namespace = options.namespaceOf(parseEndpointPath(path)?.podUID ?? '') ?? ''
      const { status, reason } = refusal
      limitedLog(
        namespace,
        { err: loggedError(error), path: loggedText(path), status, reason },
        'a session was refused',
      )
      refuse(socket, refusal)
    })
  })
  const bound = await listen(server, port, host)
  const published = {
    address: hostPort(address, bound),
    certificateSha256: new X509Certificate(certificate).fingerprint256,
  }
  log.info({ ...published }, 'serving sessions')
  const end = (socket: Duplex) => {
    sessions.delete(socket)
    socket.destroy()
  }
  return {
    published,
    sessions: () => sessions.size,
    endSessionsOf(podUID) {
      for (const [socket, one] of sessions) if (one.podUID === podUID) end(socket)
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sessions.keys()) end(socket)
        server.closeAllConnections()
      }),
  }
}

const forbidden: Refusal = { status: 403, reason: 'Forbidden', message: 'only the webhooks can open sessions' }
const unknownPath: Refusal = { status: 404, reason: 'NotFound', message: 'the path is not that of a session' }
const notHere: Refusal = { status: 404, reason: 'NotFound', message: 'the pod is not that of a VM of this node' }
const tooManyOfVm = (most: number): Refusal => ({
  status: 429,
  reason: 'TooManySessions',
  message: `the VM already has ${most} sessions of this kind; close one of them`,
})
const tooManyOfNode: Refusal = {
  status: 429,
  reason: 'TooManySessions',
  message: 'the node has too many sessions, and no namespace has more of them than this one; close one of them',
}

function refusalOf(error: unknown): Refusal {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof LauncherRefusal && error.reason === 'TooManySessions') {
    return { status: 429, reason: error.reason, message }
  }
  if (error instanceof LauncherRefusal && error.reason === 'NotFound') {
    const older =
      "the VM's launcher is of a version without sessions of this kind; they work after the next start of the VM"
    return { status: 409, reason: 'NotReady', message: older }
  }
  if (error instanceof LauncherRefusal) return { status: 409, reason: error.reason, message }
  if (error instanceof LauncherAbsent) return { status: 409, reason: 'NotReady', message }
  if (error instanceof LauncherUnreachable || error instanceof InvalidLauncherResponse) {
    return { status: 502, reason: 'LauncherUnreachable', message }
  }
  return { status: 503, reason: 'Unavailable', message: 'the handler could not open the session; see its log' }
}

function refuse(socket: Duplex, { status, reason, message }: Refusal): void {
  const body = JSON.stringify({ error: { reason, message: message.slice(0, 1024) } })
  const head = `Connection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`
  // A client that does not close its side would send more.
  socket.end(`HTTP/1.1 ${status} Refused\r\n${head}\r\n\r\n${body}`, () => socket.destroy())
}
