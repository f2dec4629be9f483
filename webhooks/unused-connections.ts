import type { IncomingMessage } from 'node:http'
import type { Server } from 'node:https'
import type { Socket } from 'node:net'
import type { Clock } from '../runtime/clock.ts'

/** When draining, a connection that is older has no request on its way. */
export const unusedMs = 1000

/**
 * The connections that have had no request yet: Node regards a connection as idle, and closes it, only after its first
 * request.
 * @param hasUpgrades otherwise, an upgrade is a request like any other
 * @returns what closes those that are older than `unusedMs`
 */
export function watchUnused(server: Server, clock: Pick<Clock, 'monotonic'>, hasUpgrades: boolean): () => void {
  const unused = new Map<Socket, number>()
  const use = ({ socket }: IncomingMessage) => void unused.delete(socket)
  server
    .on('secureConnection', (socket) => {
      // A session of HTTP/2 is closed by the server, and its client was told before.
      if (socket.alpnProtocol === 'h2') return
      unused.set(socket, clock.monotonic())
      socket.once('close', () => unused.delete(socket))
    })
    .on('request', use)
  if (hasUpgrades) server.on('upgrade', use)
  return () => {
    for (const [socket, sinceMs] of unused) if (clock.monotonic() - sinceMs >= unusedMs) socket.destroy()
  }
}
