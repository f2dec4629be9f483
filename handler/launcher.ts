import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { heapCostOf } from '../api/heap-cost.ts'
import {
  InvalidLauncherResponse,
  heartbeatIntervalMs,
  heartbeatLine,
  maxResponseBytes,
  parseDomainReport,
  parseJson,
  parseLauncherError,
  parsePutResponse,
  type DomainReport,
  type VolumeRequest,
  type LauncherErrorReason,
} from '../runtime/launcher-api.ts'
import type { Bucket } from '../runtime/bucket.ts'
import { systemClock, type Clock } from '../runtime/clock.ts'
import type { Held } from '../runtime/fair-limit.ts'
import { joinChunks } from '../runtime/joined-chunks.ts'
import type { TapAddress } from '../runtime/network-api.ts'
import { costOf, deliverPiecewise } from '../runtime/untrusted-response.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { withoutLargeParts } from './domain-size.ts'
import { hasSocketVolume, openLauncherSocket, pathOf } from './socket.ts'

/** The launcher did not respond, or closed the connection during the request: the state of the VM is unknown. */
export class LauncherUnreachable extends Error {
  override name = 'LauncherUnreachable'
}

/** There is no socket: the launcher does not listen yet, or no longer listens. */
export class LauncherAbsent extends LauncherUnreachable {
  override name = 'LauncherAbsent'
}

/** The launcher refused the request. `message` is libvirt's or QEMU's own. */
export class LauncherRefusal extends Error {
  override name = 'LauncherRefusal'
  readonly reason: LauncherErrorReason
  constructor(reason: LauncherErrorReason, message: string) {
    super(message)
    this.reason = reason
  }
}

/** `change`: the launcher's state may have changed. `heartbeat`: it has not. */
export type LauncherEvent = 'change' | 'heartbeat'

/** One launcher, looked up by its pod's uid for each request, so that no request can reach another pod. */
export interface Launcher {
  /** Sends a `CapabilitiesCache` as JSON. */
  putCapabilities(text: string): Promise<void>
  /** What the launcher answers to the guest's DHCP clients. */
  putNetwork(taps: readonly TapAddress[]): Promise<void>
  put(vm: VirtualMachine): Promise<DomainReport>
  /** Exactly these are to be attached. */
  putVolumes(volumes: readonly VolumeRequest[]): Promise<void>
  report(): Promise<DomainReport>
  shutdown(gracePeriodSeconds: number): Promise<void>
  freeze(id: string): Promise<void>
  thaw(id: string): Promise<void>
  final(): Promise<void>
  /** Whether the kubelet still holds the volume of the socket. The launcher is not asked, and can only remove the socket. */
  hasVolume(): Promise<boolean>
  /**
   * Calls `onEvent` until the event stream ends, falls silent or exceeds its limit; then it rejects. Events that arrive
   * together are reported as one. They are neither parsed nor stored: `report` reads the state.
   */
  watch(signal: AbortSignal, onEvent: (event: LauncherEvent) => void): Promise<never>
}

/** The limits of what a launcher can make the handler wait for, read and hold in memory. */
export interface LauncherLimits {
  /** For a whole request; for the event stream until it begins. */
  readonly deadlineMs: number
  /**
   * Charged with the bytes of requests and responses, on credit if necessary: a launcher can refuse what it is sent as
   * often as it likes.
   */
  readonly responses: Bucket
  /** Bytes of events. A launcher that sends more is disconnected. */
  readonly events: Bucket
  /** Charged with the bytes of unfinished exchanges; `end` gets how many were held. */
  readonly hold: (end: (bytes: number) => void) => Held
}

interface Request {
  readonly method: string
  readonly path: string
  readonly body?: string
}

const tooManyPending = (bytes: number) =>
  new InvalidLauncherResponse(`${bytes} bytes of its response were pending, too many for this node`)

