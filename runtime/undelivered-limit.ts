import type { Socket } from 'node:net'
import type { Clock } from './clock.ts'
import { transportOf } from './transport.ts'

/** Of an honest peer, each record has 22 bytes in addition to what it delivers. */
const most = { perSecond: 64 * 1024, share: 1 / 16 }

/**
 * For sockets of TLS. One is closed with an error if its peer sends too much that is not delivered, such as KeyUpdate:
 * TLS has no limit for it, 27 bytes of it take 6 µs, and no event tells of it.
 */
export function createUndeliveredLimit(clock: Pick<Clock, 'after'>): (socket: Socket) => void {
  const counts = new Map<Socket, { readonly read: number; readonly delivered: number }>()
  const countOf = (socket: Socket) => ({ read: transportOf(socket).bytesRead, delivered: socket.bytesRead })
  let cancel: (() => void) | undefined
  // One timer for all: idle sessions must cost nothing.
  const check = () => {
    for (const [socket, before] of counts) {
      const now = countOf(socket)
      const [sent, useful] = [now.read - before.read, now.delivered - before.delivered]
      if (sent - useful > most.perSecond + useful * most.share) {
        socket.destroy(new Error(`it sent ${sent} bytes that contained ${useful}`))
      } else {
        counts.set(socket, now)
      }
    }
    cancel = clock.after(1000, check)
  }
  return (socket) => {
    counts.set(socket, { read: 0, delivered: 0 })
    cancel ??= clock.after(1000, check)
    socket.once('close', () => {
      counts.delete(socket)
      if (counts.size > 0) return
      cancel?.()
      cancel = undefined
    })
  }
}
