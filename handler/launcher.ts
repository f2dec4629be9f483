import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import {
  InvalidLauncherAnswer,
  heartbeatIntervalMs,
  heartbeatLine,
  maxAnswerBytes,
  parseDomainReport,
  parseJson,
  parseLauncherError,
  parsePutAnswer,
  type DomainReport,
  type LauncherErrorReason,
} from '../runtime/launcher-api.ts'
import type { Bucket } from '../runtime/bucket.ts'
import { systemClock, type Clock } from '../runtime/clock.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { HeldBytes } from './pending-bytes.ts'
import { openLauncherSocket, pathOf } from './socket.ts'

/** The launcher did not answer, or went away while it was asked: nothing is known about the VM. */
export class LauncherUnreachable extends Error {
  override name = 'LauncherUnreachable'
}

/** There is no socket: the launcher does not listen yet, or no longer. */
export class LauncherAbsent extends LauncherUnreachable {
  override name = 'LauncherAbsent'
}

/** The launcher answered, and the answer is no. `message` is libvirt's or QEMU's own. */
export class LauncherRefusal extends Error {
  override name = 'LauncherRefusal'
  readonly reason: LauncherErrorReason
  constructor(reason: LauncherErrorReason, message: string) {
    super(message)
    this.reason = reason
  }
}

/** A change: its state may be another. A heartbeat: it lives. */
export type LauncherEvent = 'change' | 'heartbeat'

/** One launcher, looked up by its pod's uid for each request, so that no socket of another pod can ever be meant. */
export interface Launcher {
  put(machine: VirtualMachine): Promise<DomainReport>
  report(): Promise<DomainReport>
  shutdown(gracePeriodSeconds: number): Promise<void>
  destroy(): Promise<void>
  final(): Promise<void>
  /**
   * Calls `onEvent` until the stream of events ends, falls silent or exceeds its limit; then it rejects. Of many events that arrive together
   * one is reported. Events are not parsed, and nothing of them is kept: what they are about is read with `report`.
   */
  watch(signal: AbortSignal, onEvent: (event: LauncherEvent) => void): Promise<never>
}

/** What a launcher can make the handler wait for, read and keep. */
export interface LauncherLimits {
  /** For a whole request; for the stream of events until it begins. */
  readonly deadlineMs: number
  /** Charged with the bytes of answers, if need be on credit. */
  readonly answers: Bucket
  /** Bytes of events. One that sends more is disconnected. */
  readonly events: Bucket
  readonly hold: (end: (reason: InvalidLauncherAnswer) => void) => HeldBytes
}

interface Request {
  readonly method: string
  readonly path: string
  readonly body?: string
}

export function launcherOf(
  kubeletRoot: string,
  podUID: string,
  limits: LauncherLimits,
  clock: Clock = systemClock,
): Launcher {
  const { deadlineMs } = limits
  const late = () => new LauncherUnreachable(`the launcher did not answer within ${Math.round(deadlineMs / 1000)} s`)

  const call = async (method: string, path: string, value?: unknown): Promise<unknown> => {
    const stop = new AbortController()
    const cancel = afterRunning(clock, deadlineMs, () => stop.abort(late()))
    const held = limits.hold((reason) => stop.abort(reason))
    try {
      const body = value === undefined ? {} : { body: JSON.stringify(value) }
      held.grow(body.body?.length ?? 0)
      const charge = (bytes: number) => {
        limits.answers.take(bytes)
        held.grow(bytes)
      }
      const read = (response: IncomingMessage) => readAll(response, charge)
      const { status, text } = await send(kubeletRoot, podUID, { method, path, ...body }, stop.signal, read)
      stop.signal.throwIfAborted()
      return answerOf(status, parseJson(text))
    } catch (error) {
      throw described(error, stop.signal)
    } finally {
      cancel()
      held.release()
    }
  }

  return {
    put: async ({ apiVersion, kind, metadata: { name, namespace, uid }, spec }) =>
      // Only what the launcher reads: a status may be as large as the spec.
      parsePutAnswer(await call('PUT', '/vm', { apiVersion, kind, metadata: { name, namespace, uid }, spec })),
    report: async () => parseDomainReport(await call('GET', '/domain')),
    shutdown: async (gracePeriodSeconds) => void (await call('POST', '/shutdown', { gracePeriodSeconds })),
    destroy: async () => void (await call('POST', '/destroy')),
    final: async () => void (await call('POST', '/final')),
    async watch(signal, onEvent) {
      const stop = new AbortController()
      const either = AbortSignal.any([signal, stop.signal])
      let cancel = afterRunning(clock, deadlineMs, () => stop.abort(late()))
      let beatMs = -Infinity
      const beat = () => {
        // Not for each of a thousand lines at once.
        if (clock.monotonic() - beatMs < heartbeatIntervalMs / 10) return
        beatMs = clock.monotonic()
        cancel()
        cancel = clock.after(3 * heartbeatIntervalMs, () => stop.abort(new LauncherUnreachable('no heartbeat')))
      }
      try {
        const read = lineReader()
        const onChunk = (chunk: Buffer) => {
          if (limits.events.take(costOf(chunk)) > 0) throw new InvalidLauncherAnswer('it sends events without end')
          const event = read(chunk)
          if (event === undefined) return
          beat()
          onEvent(event)
        }
        return await send(kubeletRoot, podUID, { method: 'GET', path: '/events' }, either, (response) => {
          beat()
          return drain(response, onChunk)
        })
      } catch (error) {
        throw described(error, either)
      } finally {
        cancel()
      }
    },
  }
}

/**
 * Runs `run` once after `delayMs` of this process: where it gets no CPU for longer than a slice, what has arrived meanwhile is read before
 * time goes on, so that a busy node does not look like a mute launcher.
 */
