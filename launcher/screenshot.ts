import type { Duplex } from 'node:stream'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { isPng, maxScreenshotBytes, pngStartBytes } from '../runtime/session-api.ts'
import type { GuestSession } from './guest-session.ts'
import { Refused } from './refused.ts'

/** For a picture, from the request to the last byte. */
const pictureMs = 30_000

interface ScreenshotOptions {
  /** Begins a PNG of the first screen. */
  readonly open: () => Promise<Duplex>
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Pictures of the guest's screen, one at a time: QEMU stops the guest while it creates one, and a QEMU that hangs must
 * not occupy libvirtd. A picture is not stored here; it is read as fast as its reader takes it.
 */
export function createScreenshots({ open, clock, log }: ScreenshotOptions): () => Promise<GuestSession> {
  let isBusy = false
  return async () => {
    if (isBusy) throw new Refused('TooManySessions', 'another screenshot is being taken; try again')
    isBusy = true
    try {
      const picture = await open()
      picture.on('error', () => {}).once('close', () => (isBusy = false))
      const cancelDeadline = clock.after(pictureMs, () => picture.destroy())
      picture.once('close', cancelDeadline)
      const first = await readStart(picture)
      if (!isPng(first)) {
        picture.destroy()
        throw new Refused('InternalError', 'libvirt has returned a picture that is not a PNG')
      }
      return { start: (socket) => send(first, picture, socket, log), cancel: () => void picture.destroy() }
    } catch (error) {
      isBusy = false
      throw error
    }
  }
}

/** The first chunks, as many as `isPng` needs. @throws Refused if the stream ends before */
function readStart(picture: Duplex): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const fail = () => reject(new Refused('NotReady', 'QEMU did not take a picture of the screen'))
  // It can have failed before this is called; no event follows then.
  if (picture.destroyed) fail()
  let start = Buffer.alloc(0)
  const read = (chunk: Buffer) => {
    start = Buffer.concat([start, chunk])
    if (start.length < pngStartBytes) return
    picture.off('data', read).pause()
    resolve(start)
  }
  picture.on('data', read)
  picture.once('close', fail)
  return promise
}

function send(first: Buffer, picture: Duplex, socket: Duplex, log: Logger): void {
  let bytes = first.length
  let isWhole = false
  socket.resume().write(first)
  picture.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxScreenshotBytes) {
      log.warn({ bytes }, 'a screenshot is too large')
      picture.destroy()
    } else if (!socket.write(chunk)) {
      picture.pause()
      socket.once('drain', () => picture.resume())
    }
  })
  picture.once('end', () => {
    isWhole = true
    socket.end()
  })
  picture.once('close', () => {
    if (!isWhole) socket.destroy()
  })
  socket.once('close', () => picture.destroy())
  if (picture.destroyed) socket.destroy()
  picture.resume()
}
