import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants, Http2ServerRequest, type ServerHttp2Stream } from 'node:http2'
import type { Server } from 'node:net'
import type { Duplex } from 'node:stream'

/**
 * Of a stream: what a request may have sent before anything reads it. More would be held by thousands of requests to
 * which nothing responds, on one connection.
 */
const streamWindow = 32 * 1024
export const connectionWindow = 2048 * streamWindow

/** Go dials for each request that finds all streams of its connections taken: more than one user has in flight. */
const mostStreams = 4096

/** No limit: for each request that a user aborts, the API server resets a stream of the connection that all share. */
const unlimited = 2 ** 31 - 1

/** When clients speak HTTP/2, and what they may send. */
export interface Multiplexing {
  /** Whether they speak it only until there are fewer connections again. */
  readonly isTemporary?: boolean
  /** With more connections than these. */
  readonly above: number
  /** The most bytes and the most headers of a request. */
  readonly head: { readonly bytes: number; readonly headers: number }
}

export const http2Options = (head: Multiplexing['head']) => ({
  // API servers can have HTTP/2 switched off, and requests to be upgraded come by HTTP/1.1.
  allowHTTP1: true,
  settings: {
    initialWindowSize: streamWindow,
    maxConcurrentStreams: mostStreams,
    // A head of more than nine frames ends the connection. Go sends none above the limit below, except in the first
    // requests of a connection, and in frames of 16 KiB then: that ends connections that have just begun.
    maxFrameSize: 64 * 1024,
    // Each header counts 32 bytes more than by HTTP/1.1.
    maxHeaderListSize: head.bytes + 32 * head.headers,
  },
  maxHeaderListPairs: head.headers,
  // In MB. By default, 10: new streams are reset while responses are to be sent. What waits is limited by the gates.
  maxSessionMemory: 1024,
  maxSessionInvalidFrames: unlimited,
  maxSessionRejectedStreams: unlimited,
  streamResetBurst: unlimited,
  streamResetRate: unlimited,
})

/** The stream of a request; undefined by HTTP/1.1. */
export const streamOf = (message: object): ServerHttp2Stream | undefined =>
  message instanceof Http2ServerRequest ? message.stream : undefined

/**
 * Drops a request that has been reset, by HTTP/2 possibly together with its head. Nothing is to be sent then.
 *
 * @returns whether it has been
 */
export function dropIfReset(message: object): boolean {
  const stream = streamOf(message)
  if (stream === undefined || !(stream.closed || stream.destroyed)) return false
  stream.destroy()
  return true
}

/**
 * Frees the headers of a request that waits: 128 KiB of them take half a MiB. Those of HTTP/2 can only be emptied.
 */
export function dropHeaders({ rawHeaders, headers }: Pick<IncomingMessage, 'rawHeaders' | 'headers'>): void {
  rawHeaders.length = 0
  // The method and the path are among them.
  for (const name of Object.keys(headers)) if (!name.startsWith(':')) delete headers[name]
}

/** Ends a request without a response: by HTTP/2 its stream, and otherwise its connection. */
export function abort(message: Pick<IncomingMessage, 'socket'>): void {
  const stream = streamOf(message)
  if (stream === undefined) message.socket.destroy()
  else stream.close(constants.NGHTTP2_CANCEL)
}

/** Those that Fastify routes. */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

/**
 * Lets routes and their limits see each request. By themselves, Node and Fastify respond at once to CONNECT, to a method
 * that they do not know, which by HTTP/2 can be any text, and to expectations. Such a request becomes one with a method
 * that nothing at its path has.
 */
export function deliverEach(server: Server): void {
  server.prependListener('request', (message: IncomingMessage) => {
    if (!methods.has(message.method ?? '')) message.method = 'OPTIONS'
    // Otherwise Fastify takes it for one without a body: by HTTP/2, no other header has to announce that.
    if (streamOf(message)?.endAfterHeaders === false) message.headers['content-type'] ??= 'application/octet-stream'
  })
  // Node would respond by itself, and throw if the stream was reset together with its head.
  server.on('checkContinue', (message: IncomingMessage, response: ServerResponse) => {
    if (dropIfReset(message)) return
    response.writeContinue()
    server.emit('request', message, response)
  })
  server.on('checkExpectation', (message: IncomingMessage, response: ServerResponse) => {
    server.emit('request', message, response)
  })
  server.on('connect', (message: IncomingMessage, client: ServerResponse | Duplex) => {
    if (streamOf(message) === undefined) return void client.destroy()
    // It has none.
    message.url = '/apis'
    server.emit('request', message, client)
    return undefined
  })
}
