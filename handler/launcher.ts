import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import {
  InvalidLauncherAnswer,
  heartbeatIntervalMs,
  maxMessageBytes,
  parseDomainReport,
  parseEventLine,
  parseJson,
  parseLauncherError,
  parsePutAnswer,
  type DomainReport,
  type LauncherErrorReason,
  type LauncherEvent,
} from '../runtime/launcher-api.ts'
import { systemClock, type Clock } from '../runtime/clock.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { openLauncherSocket, pathOf } from './socket.ts'

/** libvirt's own start takes half a second here, and tens of seconds on a machine that is short of memory. */
const deadlineMs = 60_000
/** How it is, the launcher says after 20 s at most, even if only that libvirtd does not answer. */
const reportDeadlineMs = 25_000

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

/** One launcher, found anew by its pod's uid for each request, so that no socket of another pod can ever be meant. */
export interface Launcher {
  put(machine: VirtualMachine): Promise<DomainReport>
  report(): Promise<DomainReport>
  shutdown(gracePeriodSeconds: number): Promise<void>
  destroy(): Promise<void>
  final(): Promise<void>
  /** Each event, read when it is asked for, until the stream ends or falls silent; then it throws `LauncherUnreachable`. */
  watch(signal: AbortSignal): AsyncGenerator<LauncherEvent, never>
}

export function launcherOf(kubeletRoot: string, podUID: string, clock: Clock = systemClock): Launcher {
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const signal = AbortSignal.timeout(method === 'GET' ? reportDeadlineMs : deadlineMs)
    const response = await send(kubeletRoot, podUID, method, path, body, signal)
    const answer = parseJson(await readAll(response, signal))
    const status = response.statusCode ?? 0
    if (status >= 200 && status < 300) return answer
    const { reason, message } = parseLauncherError(answer)
    throw new LauncherRefusal(reason, message)
  }
  return {
    put: async (machine) => parsePutAnswer(await call('PUT', '/vm', machine)),
    report: async () => parseDomainReport(await call('GET', '/domain')),
    shutdown: async (gracePeriodSeconds) => void (await call('POST', '/shutdown', { gracePeriodSeconds })),
    destroy: async () => void (await call('POST', '/destroy')),
    final: async () => void (await call('POST', '/final')),
    async *watch(signal) {
      const silence = new AbortController()
      const either = AbortSignal.any([signal, silence.signal])
      const beat = () =>
        clock.after(3 * heartbeatIntervalMs, () => silence.abort(new LauncherUnreachable('no heartbeat')))
      let cancel = beat()
      let response: IncomingMessage | undefined
      try {
        response = await send(kubeletRoot, podUID, 'GET', '/events', undefined, either)
        for await (const line of linesOf(response)) {
          cancel()
          cancel = beat()
          yield parseEventLine(line)
        }
      } catch (error) {
        throw unreachable(error, either)
      } finally {
        cancel()
        response?.destroy()
      }
      throw new LauncherUnreachable('the launcher ended its stream of events')
    },
  }
}

async function send(
  kubeletRoot: string,
  podUID: string,
  method: string,
  path: string,
  body: unknown,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const handle = await openLauncherSocket(kubeletRoot, podUID)
  if (handle === undefined) throw new LauncherAbsent('the launcher does not listen yet, or no longer')
  try {
    const call = request({ socketPath: pathOf(handle), method, path, agent: false, signal, ...json })
    call.end(body === undefined ? undefined : JSON.stringify(body))
    return await responseTo(call)
  } catch (error) {
    throw unreachable(error, signal)
  } finally {
    await handle.close()
  }
}

const json = { headers: { 'content-type': 'application/json' } }

function responseTo(call: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    call.on('response', resolve)
    call.on('error', reject)
    // Who changes the protocol gives neither: Node only closes the connection, and no abort is heard after that.
    call.on('close', () => reject(new LauncherUnreachable('the launcher did not answer')))
  })
}

/** Of a request that was aborted, Node says just that; why is with the signal. */
function unreachable(thrown: unknown, signal: AbortSignal): Error {
  const error: unknown = signal.aborted ? signal.reason : thrown
  if (error instanceof InvalidLauncherAnswer || error instanceof LauncherUnreachable) return error
  const words = error instanceof Error ? error.message : String(error)
  // The path by which we came is another each time, and says nothing to anybody else: a condition must not change with it.
  return new LauncherUnreachable(words.replace(/ \/proc\/self\/fd\/\d+$/, ''), { cause: error })
}

async function readAll(response: IncomingMessage, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of bytesOf(response)) {
      length += costOf(chunk)
      if (length > maxMessageBytes) throw new InvalidLauncherAnswer(`longer than ${maxMessageBytes} bytes`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw unreachable(error, signal)
  } finally {
    response.destroy()
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Lines are cut as bytes: a character may straddle two chunks. */
async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let pending: Buffer[] = []
  let length = 0
  for await (const chunk of bytesOf(response)) {
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...pending, chunk.subarray(start, end)]).toString('utf8')
      pending = []
      length = 0
      start = end + 1
    }
    const rest = chunk.subarray(start)
    pending.push(rest)
    length += costOf(rest)
    if (length > maxMessageBytes) throw new InvalidLauncherAnswer(`a line longer than ${maxMessageBytes} bytes`)
  }
}

/** What keeping it takes: one who sends byte by byte must not cost us a hundred times what he sends. */
const costOf = (chunk: Buffer): number => Math.max(chunk.length, smallestCost)
const smallestCost = 128

async function* bytesOf(response: IncomingMessage): AsyncGenerator<Buffer> {
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk)) throw new Error('the response has an encoding')
    yield chunk
  }
}
