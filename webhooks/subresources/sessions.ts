import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { WebSocketServer, type WebSocket } from 'ws'
import type { SessionEndpoint } from '../../api/session-endpoint.ts'
import { isControlledBy } from '../../api/template.ts'
import { isFinished, type VirtualMachine } from '../../api/virtual-machine.ts'
import { unlessNotFound } from '../../runtime/api-error.ts'
import { sleep, type Clock } from '../../runtime/clock.ts'
import { MarkedLog } from '../../runtime/end-mark.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { createLanes } from '../../runtime/lanes.ts'
import { createLimitedLog } from '../../runtime/limited-log.ts'
import type { Logger } from '../../runtime/log.ts'
import {
  firstOwners,
  identity,
  resource,
  virtualMachineConfigs,
  virtualMachines,
  type KubeObject,
  type Persisted,
} from '../../runtime/resource.ts'
import { formatPosition, positionHeader, type ConsolePosition } from '../../runtime/session-api.ts'
import type { MayAccess } from '../admission/permission.ts'
import type { User } from '../admission/request.ts'
import { dropIfReset, streamOf } from '../http2.ts'
import { userTenant } from '../tenant-requests.ts'
import { SessionRefusal, type EndpointSession, type OpenSession } from './session-client.ts'
import type { SessionMetrics } from './session-metrics.ts'
import { contents, ended, measured, metricsIn, readMetrics, stream } from './session-response.ts'
import { createSessionPlaces, tooMany, type SessionLimits, type SessionPlace } from './session-places.ts'
import { accessOfSession, type SessionRequest } from './session-request.ts'
import { tenantOf } from './tenant.ts'
import { bridge, lost, webSocketOptions, type Bridged, type Ending } from './web-socket.ts'

export interface SessionOptions {
  readonly kube: Pick<KubeClient, 'get'>
  readonly mayAccess: MayAccess
  /** The session endpoint of a node, as its handler has published it. */
  readonly endpointOf: (node: string) => SessionEndpoint | undefined
  readonly openAtNode: OpenSession
  /** Whether the handler of a node still listens. */
  readonly isReachable: (endpoint: SessionEndpoint) => Promise<boolean>
  readonly metrics: SessionMetrics
  readonly log: Logger
  readonly clock: Clock
  readonly limits?: SessionLimits
}

export interface Sessions {
  /** Responds to a request that is not an upgrade. */
  respond(user: User, wanted: SessionRequest, reply: FastifyReply): Promise<unknown>
  /**
   * Upgrades the request to a WebSocket. Rejects before the upgrade if the session is refused.
   * @param accept called before the upgrade: from then on, the client may send
   */
  attach(
    user: User,
    wanted: SessionRequest,
    request: IncomingMessage,
    socket: Duplex,
    accept: () => void,
  ): Promise<void>
  /** Ends all sessions; their clients connect to another replica. */
  end(): void
}

/** A revoked permission ends a session within this time and the 10 s for which its result is cached. */
const reviewMs = 30_000
/** How long the status of a VM may take to show that its guest has ended. */
const endKnownMs = 5000
const endPollMs = 500
/** Requests to the API server at once. Others use the same client. */
const lanes = { all: 2, perNamespace: 1 }

const closed: Ending = { code: 1000, reason: 'the connection was closed' }
const revoked: Ending = { code: 1008, reason: 'the permission for this session was revoked' }
const displaced: Ending = { code: 1013, reason: 'another namespace needed the place of this session; try again' }
const restarting: Ending = { code: 1012, reason: 'service restart; connect again' }

/** What a session needs to know of them: users add a megabyte to the rest, and ask for sessions as often as they like. */
const vms = resource<Pick<VirtualMachine, 'metadata' | 'status'>>({
  ...virtualMachines,
  read: {
    metadata: { ...identity, ownerReferences: firstOwners },
    status: { phase: true, nodeName: true, podUID: true },
  },
})
const configs = resource<KubeObject>({ ...virtualMachineConfigs, read: { metadata: identity } })

type StoredVm = Persisted<Pick<VirtualMachine, 'metadata' | 'status'>>

