import { request, type IncomingMessage } from 'node:http'
import { connect as connectPlain } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Duplex } from 'node:stream'
import type { SessionEndpoint } from '../../api/session-endpoint.ts'
import type { Clock } from '../../runtime/clock.ts'
import { endpointPath } from '../../runtime/handler-sessions.ts'
import { InvalidLauncherResponse, parseJson, parseLauncherError } from '../../runtime/launcher-api.ts'
import { limitRecords } from '../../runtime/record-limit.ts'
import { parseHead, sessionProtocol, type SessionHead, type SessionTarget } from '../../runtime/session-api.ts'
import { shownLine } from '../../runtime/shown-text.ts'
import { deliverPiecewise, textOf } from '../../runtime/untrusted-response.ts'
import type { Status } from '../admission/request.ts'
import { parseEndpointAddress } from './endpoint-address.ts'
import { createNodeConnections, type NodeConnections } from './node-connections.ts'

/** A session at the handler of a node. */
export interface EndpointSession extends SessionHead {
  readonly socket: Duplex
}

type RefusalStatus = Status & { readonly retryAfterSeconds?: number }

/** The handler, or the launcher behind it, refused the session, or cannot be reached. */
export class SessionRefusal extends Error {
  override name = 'SessionRefusal'
  readonly status: RefusalStatus
  constructor(status: RefusalStatus, options?: ErrorOptions) {
    super(status.message, options)
    this.status = status
  }
}

export interface EndpointRequest {
  readonly node: string
  readonly endpoint: SessionEndpoint
  readonly podUID: string
  readonly target: SessionTarget
}

/** Opens a session. @throws SessionRefusal */
export type OpenSession = (wanted: EndpointRequest) => Promise<EndpointSession>

/** The handler waits up to 5 s for the launcher, and reviews the token before. */
const answerMs = 10_000
const connectMs = 5000
const probeMs = 1000

/** The handler's refusals have at most a tenth of this. */
const maxRefusalBytes = 16 * 1024
const maxHeadBytes = 4096
/** Before the session, with what frames the chunks of a refusal. */
const maxBytesBefore = 2 * (maxHeadBytes + maxRefusalBytes)

/** Whether a process listens at the address of a handler. */
export function isReachable({ address }: SessionEndpoint, clock: Pick<Clock, 'after'>): Promise<boolean> {
  const to = parseEndpointAddress(address)
  if (to === undefined) return Promise.resolve(false)
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connectPlain(to)
  const finish = (isOpen: boolean) => {
    resolve(isOpen)
    socket.destroy()
  }
  const cancel = clock.after(probeMs, () => finish(false))
  socket.once('connect', () => finish(true)).once('error', () => finish(false))
  return promise.finally(cancel)
}

/** @param token reads the current token of audience `virtset-handler` */
export function createSessionClient(token: () => Promise<string>, clock: Clock): OpenSession {
  const connections = createNodeConnections(clock)
  return async ({ node, endpoint, podUID, target }) => {
    // The node decides it, and users see it in messages.
    const address = shownLine(endpoint.address)
    const refuseOffender = () => {
      const offense = connections.offenseOf(node)
      if (offense === undefined) return
      throw unavailable(
        `no session is opened with the handler of node ${node} at ${address} for a minute: ${offense} beneath TLS`,
      )
    }
    refuseOffender()
    let socket: TLSSocket | undefined
    try {
      socket = await connectTo(node, endpoint, clock, connections)
      return await upgrade(socket, endpointPath(podUID, target), await token(), { clock, node, address })
    } catch (error) {
      socket?.destroy()
      refuseOffender()
      throw error
    }
  }
}

