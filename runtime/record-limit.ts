import type { Socket } from 'node:net'
import { createBucket } from './bucket.ts'
import { smallChunkBytes } from './carry.ts'
import type { Clock } from './clock.ts'

/**
 * TLS delivers one chunk for each record, and a record of one byte has 23 bytes on the wire, takes up to 600 bytes of
 * memory, and costs as much CPU time as one of a few KiB. So small records are limited, far above the speed of typing.
 */
const records = { perSecond: 500, burst: 1000 }

/** Records of this size on average are free. What `carry` sends has more: at most one small chunk follows a large one. */
const freeBytes = smallChunkBytes / 2

/**
 * Lets a socket of TLS cost what its bytes cost, whoever reads it, or does not read it. Small records that arrive
 * together are delivered together, in chunks of at most 4 KiB, and so are those that arrive while the socket is paused.
 * A peer that sends too many is not read for as long as its debt, so the kernel's buffers make it wait. Node decrypts
 * all that it has read at once, so up to 64 KiB, or 2,900 records, arrive first.
 */
export function limitRecords(socket: Socket, clock: Pick<Clock, 'after' | 'monotonic'>): void {
  const bucket = createBucket(records.perSecond, records.burst, clock)
  const push = socket.push.bind(socket)
  const read = socket.read.bind(socket)
  const readMore = socket._read.bind(socket)
  let joined: Buffer = none
  let length = 0
  let isScheduled = false
  let isHeld = false
  let wanted: number | undefined
  let cancel = () => {}

  const hold = (debtMs: number) => {
    isHeld = true
    cancel = clock.after(debtMs, () => {
      const restMs = bucket.take(0)
      if (restMs > 0) return hold(restMs)
      isHeld = false
      if (wanted === undefined) return
      const size = wanted
      wanted = undefined
      readMore(size)
    })
  }
  const flush = () => {
    if (length === 0) return
    const chunk = exact(joined, length)
    joined = none
    length = 0
    push(chunk)
  }
  // What a paused socket has buffered remains one chunk, however slowly it arrives.
  const flushUnlessPaused = () => {
    isScheduled = false
    if (socket.readableFlowing === true || socket.readableLength === 0) flush()
  }
  const join = (chunk: Buffer) => {
    if (length + chunk.length > smallChunkBytes) flush()
    if (length === 0) joined = chunk
    else {
      if (joined.length < smallChunkBytes) joined = enlarge(joined)
      chunk.copy(joined, length)
    }
    length += chunk.length
    if (isScheduled) return
    isScheduled = true
    // Records that were read at once are delivered in turns of their own, which end before this runs.
    setImmediate(flushUnlessPaused)
  }

  socket._read = (size) => {
    if (isHeld) wanted = size
    else readMore(size)
  }
  socket.read = (size?: number): unknown => {
    // 0 only lets Node read more.
    if (size !== 0) flush()
    return read(size)
  }
  socket.push = (chunk: Buffer | null) => {
    if (chunk === null) {
      flush()
      return push(null)
    }
    const debtMs = bucket.take(1 - chunk.length / freeBytes)
    if (debtMs > 0 && !isHeld) hold(debtMs)
    if (chunk.length < smallChunkBytes) {
      join(chunk)
      return !isHeld && socket.readableLength < socket.readableHighWaterMark
    }
    flush()
    const acceptsMore = push(chunk)
    return acceptsMore && !isHeld
  }
  socket.once('close', () => cancel())
}

const none = Buffer.alloc(0)

function enlarge(chunk: Buffer): Buffer {
  const large = Buffer.allocUnsafeSlow(smallChunkBytes)
  chunk.copy(large)
  return large
}

/** The first bytes of a buffer, which can be stored: they keep at most twice their size in memory. */
function exact(buffer: Buffer, length: number): Buffer {
  if (2 * length >= buffer.length) return buffer.subarray(0, length)
  const copy = Buffer.allocUnsafeSlow(length)
  buffer.copy(copy, 0, 0, length)
  return copy
}