/** A session whose guest is connected. */
interface Opened extends EndpointSession {
  readonly uid: string
  readonly endpoint: SessionEndpoint
  readonly place: SessionPlace
}

/** Sessions of users with guests: authorized, limited, audited, and carried to the handler of the VM's node. */
export function createSessions(options: SessionOptions): Sessions {
  const { kube, mayAccess, endpointOf, openAtNode, isReachable, metrics, log, clock } = options
  const places = createSessionPlaces(clock, options.limits)
  const limitedLog = createLimitedLog(log, clock)
  const inTurn = createLanes(lanes)
  const server = new WebSocketServer(webSocketOptions)
  const positions = new WeakMap<IncomingMessage, ConsolePosition>()
  server.on('headers', (headers, request) => {
    const position = positions.get(request)
    if (position !== undefined) headers.push(`${positionHeader}: ${formatPosition(position)}`)
  })
  /** By what ends them. */
  const open = new Set<(ending: Ending) => void>()

  const find = (wanted: SessionRequest, signal?: AbortSignal): Promise<StoredVm> => {
    const options = signal === undefined ? {} : { signal }
    const run = async () => {
      const { namespace, name } = wanted
      if (wanted.resource === 'virtualmachines') return kube.get(vms, { namespace, name }, options)
      const config = await kube.get(configs, { namespace, name }, options)
      const vm = await unlessNotFound(kube.get(vms, { namespace, name }, options))
      // A permission for the config must not reach a VM of the same name that another user has created.
      if (vm === undefined || !isControlledBy(vm, { kind: 'VirtualMachineConfig', metadata: config.metadata })) {
        throw noVm(wanted)
      }
      return vm
    }
    return inTurn.run(wanted.namespace, run, signal)
  }

  const openSession = async (user: User, wanted: SessionRequest, signal: AbortSignal): Promise<Opened> => {
    places.attempt(user)
    const isAllowed = await mayAccess(user, accessOfSession(wanted), { tenant: userTenant(user), signal })
    if (!isAllowed) throw forbidden(user, wanted)
    const place = places.take(user, wanted)
    try {
      const vm = await find(wanted, signal)
      const { phase = 'Pending', nodeName: node, podUID } = vm.status ?? {}
      if (phase !== 'Running' || node === undefined || podUID === undefined) throw notRunning(wanted, phase)
      const endpoint = endpointOf(node)
      if (endpoint === undefined) throw noEndpoint(node)
      const session = await openAtNode({ node, endpoint, podUID, target: wanted.target })
      if (place.displaced.aborted) {
        session.socket.destroy()
        throw tooMany('replica')
      }
      return { ...session, uid: vm.metadata.uid, endpoint, place }
    } catch (error) {
      place.leave()
      throw error
    }
  }

  /**
   * Why the handler closed a session: if the VM has ended, its status shows that shortly afterwards. The connection of
   * a port ends at any time, and a handler that restarts no longer listens.
   */
  const endingOf = async (wanted: SessionRequest, { uid, endpoint }: Opened): Promise<Ending> => {
    if (wanted.kind === 'portforward') return (await isReachable(endpoint)) ? closed : lost
    for (let waitedMs = 0; waitedMs <= endKnownMs; waitedMs += endPollMs) {
      const vm = await unlessNotFound(find({ ...wanted, resource: 'virtualmachines' }))
      if (vm === undefined || vm.metadata.uid !== uid || isFinished(vm)) return ended
      await sleep(clock, endPollMs)
    }
    return lost
  }

  /** Ends the session when its user loses the permission. Returns what stops the reviews. */
  const reviewAgain = (user: User, wanted: SessionRequest, end: (ending: Ending) => void): (() => void) => {
    const stopped = new AbortController()
    const requester = { tenant: userTenant(user), signal: stopped.signal }
    let cancel = () => {}
    const review = async () => {
      // An API server that does not respond revokes nothing.
      const isAllowed = await mayAccess(user, accessOfSession(wanted), requester).catch(() => true)
      if (stopped.signal.aborted) return
      if (isAllowed) schedule()
      else end(revoked)
    }
    const schedule = () => {
      cancel = clock.after(reviewMs, () => void review())
    }
    schedule()
    return () => {
      stopped.abort()
      cancel()
    }
  }

  /** What the log records of each session. */
  const recordOf = (user: User, { kind, resource, namespace, name, target }: SessionRequest, auditID: AuditID) => ({
    kind,
    ...(target.kind === 'tcp' ? { port: target.port } : {}),
    resource,
    namespace,
    name,
    user: user.username,
    auditID,
  })

  /** Counts and logs a session, and ends it as needed. */
  const follow = async (
    user: User,
    wanted: SessionRequest,
    auditID: AuditID,
    opened: Opened,
    end: (ending: Ending) => void,
    running: Promise<Bridged>,
  ): Promise<void> => {
    const { kind } = wanted
    const [startedMs, from] = [clock.monotonic(), timeOf(clock)]
    const line = { ...recordOf(user, wanted, auditID), uid: opened.uid, from }
    let isOpen = true
    const endOnce = (ending: Ending) => {
      if (isOpen) end(ending)
    }
    open.add(endOnce)
    const { displaced: signal, leave } = opened.place
    signal.addEventListener('abort', () => endOnce(displaced))
    if (signal.aborted) endOnce(displaced)
    metrics.opened(kind)
    // Pages read metrics every few seconds.
    const level = kind === 'metrics' ? 'debug' : 'info'
    log[level](line, 'a session was opened')
    const stopReviews = reviewAgain(user, wanted, endOnce)
    const { toGuest, fromGuest, code, reason } = await running
    isOpen = false
    stopReviews()
    open.delete(endOnce)
    leave()
    const seconds = (clock.monotonic() - startedMs) / 1000
    metrics.ended(kind, seconds, { toGuest, fromGuest })
    const outcome = { until: timeOf(clock), seconds: Math.round(seconds), toGuest, fromGuest, code, reason }
    log[level]({ ...line, ...outcome }, 'a session has ended')
  }

  /** Responds with the metrics of a guest, after all of them were read. */
  const measure = async (user: User, wanted: SessionRequest, auditID: AuditID, opened: Opened, reply: FastifyReply) => {
    const { socket } = opened
    let ending = measured
    const end = (why: Ending) => {
      ending = why
      socket.destroy()
    }
    const abandon = () => socket.destroy()
    reply.raw.once('close', abandon)
    const reading = readMetrics(socket, clock)
    const running = reading.then(({ bytes }) => ({ ...ending, toGuest: 0, fromGuest: bytes }))
    await follow(user, wanted, auditID, opened, end, running)
    reply.raw.off('close', abandon)
    const { text } = await reading
    if (text === undefined && ending !== measured) throw refusal(503, 'ServiceUnavailable', ending.reason)
    const body = JSON.stringify(metricsIn(text))
    return reply.header('x-content-type-options', 'nosniff').type('application/json').send(body)
  }

  /** @param client what closes when the client disconnects */
  const counted = async (
    user: User,
    wanted: SessionRequest,
    auditID: AuditID,
    client: Duplex | FastifyReply['raw'],
  ): Promise<Opened> => {
    const disconnected = new AbortController()
    const abort = () => disconnected.abort(gone)
    client.once('close', abort)
    try {
      return await openSession(user, wanted, disconnected.signal)
    } catch (error) {
      const code = error instanceof SessionRefusal ? error.status.code : 500
      metrics.refused(wanted.kind, code)
      limitedLog(tenantOf(user), { ...recordOf(user, wanted, auditID), code, err: error }, 'a session was refused')
      throw error
    } finally {
      client.off('close', abort)
    }
  }

  const toWebSocket = (
    request: IncomingMessage,
    socket: Duplex,
    accept: () => void,
    { position }: EndpointSession,
  ): Promise<WebSocket> =>
    new Promise((resolve, reject) => {
      if (socket.destroyed) return reject(notWebSocket)
      socket.once('close', () => reject(notWebSocket))
      if (position !== undefined) positions.set(request, position)
      accept()
      server.handleUpgrade(request, socket, Buffer.alloc(0), resolve)
    })

  return {
    async respond(user, wanted, reply) {
      const { [wanted.kind]: content } = contents
      if (content === undefined) throw notWebSocket
      const auditID = auditOf(reply.request.raw)
      const opened = await counted(user, wanted, auditID, reply.raw)
      // The client has gone meanwhile, and emits no further event, or was refused to make room for others.
      if (dropIfReset(reply.request.raw) || reply.raw.destroyed || reply.raw.headersSent) {
        reply.hijack()
        opened.place.leave()
        opened.socket.destroy()
        return undefined
      }
      if (wanted.kind === 'metrics') return measure(user, wanted, auditID, opened, reply)
      reply.hijack()
      const headers = {
        'content-type': content.type,
        'x-content-type-options': 'nosniff',
        ...(streamOf(reply.request.raw) === undefined ? { connection: 'close' } : {}),
        ...(opened.position === undefined ? {} : { [positionHeader]: formatPosition(opened.position) }),
      }
      reply.raw.writeHead(200, headers).flushHeaders()
      const marked = opened.isEndMarked ? new MarkedLog() : undefined
      // A log of an earlier launcher has no mark. A connection that broke has no end, and a handler that restarts no longer
      // listens.
      const isWhole = async () =>
        marked?.isWhole ??
        (opened.socket.readableEnded && (wanted.kind !== 'log' || (await isReachable(opened.endpoint))))
      const read = (chunk: Buffer) => marked?.read(chunk) ?? chunk
      const { running, end } = stream(opened.socket, reply.raw, { ...content, clock, read, isWhole })
      await follow(user, wanted, auditID, opened, end, running)
      return undefined
    },

    async attach(user, wanted, request, socket, accept) {
      if (contents[wanted.kind] !== undefined || request.headers.upgrade?.toLowerCase() !== 'websocket')
        throw notWebSocket
      const auditID = auditOf(request)
      const opened = await counted(user, wanted, auditID, socket)
      try {
        const client = await toWebSocket(request, socket, accept, opened)
        const { ended: running, close } = bridge(client, opened.socket, {
          clock,
          endingOf: () => endingOf(wanted, opened),
        })
        void follow(user, wanted, auditID, opened, close, running)
      } catch (error) {
        opened.place.leave()
        opened.socket.destroy()
        throw error
      }
    },

    end() {
      for (const one of open) one(restarting)
    },
  }
}