function afterRunning(clock: Clock, delayMs: number, run: () => void, slices = 4): () => void {
  let cancel = () => {}
  const next = (left: number) => {
    cancel = clock.after(delayMs / slices, () => (left === 1 ? run() : next(left - 1)))
  }
  next(slices)
  return () => cancel()
}

function answerOf(status: number, answer: unknown): unknown {
  if (status >= 200 && status < 300) return answer
  const { reason, message } = parseLauncherError(answer)
  throw new LauncherRefusal(reason, message)
}

/** `read` is called when the head of the response has arrived, before anything else is parsed: Node keeps what nobody reads. */
async function send<T>(
  kubeletRoot: string,
  podUID: string,
  { method, path, body }: Request,
  signal: AbortSignal,
  read: (response: IncomingMessage) => Promise<T>,
): Promise<T> {
  const handle = await openLauncherSocket(kubeletRoot, podUID)
  if (handle === undefined) throw new LauncherAbsent('the launcher does not listen yet, or no longer')
  const createConnection = () => new PiecewiseSocket().connect(pathOf(handle))
  const sent = request({ createConnection, method, path, signal, ...json })
  const isConnected = new Promise((resolve) => sent.once('response', resolve).once('close', resolve))
  sent.end(body)
  const [value] = await Promise.all([answerTo(sent, read), isConnected.then(() => handle.close())])
  return value
}

/** Hands on what it has read in small pieces. Once a request is ended, the rest of up to 64 KiB that Node reads at once is not parsed. */
class PiecewiseSocket extends Socket {
  override push(chunk: Buffer | null): boolean {
    if (chunk === null) return super.push(chunk)
    let isMoreWanted = true
    for (let start = 0; start < chunk.length && !this.destroyed; start += pieceBytes) {
      isMoreWanted = super.push(chunk.subarray(start, start + pieceBytes))
    }
    return isMoreWanted
  }
}

const pieceBytes = 4096

const json = { headers: { 'content-type': 'application/json' } }

function answerTo<T>(sent: ClientRequest, read: (response: IncomingMessage) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    sent.on('response', (response) => resolve(read(response)))
    sent.on('error', reject)
    // The launcher sends none, and thousands of them fit into what is read at once.
    sent.once('information', () => sent.destroy(new InvalidLauncherAnswer('it sends interim responses')))
    // After a change of protocol neither event comes: Node only closes the connection, and an abort has no effect after that.
    sent.on('close', () => reject(new LauncherUnreachable('the launcher did not answer')))
  })
}

/** Of a request that was aborted, Node says just that; the reason is the signal's. */
function described(thrown: unknown, signal: AbortSignal): Error {
  const error: unknown = signal.aborted ? signal.reason : thrown
  if (
    error instanceof InvalidLauncherAnswer ||
    error instanceof LauncherUnreachable ||
    error instanceof LauncherRefusal
  )
    return error
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('HPE_'))
    return new InvalidLauncherAnswer(`it does not send HTTP: ${message}`, { cause: error })
  // The path of the socket differs each time, and means nothing to anyone else: a condition must not change with it.
  return new LauncherUnreachable(message.replace(/ \/proc\/self\/fd\/\d+$/, ''), { cause: error })
}

async function readAll(
  response: IncomingMessage,
  charge: (bytes: number) => void,
): Promise<{ readonly status: number; readonly text: string }> {
  const chunks: Buffer[] = []
  let bytes = 0
  const ended = drain(response, (chunk) => {
    bytes += costOf(chunk)
    charge(costOf(chunk))
    if (bytes > maxAnswerBytes) throw new InvalidLauncherAnswer(`its answer is longer than ${maxAnswerBytes} bytes`)
    chunks.push(chunk)
  })
  await ended.catch((error: unknown) => {
    if (!response.complete) throw error
  })
  return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }
}

/**
 * Hands on every chunk as it arrives, since what is not read at once is kept by Node, at a hundred bytes for each of one byte. Rejects when
 * the response ends, is aborted, or `onChunk` throws.
 */
function drain(response: IncomingMessage, onChunk: (chunk: Buffer) => void): Promise<never> {
  return new Promise((_, reject) => {
    const ended = () => reject(new LauncherUnreachable('the launcher ended its response'))
    response.on('data', (chunk: Buffer) => {
      // Node goes on with what it has read already.
      if (response.destroyed) return
      try {
        onChunk(chunk)
      } catch (error) {
        reject(error)
        response.destroy()
      }
    })
    response.on('error', reject)
    response.on('close', ended)
  })
}

/**
 * Which events a chunk completes, the most important one if there are several. Keeps no line: of one that is not complete only as much as tells
 * it from a heartbeat.
 */
function lineReader(): (chunk: Buffer) => LauncherEvent | undefined {
  const enough = heartbeatLine.length + 1
  const beginning = (chunk: Buffer, start: number, end: number) =>
    chunk.toString('latin1', start, Math.min(end, start + enough))
  let head = ''
  return (chunk) => {
    let event: LauncherEvent | undefined
    let start = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      const isHeartbeat = head + beginning(chunk, start, end) === heartbeatLine
      event = isHeartbeat ? (event ?? 'heartbeat') : 'change'
      head = ''
      start = end + 1
    }
    head = (head + beginning(chunk, start, chunk.length)).slice(0, enough)
    return event
  }
}

const newline = 10

/** What it takes to read and keep it: a launcher that sends byte by byte must not cost a hundred times what it sends. */
const costOf = (chunk: Buffer): number => Math.max(chunk.length, smallestCost)
const smallestCost = 1024
