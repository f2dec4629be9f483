import type { Socket } from 'node:net'
import type { Clock } from './clock.ts'
import { transportOf } from './transport.ts'

/** Of an honest peer, each record has 22 bytes in addition to what it delivers. */
const most = { perSecond: 64 * 1024, share: 1 / 16 }

/**
 * Closes a socket of TLS with an error if its peer sends too much that is not delivered, such as KeyUpdate: TLS has no
 * limit for it, 27 bytes of it take 6 µs, and no event tells of it.
 */
export function limitUndelivered(socket: Socket, clock: Pick<Clock, 'after'>): void {
  const transport = transportOf(socket)
  let [read, delivered] = [0, 0]
  let cancel = () => {}
  const check = () => {
    const [sent, useful] = [transport.bytesRead - read, socket.bytesRead - delivered]
    if (sent - useful > most.perSecond + useful * most.share) {
      socket.destroy(new Error(`it sent ${sent} bytes that contained ${useful}`))
      return
    }
    read += sent
    delivered += useful
    cancel = clock.after(1000, check)
  }
  cancel = clock.after(1000, check)
  socket.once('close', () => cancel())
}