/**
 * That of the request in the API server's audit log, which knows who impersonated the user. A client can choose it, as
 * long as it likes.
 */
type AuditID = string | undefined

/** In characters, as in the API server's responses. */
const longestAuditID = 64

const auditOf = ({ headers }: IncomingMessage): AuditID => headers['audit-id']?.toString().slice(0, longestAuditID)

const timeOf = (clock: Clock): string => new Date(clock.now()).toISOString()

const refusal = (code: number, reason: string, message: string): SessionRefusal =>
  new SessionRefusal({ code, reason, message })

const notWebSocket = refusal(
  400,
  'BadRequest',
  'attach and portforward require a WebSocket (Upgrade: websocket); log, screenshot and metrics require a request without an upgrade',
)

const gone = refusal(400, 'BadRequest', 'the client has disconnected')

const notRunning = ({ namespace, name }: SessionRequest, phase: string): SessionRefusal =>
  refusal(
    409,
    'Conflict',
    `VirtualMachine "${name}" in the namespace "${namespace}" has no guest to connect to: its phase is ${phase}; it must be Running`,
  )

const noVm = ({ namespace, name }: SessionRequest): SessionRefusal =>
  refusal(
    409,
    'Conflict',
    `VirtualMachineConfig "${name}" in the namespace "${namespace}" has no VM to connect to; start it`,
  )

const noEndpoint = (node: string): SessionRefusal =>
  refusal(
    503,
    'ServiceUnavailable',
    `the handler of node ${node} has not published where it serves sessions; it may be starting, or be of an older version`,
  )

/** In the API server's wording. */
function forbidden({ username }: User, wanted: SessionRequest): SessionRefusal {
  const { verb, group, resource, subresource, name, namespace } = accessOfSession(wanted)
  return refusal(
    403,
    'Forbidden',
    `${resource}.${group} "${name}" is forbidden: User "${username}" cannot ${verb} resource ` +
      `"${resource}/${subresource}" in API group "${group}" in the namespace "${namespace}"`,
  )
}