export function launcherOf(
  kubeletRoot: string,
  podUID: string,
  limits: LauncherLimits,
  clock: Clock = systemClock,
): Launcher {
  const { deadlineMs } = limits
  const late = () => new LauncherUnreachable(`the launcher did not respond within ${Math.round(deadlineMs / 1000)} s`)

  const call = (method: string, path: string, value?: unknown): Promise<unknown> =>
    exchange(method, path, value === undefined ? {} : { body: JSON.stringify(value) })

  const exchange = async (method: string, path: string, body: { readonly body?: string }): Promise<unknown> => {
    const stop = new AbortController()
    const cancel = afterRunning(clock, deadlineMs, () => stop.abort(late()))
    const held = limits.hold((bytes) => stop.abort(tooManyPending(bytes)))
    try {
      const charge = (bytes: number) => {
        limits.responses.take(bytes)
        held.grow(bytes)
      }
      charge(body.body?.length ?? 0)
      const read = (response: IncomingMessage) => readAll(response, charge)
      const { status, text } = await send(kubeletRoot, podUID, { method, path, ...body }, stop.signal, read)
      stop.signal.throwIfAborted()
      return valueOf(status, parseJson(text))
    } catch (error) {
      throw errorOf(error, stop.signal)
    } finally {
      cancel()
      held.release()
    }
  }

  return {
    putCapabilities: async (text) => void (await exchange('PUT', '/capabilities', { body: text })),
    putNetwork: async (taps) => void (await call('PUT', '/network', { taps })),
    put: async ({ apiVersion, kind, metadata: { name, namespace, uid, generation }, spec }) =>
      // Only the part that the launcher reads: a status can be as large as the spec.
      withoutLargeParts(
        parsePutResponse(
          await call('PUT', '/vm', { apiVersion, kind, metadata: { name, namespace, uid, generation }, spec }),
        ),
      ),
    putVolumes: async (volumes) => void (await call('PUT', '/volumes', { volumes })),
    report: async () => withoutLargeParts(parseDomainReport(await call('GET', '/domain'))),
    shutdown: async (gracePeriodSeconds) => void (await call('POST', '/shutdown', { gracePeriodSeconds })),
    freeze: async (id) => void (await call('POST', '/freeze', { id })),
    thaw: async (id) => void (await call('POST', '/thaw', { id })),
    final: async () => void (await call('POST', '/final')),
    hasVolume: () => hasSocketVolume(kubeletRoot, podUID),
    async watch(signal, onEvent) {
      const stop = new AbortController()
      const either = AbortSignal.any([signal, stop.signal])
      let cancel = afterRunning(clock, deadlineMs, () => stop.abort(late()))
      let beatMs = -Infinity
      const beat = () => {
        // A thousand lines can arrive at once; one beat is enough.
        if (clock.monotonic() - beatMs < heartbeatIntervalMs / 10) return
        beatMs = clock.monotonic()
        cancel()
        cancel = clock.after(3 * heartbeatIntervalMs, () =>
          stop.abort(new LauncherUnreachable('the launcher sent no heartbeat')),
        )
      }
      try {
        const read = lineReader()
        const onChunk = (chunk: Buffer) => {
          if (limits.events.take(costOf(chunk)) > 0) throw new InvalidLauncherResponse('it sends too many events')
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
        throw errorOf(error, either)
      } finally {
        cancel()
      }
    },
  }
}

/**
 * Runs `run` once after `delayMs`, counted in slices. Where this process gets no CPU for longer than a slice, it reads
 * what has arrived before the next slice begins, so that a busy node does not look like a silent launcher.
 */
function afterRunning(clock: Clock, delayMs: number, run: () => void, slices = 4): () => void {
  let cancel = () => {}
  const next = (left: number) => {
    cancel = clock.after(delayMs / slices, () => (left === 1 ? run() : next(left - 1)))
  }
  next(slices)
  return () => cancel()
}

function valueOf(status: number, body: unknown): unknown {
  if (status >= 200 && status < 300) return body
  const { reason, message } = parseLauncherError(body)
  throw new LauncherRefusal(reason, message)
}

export const absence = (): LauncherAbsent => new LauncherAbsent('the launcher does not listen')

/**
 * What can arrive without being charged: a head, and what Node reads at once, 64 KiB, before it delivers the first chunk
 * of it. What frames a chunk is smaller than what the chunk is charged.
 */
const mostUncharged = 128 * 1024

/**
 * `read` is called when the head of the response has arrived, before anything else is parsed: Node buffers what is not
 * read.
 */
async function send<T>(
  kubeletRoot: string,
  podUID: string,
  { method, path, body }: Request,
  signal: AbortSignal,
  read: (response: IncomingMessage) => Promise<T>,
): Promise<T> {
  const handle = await openLauncherSocket(kubeletRoot, podUID)
  if (handle === undefined) throw absence()
  const socket = new Socket()
  let violation: InvalidLauncherResponse | undefined
  let uncharged = 0
  deliverPiecewise(socket, (bytes) => {
    uncharged += bytes
    if (uncharged <= mostUncharged) return
    violation = new InvalidLauncherResponse('it sends more than its response contains')
    socket.destroy(violation)
  })
  const readCharged = (response: IncomingMessage) => {
    response.on('data', (chunk: Buffer) => (uncharged = Math.max(0, uncharged - costOf(chunk))))
    return read(response)
  }
  const createConnection = () => socket.connect(pathOf(handle))
  const sent = request({ createConnection, method, path, signal, ...json })
  const isConnected = new Promise((resolve) => sent.once('response', resolve).once('close', resolve))
  sent.end(body)
  try {
    const [value] = await Promise.all([responseTo(sent, readCharged), isConnected.then(() => handle.close())])
    return value
  } catch (error) {
    throw violation ?? error
  } finally {
    // After a response Node goes on sending the rest of the request, for as long as the launcher does not read it.
    socket.destroy()
  }
}

const json = { headers: { 'content-type': 'application/json' } }

function responseTo<T>(sent: ClientRequest, read: (response: IncomingMessage) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    sent.on('response', (response) => resolve(read(response)))
    sent.on('error', reject)
    // The launcher sends none, and thousands of them fit into one read.
    sent.once('information', () => sent.destroy(new InvalidLauncherResponse('it sends interim responses')))
    // After an upgrade neither event comes: Node only closes the connection, and an abort has no effect.
    sent.on('close', () => reject(new LauncherUnreachable('the launcher closed the connection without a response')))
  })
}