/** The connection to the handler, with the certificate that it has published. Nothing has been sent on it. */
function connectTo(
  node: string,
  { address, certificateSha256 }: SessionEndpoint,
  clock: Clock,
  connections: NodeConnections,
): Promise<TLSSocket> {
  const to = parseEndpointAddress(address)
  if (to === undefined) {
    return Promise.reject(
      unavailable(`the profile of node ${node} has an invalid address for sessions: ${shownLine(address)}`),
    )
  }
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>()
  const unreachable = (why: string, cause?: Error) =>
    unavailable(
      `the handler of node ${node} cannot be reached at ${address}: ${why}; ` +
        'firewalls and network policies must allow TCP from virtset-webhooks to that port',
      cause,
    )
  // The certificate is compared below: it is self-signed.
  const socket = connections.open(node, to)
  limitRecords(socket, clock)
  const cancel = clock.after(connectMs, () => {
    reject(unreachable(`no connection within ${connectMs / 1000} s`))
    socket.destroy()
  })
  socket.once('close', cancel)
  // The listener remains, for errors of the open session.
  socket.on('error', (error) => reject(unreachable(error.message, error)))
  socket.once('secureConnect', () => {
    cancel()
    if (socket.getPeerX509Certificate()?.fingerprint256 === certificateSha256) return resolve(socket)
    reject(unavailable(`${address} is not the handler of node ${node}: it has another certificate; try again`))
    socket.destroy()
  })
  return promise
}

/** A node can be hostile: at most 4 KiB are parsed after what ends the attempt. */
function upgrade(
  socket: TLSSocket,
  path: string,
  token: string,
  { clock, node, address }: { readonly clock: Clock; readonly node: string; readonly address: string },
): Promise<EndpointSession> {
  const { promise, resolve, reject } = Promise.withResolvers<EndpointSession>()
  const silent = () => reject(unavailable(`the handler of node ${node} does not respond at ${address}`))
  const misbehavior = (what: string) =>
    unavailable(`the handler of node ${node} at ${address} responds to a session with ${what}`)
  // They would be parsed even after the socket was destroyed.
  if (socket.readableLength > 0) return Promise.reject(misbehavior('bytes before the request'))
  const cancel = clock.after(answerMs, silent)
  let bytesBefore = 0
  const deliverWhole = deliverPiecewise(socket, (bytes) => {
    bytesBefore += bytes
    if (bytesBefore <= maxBytesBefore) return
    reject(misbehavior('endless bytes'))
    socket.destroy()
  })
  let hasResponded = false
  const headers = { connection: 'Upgrade', upgrade: sessionProtocol, authorization: `Bearer ${token}` }
  request({ createConnection: () => socket, path, headers, maxHeaderSize: maxHeadBytes })
    .on('upgrade', (response, _, head) => {
      hasResponded = true
      deliverWhole()
      if (head.length > 0) socket.unshift(head)
      resolve({ socket, ...parseHead(response.headers) })
    })
    .once('information', () => {
      reject(misbehavior('an interim response'))
      socket.destroy()
    })
    .on('response', (response) => {
      hasResponded = true
      void refusalOf(response, node).then(reject, silent)
    })
    .on('error', silent)
    .on('close', () => {
      if (!hasResponded) silent()
    })
    .end()
  return promise.finally(cancel)
}

const reasons: { readonly [status: number]: Pick<Status, 'code' | 'reason'> } = {
  404: { code: 409, reason: 'Conflict' },
  409: { code: 409, reason: 'Conflict' },
  429: { code: 429, reason: 'TooManyRequests' },
}

/** In the handler's or the launcher's own words. @throws if the response is too long, or breaks off */
async function refusalOf(response: IncomingMessage, node: string): Promise<SessionRefusal> {
  const { statusCode = 0 } = response
  const body = await textOf(response, maxRefusalBytes)
  if (body === undefined) throw new InvalidLauncherResponse('an endless refusal')
  const { message } = errorIn(body)
  const status = reasons[statusCode] ?? { code: 503, reason: 'ServiceUnavailable' }
  return new SessionRefusal({ ...status, message: `the handler of node ${node} refused the session: ${message}` })
}

function errorIn(body: string): { readonly message: string } {
  try {
    return parseLauncherError(parseJson(body))
  } catch (error) {
    if (error instanceof InvalidLauncherResponse) return { message: error.message }
    throw error
  }
}

const unavailable = (message: string, cause?: Error): SessionRefusal =>
  new SessionRefusal({ code: 503, reason: 'ServiceUnavailable', message }, cause === undefined ? {} : { cause })
