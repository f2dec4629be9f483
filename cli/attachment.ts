import { request as requestHttp, type ClientRequest, type IncomingMessage } from 'node:http'
import { request as requestHttps, type RequestOptions } from 'node:https'
import { WebSocket } from 'ws'
import { statusOf } from '../api/received-status.ts'
import type { Access } from '../runtime/access.ts'
import { ApiError, ApiUnreachable } from '../runtime/api-error.ts'
import { boundedText } from '../runtime/bounded-text.ts'
import { parsePosition, positionHeader, type ConsolePosition } from '../runtime/session-api.ts'

/** How an open session ended. */
export interface Closed {
  /** A close code of WebSocket. */
  readonly code: number
  readonly reason: string
}

/** An open session with a guest. */
export interface Attachment {
  /** At most 256 KiB. Pending until more can be sent; resolved if the session ends. */
  send(chunk: Uint8Array): Promise<void> | undefined
  close(): void
  readonly closed: Promise<Closed>
}

/** Gets the output of a session. */
export interface Receiver {
  /** Called once, before the first chunk. @param position that of the first byte */
  begin(position: ConsolePosition | undefined): void
  /** The next chunk is received when the result is resolved. */
  receive(chunk: Buffer): Promise<void> | undefined
  /** A stream in which nothing arrives for so long is lost; by default it may be silent. */
  readonly silentMs?: number
}

const openMs = 30_000
/** As of other requests: a node has 30 s for a screenshot. */
const headMs = 35_000
/** Until a refusal is there as a whole. */
const refusalMs = 30_000
/** A Status with the most causes that virtset lists is smaller. */
const maxRefusalBytes = 1024 * 1024
/** Beyond that, a sender waits. */
const maxWaitingBytes = 512 * 1024

/** Not all servers speak TLS: `kubectl proxy` serves the API on the loopback interface without it. */
export const requestTo = (url: string, options: RequestOptions): ClientRequest =>
  url.startsWith('https:') ? requestHttps(url, options) : requestHttp(url, options)

/** Opens a WebSocket to a subresource. @throws ApiError, ApiUnreachable */
export async function attach(access: Access, path: string, receiver: Receiver): Promise<Attachment> {
  const { headers, tls } = await proofOf(access, path)
  const { promise, resolve, reject } = Promise.withResolvers<Attachment>()
  const closed = Promise.withResolvers<Closed>()
  const socket = new WebSocket(access.server.replace(/^http/, 'ws') + path, {
    ...tls,
    headers: { ...headers, 'user-agent': 'kubectl-vm' },
    perMessageDeflate: false,
    handshakeTimeout: openMs,
  })
  socket.on('upgrade', (response) => receiver.begin(positionIn(response)))
  socket.on('open', () =>
    resolve({
      send: (chunk) => {
        const sent = Promise.withResolvers<void>()
        socket.send(chunk, () => sent.resolve())
        return socket.bufferedAmount < maxWaitingBytes ? undefined : sent.promise
      },
      close: () => socket.close(1000),
      closed: closed.promise,
    }),
  )
  socket.on('message', (data) => {
    if (!Buffer.isBuffer(data)) return
    const blocked = receiver.receive(data)
    if (blocked === undefined) return
    socket.pause()
    void blocked.then(() => socket.resume())
  })
  socket.on('unexpected-response', (_, response) => void refusalOf(path, response).then(reject))
  // Followed by `close`, if the session was open.
  socket.on('error', (error) => reject(new ApiUnreachable(`GET ${path}`, { cause: error })))
  socket.on('close', (code, reason) => closed.resolve({ code, reason: reason.toString() }))
  return promise
}

/**
 * Reads a subresource as a stream; resolves when it begins, `ended` when it ends: with false if the connection was lost.
 * @throws ApiError, ApiUnreachable
 */
export async function stream(access: Access, path: string, receiver: Receiver): Promise<{ ended: Promise<boolean> }> {
  const { headers, tls } = await proofOf(access, path)
  const { promise, resolve, reject } = Promise.withResolvers<{ ended: Promise<boolean> }>()
  const sent = requestTo(access.server + path, {
    ...tls,
    headers: { ...headers, 'user-agent': 'kubectl-vm' },
    agent: false,
  })
  const timer = setTimeout(() => sent.destroy(tooLate(headMs)), headMs)
  sent
    .on('response', (response) => {
      clearTimeout(timer)
      if (response.statusCode !== 200) return void refusalOf(path, response).then(reject)
      receiver.begin(positionIn(response))
      resolve({ ended: readAll(response, receiver) })
    })
    .on('error', (error) => {
      clearTimeout(timer)
      reject(new ApiUnreachable(`GET ${path}`, { cause: error }))
    })
    .end()
  return promise
}

/** @throws ApiUnreachable, for example if the exec plugin of a kubeconfig fails */
const proofOf = (access: Access, path: string) =>
  access.prove().catch((cause: unknown) => {
    throw new ApiUnreachable(`GET ${path}`, { cause })
  })

const tooLate = (ms: number): Error => new Error(`no response within ${ms / 1000} s`)

/** Whether the response is complete; not if the connection was lost. Throws the errors of the receiver. */
async function readAll(response: IncomingMessage, receiver: Receiver): Promise<boolean> {
  const { silentMs } = receiver
  const expectMore = () => (silentMs === undefined ? undefined : setTimeout(() => response.destroy(), silentMs))
  let timer = expectMore()
  let isReceiving = false
  try {
    for await (const chunk of response) {
      // Not while the receiver is slow, such as a pager that nobody reads on.
      clearTimeout(timer)
      isReceiving = true
      if (Buffer.isBuffer(chunk)) await receiver.receive(chunk)
      isReceiving = false
      timer = expectMore()
    }
  } catch (error) {
    if (isReceiving || response.complete) throw error
  } finally {
    clearTimeout(timer)
  }
  return response.complete
}

const positionIn = ({ headers }: IncomingMessage): ConsolePosition | undefined =>
  parsePosition(String(headers[positionHeader] ?? ''))

/** Its text is left out if it is longer: the cluster can be hostile. @throws Error if it is late, or the connection lost */
export async function refusalText(response: IncomingMessage): Promise<string> {
  const timer = setTimeout(() => response.destroy(tooLate(refusalMs)), refusalMs)
  try {
    return (await boundedText(response, maxRefusalBytes)) ?? ''
  } finally {
    clearTimeout(timer)
  }
}

async function refusalOf(path: string, response: IncomingMessage): Promise<Error> {
  try {
    const body = await refusalText(response)
    return new ApiError(
      `GET ${path}`,
      statusOf(response.statusCode ?? 0, body.startsWith('{') ? JSON.parse(body) : body),
    )
  } catch (error) {
    return new ApiUnreachable(`GET ${path}`, { cause: error })
  }
}
