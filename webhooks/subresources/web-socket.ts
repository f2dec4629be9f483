import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { createBucket } from '../../runtime/bucket.ts'
import { readPaced, smallChunkBytes } from '../../runtime/carry.ts'
import type { Clock } from '../../runtime/clock.ts'

/** Why a session ended, as the client gets it. */
export interface Ending {
  /** A close code of WebSocket. */
  readonly code: number
  readonly reason: string
}

/** How a session ended, and the bytes that it carried. */
export interface Bridged extends Ending {
  readonly toGuest: number
  readonly fromGuest: number
}

export interface Bridge {
  readonly ended: Promise<Bridged>
  readonly close: (ending: Ending) => void
}

/** Load balancers close connections that are silent for longer. */
export const pingMs = 20_000

/** How long a client may take to answer a close. Then its connection is cut, so that the webhooks can stop in time. */
export const closeMs = 5000

/**
 * A frame costs CPU time whatever its size, so small ones are limited, far above the speed of typing. A client that
 * sends more is not read for as long as its debt.
 */
const frames = { perSecond: 500, burst: 500 }
/** A client can send pings as fast as it likes, but does not get more answers than this. */
const pongs = { perSecond: 2, burst: 10 }

/** More than this waits for a client only in its launcher. */
const maxWaitingBytes = 256 * 1024

const maxPayload = 256 * 1024

/** The options of the WebSocket server. A terminal sends a key, or a paste, in one frame of one fragment. */
export const webSocketOptions = {
  noServer: true,
  maxPayload,
  // An incomplete frame is buffered as the chunks in which it arrives, however small they are.
  maxBufferedChunks: maxPayload / 1024,
  maxFragments: 16,
  perMessageDeflate: false,
  autoPong: false,
} as const

/**
 * Carries bytes between a WebSocket and a session with a guest. Memory and CPU time are limited whatever the client
 * does: what cannot be passed on is not read. A client that does not answer a ping until the next one is disconnected,
 * which includes one that never reads.
 * @param endingOf why the session ended, once the guest's side has
 */
export function bridge(
  client: WebSocket,
  guest: Duplex,
  { clock, endingOf }: { readonly clock: Clock; readonly endingOf: () => Promise<Ending> },
): Bridge {
  const { promise: ended, resolve } = Promise.withResolvers<Bridged>()
  const small = createBucket(frames.perSecond, frames.burst, clock)
  const answers = createBucket(pongs.perSecond, pongs.burst, clock)
  const cancels = new Set<() => void>()
  let [toGuest, fromGuest] = [0, 0]
  let isAlive = true
  let given: Ending | undefined

  const after = (ms: number, run: () => void): void => {
    const cancel = clock.after(ms, () => {
      cancels.delete(cancel)
      run()
    })
    cancels.add(cancel)
  }
  const close = (ending: Ending): void => {
    given ??= ending
    client.close(ending.code, ending.reason)
    after(closeMs, () => client.terminate())
  }

  /** Why the client is not read at the moment. */
  const holds = new Set<'frames' | 'guest'>()
  const hold = (why: 'frames' | 'guest') => {
    holds.add(why)
    client.pause()
  }
  const release = (why: 'frames' | 'guest') => {
    holds.delete(why)
    isAlive = true
    if (holds.size === 0) client.resume()
  }
  const charge = (bytes: number) => {
    isAlive = true
    if (bytes >= smallChunkBytes) return
    const debtMs = small.take()
    if (debtMs === 0 || holds.has('frames')) return
    hold('frames')
    after(debtMs, () => {
      release('frames')
    })
  }

  // The frames that arrived together are written together.
  let typed: Buffer[] = []
  const write = () => {
    const chunk = Buffer.concat(typed)
    typed = []
    toGuest += chunk.length
    if (guest.destroyed || guest.write(chunk)) return
    hold('guest')
    guest.once('drain', () => release('guest'))
  }
  client.on('message', (data) => {
    const chunk = Buffer.isBuffer(data) ? data : Buffer.alloc(0)
    charge(chunk.length)
    if (chunk.length === 0) return
    if (typed.length === 0) setImmediate(write)
    typed.push(chunk)
  })
  client.on('ping', (data) => {
    charge(0)
    if (answers.takeIfAny()) client.pong(data)
  })
  client.on('pong', () => charge(0))

  readPaced(guest, after, (chunk) => {
    fromGuest += chunk.length
    const sent = Promise.withResolvers<void>()
    client.send(chunk, { binary: true }, () => {
      if (client.bufferedAmount < maxWaitingBytes) sent.resolve()
    })
    return client.bufferedAmount < maxWaitingBytes ? undefined : sent.promise
  })

  const ping = () => {
    // The answers of a client that is not read cannot arrive.
    if (!isAlive && holds.size === 0) {
      given ??= { code: 1006, reason: 'the client does not respond' }
      return client.terminate()
    }
    isAlive = false
    client.ping()
    return after(pingMs, ping)
  }
  after(pingMs, ping)

  let isOver = false
  const guestEnded = () => {
    if (isOver) return
    isOver = true
    endingOf().then(close, () => close(lost))
  }
  guest.on('end', guestEnded).on('close', guestEnded).on('error', guestEnded)
  client.on('error', () => {})
  client.on('close', (code, reason) => {
    isOver = true
    for (const cancel of cancels) cancel()
    guest.destroy()
    resolve({ ...(given ?? { code, reason: reason.toString() }), toGuest, fromGuest })
  })
  // The end can arrive together with the response that began the session.
  if (guest.destroyed || guest.readableEnded) guestEnded()
  return { ended, close }
}

/** The client should connect again. */
export const lost: Ending = { code: 1012, reason: 'the connection to the node was lost; connect again' }