/** Node's error for an aborted request does not contain the reason; the signal does. */
function errorOf(thrown: unknown, signal: AbortSignal): Error {
  const error: unknown = signal.aborted ? signal.reason : thrown
  if (
    error instanceof InvalidLauncherResponse ||
    error instanceof LauncherUnreachable ||
    error instanceof LauncherRefusal
  )
    return error
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('HPE_'))
    return new InvalidLauncherResponse(`it does not send HTTP: ${message}`, { cause: error })
  // The path of the socket differs each time. A condition must not change with it.
  const words = message.replace(/ \/proc\/self\/fd\/\d+$/, '')
  return new LauncherUnreachable(`could not reach the launcher: ${words}`, { cause: error })
}

/** Once it is parsed. That of the most values that are accepted takes 3 MiB, and one of 1 MiB could take 22. */
const maxResponseHeap = 8 * 1024 * 1024

async function readAll(
  response: IncomingMessage,
  charge: (bytes: number) => void,
): Promise<{ readonly status: number; readonly text: string }> {
  const joined = joinChunks()
  let [bytes, heap] = [0, 0]
  const ended = drain(response, (chunk) => {
    bytes += costOf(chunk)
    heap += heapCostOf(chunk)
    charge(costOf(chunk))
    if (bytes > maxResponseBytes)
      throw new InvalidLauncherResponse(`its response is longer than ${maxResponseBytes} bytes`)
    if (heap > maxResponseHeap) throw new InvalidLauncherResponse('its response has too many values')
    joined.add(chunk)
  })
  await ended.catch((error: unknown) => {
    if (!response.complete) throw error
  })
  return { status: response.statusCode ?? 0, text: joined.text() }
}

/**
 * Delivers every chunk as it arrives: Node buffers what is not read, at a hundred bytes for a chunk of one. Rejects
 * when the response ends, is aborted, or `onChunk` throws.
 */
function drain(response: IncomingMessage, onChunk: (chunk: Buffer) => void): Promise<never> {
  return new Promise((_, reject) => {
    const ended = () => reject(new LauncherUnreachable('the launcher ended its response'))
    response.on('data', (chunk: Buffer) => {
      // Node delivers the rest of what it has read even then.
      if (response.destroyed) return
      try {
        onChunk(chunk)
      } catch (error) {
        reject(error)
        response.destroy()
      }
    })
    // Until the first read, Node buffers what arrives.
    response.read(0)
    response.on('error', reject)
    response.on('close', ended)
  })
}

/**
 * Returns the most important event that a chunk completes. Buffers no line, only enough of an incomplete one to
 * distinguish it from a heartbeat.
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
