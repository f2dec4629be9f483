import { connect, type Socket, type NetConnectOpts } from 'node:net'
import type { Clock } from '../runtime/clock.ts'

/** The handler waits 5 s for a session. */
const dialDeadlineMs = 3000

/** A connected socket. @throws the error of the connection, or one with the code ETIMEDOUT */
export function dial(to: NetConnectOpts, clock: Pick<Clock, 'after'>): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const socket = connect(to)
  const cancel = clock.after(dialDeadlineMs, () => {
    reject(Object.assign(new Error('no connection within 3 s'), { code: 'ETIMEDOUT' }))
    socket.destroy()
  })
  socket.once('error', reject)
  socket.once('connect', () => resolve(socket.setNoDelay(true)))
  return promise.finally(cancel)
}
