import type { Duplex } from 'node:stream'
import type { Clock } from './clock.ts'

/**
 * After a chunk below this size, reading pauses, so that the kernel collects what follows. Not if it follows a large one
 * directly: that is the end of a burst, and there are at most as many as large ones.
 */
export const smallChunkBytes = 4096
export const pauseMs = 4

/**
 * For sockets that are read with pauses: with a buffer of one byte, Node stops to read after one more chunk, and the
 * kernel joins the next ones. A chunk can still have 64 KiB.
 */
export const pacedOptions = { allowHalfOpen: false, readableHighWaterMark: 1 }

/** A side that accepts no byte for this long is disconnected. */
export const stalledMs = 60_000

/** How long the other side has to finish after one side has ended. */
const lingerMs = 10_000

/** Counts of the bytes that were carried. */
export interface Carried {
  /** From the first stream to the second. */
  readonly sent: number
  readonly received: number
}

/**
 * Carries bytes between two streams until both have ended, or one fails. Resolves, never rejects; both streams are
 * destroyed then. Memory is limited to the buffers of the streams. A side that sends single bytes causes 250 writes per
 * second, not one for each byte; the first byte is not delayed.
 */
export function carry(one: Duplex, other: Duplex, clock: Clock): Promise<Carried> {
  const { promise, resolve } = Promise.withResolvers<Carried>()
  const cancels = new Set<() => void>()
  let [sent, received] = [0, 0]

  const finish = () => {
    for (const cancel of cancels) cancel()
    one.destroy()
    other.destroy()
    resolve({ sent, received })
  }
  const after = (ms: number, run: () => void): (() => void) => {
    const cancelTimer = clock.after(ms, () => {
      cancels.delete(cancel)
      run()
    })
    const cancel = () => {
      cancels.delete(cancel)
      cancelTimer()
    }
    cancels.add(cancel)
    return cancel
  }

  const flow = (from: Duplex, to: Duplex, count: (bytes: number) => void) => {
    const fromEnded = () => {
      after(lingerMs, finish)
      to.end()
    }
    // An error is followed by `close`, as is the end of both directions.
    from.on('error', () => {})
    // The end can arrive together with the response that began the session. What was written to the other side remains.
    if (from.readableEnded || from.destroyed) return fromEnded()
    readPaced(from, after, (chunk) => {
      count(chunk.length)
      if (to.write(chunk)) return undefined
      const drained = Promise.withResolvers<void>()
      const cancel = after(stalledMs, finish)
      to.once('drain', () => {
        cancel()
        drained.resolve()
      })
      return drained.promise
    })
    from.once('end', fromEnded)
    from.once('close', () => {
      if (to.destroyed || !from.readableEnded) finish()
    })
    return undefined
  }
  flow(one, other, (bytes) => (sent += bytes))
  flow(other, one, (bytes) => (received += bytes))
  return promise
}

/**
 * Delivers what a stream sends. A socket should have the buffer of `pacedOptions`: Node reads until the buffer is full,
 * even while the stream is paused. After a small chunk, unless it follows a large one, it does not read for some
 * milliseconds, and while the returned promise is pending.
 * @param after runs a function after a time, unless the stream has ended before
 */
export function readPaced(
  from: Pick<Duplex, 'on' | 'pause' | 'resume' | 'read'>,
  after: (ms: number, run: () => void) => unknown,
  deliver: (chunk: Buffer) => Promise<void> | undefined,
): void {
  let isHeld = false
  let wasLarge = false
  const accept = (chunk: Buffer) => {
    const blocked = deliver(chunk)
    const isFree = wasLarge || chunk.length >= smallChunkBytes
    wasLarge = chunk.length >= smallChunkBytes
    if (blocked === undefined && isFree) return
    isHeld = true
    from.pause()
    if (blocked === undefined) after(pauseMs, proceed)
    else void blocked.then(proceed)
  }
  const proceed = () => {
    isHeld = false
    // Emits `data` with everything that the stream has buffered meanwhile, as one chunk. A large one does not hold.
    from.read()
    if (!isHeld) from.resume()
  }
  from.on('data', accept)
}
