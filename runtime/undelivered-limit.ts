import type { Socket } from 'node:net'
import type { Clock } from './clock.ts'
import { transportOf } from './transport.ts'

/** Of an honest peer, each record has 22 bytes in addition to what it delivers. */
const most = { perSecond: 64 * 1024, share: 1 / 16 }

/**
 * For sockets of TLS. One is closed with an error if its peer sends too much that is not delivered, such as KeyUpdate:
 * TLS has no limit for it, 27 bytes of it take 6 µs, and no event tells of it.
 * @returns `exceeded` is also called for a socket that closes earlier
 */
export function createUndeliveredLimit(
  clock: Pick<Clock, 'after'>,
): (socket: Socket, exceeded: (problem: string) => void) => void {
  interface Watched {
    readonly transport: Socket
    read: number
    delivered: number
    readonly exceeded: (problem: string) => void
  }
  const all = new Map<Socket, Watched>()
  let cancel: (() => void) | undefined
  const problemOf = (socket: Socket, { transport, read, delivered }: Watched): string | undefined => {
    const [sent, useful] = [transport.bytesRead - read, socket.bytesRead - delivered]
    const isTooMuch = sent - useful > most.perSecond + useful * most.share
    return isTooMuch ? `it sent ${sent} bytes that contained ${useful}` : undefined
  }
  // One timer for all: idle sessions must cost nothing.
  const check = () => {
    for (const [socket, watched] of all) {
      const problem = problemOf(socket, watched)
      if (problem !== undefined) socket.destroy(new Error(problem))
      else [watched.read, watched.delivered] = [watched.transport.bytesRead, socket.bytesRead]
    }
    cancel = clock.after(1000, check)
  }
  return (socket, exceeded) => {
    all.set(socket, { transport: transportOf(socket), read: 0, delivered: 0, exceeded })
    cancel ??= clock.after(1000, check)
    socket.once('close', () => {
      const watched = all.get(socket)
      const problem = watched && problemOf(socket, watched)
      all.delete(socket)
      if (problem !== undefined) exceeded(problem)
      if (all.size > 0) return
      cancel?.()
      cancel = undefined
    })
  }
}
