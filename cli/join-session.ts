import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Clock } from '../runtime/clock.ts'
import type { Attachment, Closed, Receiver } from './attachment.ts'

/** A session cannot close one half, so it ends when a client that has sent everything receives nothing for so long. */
const lingerMs = 10_000

/**
 * Carries bytes between a local stream and a session until one of them ends. If the session ends regularly, so does the
 * stream; otherwise the stream is cut, so that its reader does not take a part for the whole. Memory is limited to the
 * buffers of both.
 * @throws the errors of `open`, after which the stream is untouched
 */
export async function joinSession(
  local: Duplex,
  open: (receiver: Receiver) => Promise<Attachment>,
  clock: Pick<Clock, 'after'>,
): Promise<Closed> {
  local.on('error', () => {})
  let cancelLinger = () => {}
  let hasEnded = false
  const linger = () => {
    cancelLinger()
    cancelLinger = clock.after(lingerMs, () => session.close())
  }
  const session = await open({
    begin: () => {},
    receive: (chunk) => {
      if (hasEnded) linger()
      return local.destroyed ? undefined : written(local, chunk)
    },
  })
  if (local.destroyed) session.close()
  local.on('data', (chunk: Buffer) => {
    const blocked = session.send(chunk)
    if (blocked === undefined) return
    local.pause()
    void blocked.then(() => local.resume())
  })
  local.once('end', () => {
    hasEnded = true
    linger()
  })
  local.once('close', () => session.close())
  const closed = await session.closed
  cancelLinger()
  if (closed.code === 1000) local.end()
  else cut(local)
  return closed
}

/** Pending until the stream can take more, or is closed. */
function written(to: Duplex, chunk: Buffer): Promise<void> | undefined {
  if (to.write(chunk)) return undefined
  return new Promise((resolve) => {
    const proceed = () => {
      to.off('drain', proceed).off('close', proceed)
      resolve()
    }
    to.on('drain', proceed).on('close', proceed)
  })
}

/** Ends a connection so that its client notices that it is incomplete. */
export function cut(local: Duplex): void {
  if (local instanceof Socket && local.remotePort !== undefined) local.resetAndDestroy()
  else local.destroy()
}
