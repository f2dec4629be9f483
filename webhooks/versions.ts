import type { ServerHttp2Session } from 'node:http2'
import type { Server, Socket } from 'node:net'
import type { Clock } from '../runtime/clock.ts'
import { connectionWindow } from './http2.ts'

/** Which version of HTTP clients speak that can speak both. */
export interface Versions {
  /** The ALPN callback of TLS. */
  readonly choose: (client: { readonly protocols: readonly string[] }) => string | undefined
  /** @param isKnown whether a client of the address was proven; connections of others count nothing */
  readonly watch: (server: Server, isKnown: (address: string) => boolean) => void
  /** An accepted connection serves one session of a user from now on. */
  readonly discount: (socket: Socket) => void
  /** Its sessions end with requests on their way, so none begins anymore. */
  readonly leaveHttp2: () => void
}

/** How long there must not be more requests in flight than the most before sessions of HTTP/2 are ended. */
export const calmMs = 30_000

/**
 * HTTP/2 while more than `most` connections are open: the aggregator opens one for each request in flight otherwise, and
 * requests of all users wait for these behind those of one who has thousands in flight. Usually HTTP/1.1, because its
 * connections lead to all replicas, accept larger heads, and end without losing a request.
 *
 * @param clock if present, sessions of HTTP/2 end when fewer requests are in flight again; otherwise, when they are idle
 */
export function createVersions(most: number, clock?: Pick<Clock, 'after'>): Versions {
  const connections = new Set<Socket>()
  const sessions = new Set<ServerHttp2Session>()
  /** Requests in flight by HTTP/2, which would each have a connection otherwise. */
  let streams = 0
  let isLeaving = false
  let keep: (() => void) | undefined
  const review = () => {
    if (connections.size + streams > most || sessions.size === 0) {
      keep?.()
      keep = undefined
    } else {
      keep ??= clock?.after(calmMs, () => {
        keep = undefined
        for (const session of sessions) session.close()
      })
    }
  }
  const discount = (socket: Socket) => {
    if (connections.delete(socket)) review()
  }
  return {
    choose: ({ protocols }) => {
      const preferred = connections.size > most && !isLeaving ? ['h2', 'http/1.1'] : ['http/1.1', 'h2']
      return preferred.find((protocol) => protocols.includes(protocol))
    },
    watch(server, isKnown) {
      // At once, not after its handshake: hundreds can wait for that, and have chosen by then.
      server.on('connection', (socket) => {
        if (!isKnown(socket.remoteAddress ?? '')) return
        connections.add(socket)
        socket.once('close', () => discount(socket))
        review()
      })
      server.on('session', (session: ServerHttp2Session) => {
        session.setLocalWindowSize(connectionWindow)
        // With a listener, pings keep a session open whose streams are silent.
        session.on('ping', () => {})
        session.on('stream', (stream) => {
          // Reset together with its head, it may have emitted `close` already.
          if (stream.destroyed) return
          streams++
          review()
          stream.once('close', () => {
            streams--
            review()
          })
        })
        sessions.add(session)
        session.once('close', () => {
          sessions.delete(session)
          review()
        })
        review()
      })
    },
    discount,
    leaveHttp2: () => void (isLeaving = true),
  }
}
