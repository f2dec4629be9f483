import type { Duplex } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { parseGuestMetrics, type GuestMetrics } from '../../api/guest-metrics.ts'
import { readPaced, stalledMs } from '../../runtime/carry.ts'
import type { Clock } from '../../runtime/clock.ts'
import { joinChunks } from '../../runtime/joined-chunks.ts'
import { maxMetricsBytes, maxScreenshotBytes } from '../../runtime/session-api.ts'
import { SessionRefusal } from './session-client.ts'
import type { SessionRequest } from './session-request.ts'
import { lost, type Bridged, type Ending } from './web-socket.ts'

export const ended: Ending = { code: 1000, reason: 'the VM has ended' }
const pictured: Ending = { code: 1000, reason: 'the screenshot was sent' }
export const measured: Ending = { code: 1000, reason: 'the metrics were sent' }

/** What a response without an upgrade has. */
interface Content {
  readonly type: string
  readonly maxBytes: number
  readonly ending: Ending
  /** The limit for all of it. */
  readonly totalMs?: number
}

/** A launcher has as much for a screenshot, from the request. */
const screenshotMs = 30_000
/** A launcher has measured before its session begins. */
const metricsMs = 5000

export const contents: { readonly [kind in SessionRequest['kind']]?: Content } = {
  log: { type: 'text/plain; charset=utf-8', maxBytes: Infinity, ending: ended },
  screenshot: { type: 'image/png', maxBytes: maxScreenshotBytes, ending: pictured, totalMs: screenshotMs },
  metrics: { type: 'application/json', maxBytes: maxMetricsBytes, ending: measured },
}

/**
 * Writes a session to a response. A client that reads nothing for a minute is disconnected, and so is that of a session
 * that is cut off: it must not take the part for the whole.
 * @param read what the client gets of a chunk
 * @param isWhole asked when the guest's side has ended
 */
export function stream(
  guest: Duplex,
  client: Duplex | FastifyReply['raw'],
  {
    maxBytes,
    ending: usual,
    totalMs,
    clock,
    read,
    isWhole,
  }: Content & {
    readonly clock: Clock
    readonly read: (chunk: Buffer) => Buffer
    readonly isWhole: () => Promise<boolean>
  },
) {
  const { promise: running, resolve } = Promise.withResolvers<Bridged>()
  let fromGuest = 0
  let ending = usual
  let isClosed = false
  let cancel = () => {}
  /** It may read nothing of what is to be sent before the end. */
  const disconnectIfStalled = () => {
    cancel()
    if (!isClosed) cancel = clock.after(stalledMs, () => client.destroy())
  }
  const cancelTotal = totalMs === undefined ? () => {} : clock.after(totalMs, () => client.destroy())
  const end = (why: Ending) => {
    ending = why
    client.destroy()
  }
  readPaced(
    guest,
    (ms, run) => clock.after(ms, run),
    (chunk) => {
      fromGuest += chunk.length
      if (fromGuest > maxBytes) client.destroy()
      if (client.write(read(chunk))) return undefined
      const drained = Promise.withResolvers<void>()
      disconnectIfStalled()
      client.once('drain', () => {
        cancel()
        drained.resolve()
      })
      return drained.promise
    },
  )
  let isEnding = false
  const finish = async () => {
    if (isClosed || isEnding) return
    isEnding = true
    if (!(await isWhole())) return end(lost)
    client.end()
    disconnectIfStalled()
  }
  guest.on('error', () => {}).once('close', () => void finish())
  guest.once('end', () => void finish())
  // The end can arrive together with the response that began the session.
  if (guest.destroyed || guest.readableEnded) void finish()
  client.on('error', () => {})
  client.once('close', () => {
    isClosed = true
    cancel()
    cancelTotal()
    guest.destroy()
    resolve({ ...ending, toGuest: 0, fromGuest })
  })
  return { running, end }
}

/** Reads a session of metrics to its end; without a text if it is too long, takes too long, or breaks off. */
export async function readMetrics(
  guest: Duplex,
  clock: Pick<Clock, 'after'>,
): Promise<{ readonly text: string | undefined; readonly bytes: number }> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const joined = joinChunks()
  let bytes = 0
  const cancel = clock.after(metricsMs, () => guest.destroy())
  readPaced(
    guest,
    (ms, run) => clock.after(ms, run),
    (chunk) => {
      bytes += chunk.length
      if (bytes > maxMetricsBytes) guest.destroy()
      else joined.add(chunk)
      return undefined
    },
  )
  guest
    .on('error', () => {})
    .once('end', () => resolve(true))
    .once('close', () => resolve(false))
  // The end can arrive together with the response that began the session.
  if (guest.destroyed || guest.readableEnded) resolve(false)
  const isWhole = await promise
  cancel()
  guest.destroy()
  return { text: isWhole ? joined.text() : undefined, bytes }
}

/** @throws SessionRefusal if the text is something else */
export function metricsIn(text: string | undefined): GuestMetrics {
  try {
    return parseGuestMetrics(JSON.parse(text ?? ''))
  } catch (cause) {
    throw new SessionRefusal(
      { code: 502, reason: 'BadGateway', message: 'the launcher of the VM did not send metrics' },
      { cause },
    )
  }
}
