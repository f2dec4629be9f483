import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import type { Duplex } from 'node:stream'
import { probeNames, type ProbeName } from '../api/probe.ts'
import { shorten } from '../api/shorten.ts'
import type { Clock } from '../runtime/clock.ts'
import { joinChunks } from '../runtime/joined-chunks.ts'
import {
  type CapabilitiesCache,
  type DomainReport,
  InvalidLauncherResponse,
  type LauncherErrorReason,
  heartbeatIntervalMs,
  heartbeatLine,
  isAcceptedReport,
  maxResponseBytes,
  maxMessageBytes,
  maxTextLength,
  parseCapabilitiesCache,
  parseFreezeRequest,
  parseJson,
  parseShutdownRequest,
  parseVolumesRequest,
} from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import { InvalidNetworkMessage, parseTapAddresses, type TapAddress } from '../runtime/network-api.ts'
import { formatHead, parseTarget, sessionProtocol } from '../runtime/session-api.ts'
import type { ProbeResult } from './guest-probe.ts'
import { openGuestSession, type GuestSessions } from './guest-session.ts'
import { knownPartOf } from './known-part.ts'
import type { Life } from './life.ts'
import { ConnectionLost, DeadlineExceeded, LibvirtError } from './libvirt/errors.ts'
import { Refused } from './refused.ts'

export interface ServerOptions {
  readonly life: Life
  readonly clock: Clock
  readonly sessions: GuestSessions
  readonly storeCapabilities: (cache: CapabilitiesCache) => Promise<void>
  /** Answers the guest's DHCP clients from then on. */
  readonly serveAddresses: (taps: readonly TapAddress[]) => Promise<void>
  /** Runs the command of a probe in the guest. */
  readonly probe: (name: ProbeName) => Promise<ProbeResult>
  readonly log: Logger
}

const statusOf: { readonly [reason in LauncherErrorReason]: number } = {
  DefineRefused: 422,
  StartFailed: 422,
  VolumeUnavailable: 422,
  OOMKilled: 422,
  OtherVirtualMachine: 409,
  NotReady: 409,
  BadRequest: 400,
  NotFound: 404,
  LibvirtUnavailable: 503,
  TooManySessions: 429,
  InternalError: 500,
}

/** A reader of events that lags by more is disconnected. It can reconnect and read the current state. */
const maxBacklogBytes = 1024 * 1024

/** libvirt responds in milliseconds, unless it restarts or the node is overloaded. The handler waits for up to 5 s. */
const reportDeadlineMs = 3000

/** A body that is text is sent as it is. */
type HttpResponse = { status: number; body: object | string }
type Route = (body: () => Promise<unknown>) => Promise<HttpResponse>

/** Serves the contract of runtime/launcher-api.ts over HTTP; the caller listens. */
export function launcherServer(options: ServerOptions): Server {
  const { life, clock, log, storeCapabilities, serveAddresses } = options
  const accepted = { status: 202, body: {} }
  const routes: { readonly [request: string]: Route } = {
    'PUT /capabilities': async (body) => {
      const cache = parseCapabilitiesCache(await body())
      // Once there is a VM, a guest that has broken out of QEMU could send it.
      if (life.hasVm) throw new Refused('OtherVirtualMachine', 'the launcher already has its VirtualMachine')
      await storeCapabilities(cache)
      return accepted
    },
    'PUT /network': async (body) => {
      const taps = parseTapAddresses(await body())
      if (life.hasVm) throw new Refused('OtherVirtualMachine', 'the launcher already has its VirtualMachine')
      await serveAddresses(taps)
      return accepted
    },
    'PUT /vm': async (body) => {
      const { vm, ignored } = knownPartOf(await body())
      return { status: 202, body: { domain: withinLimit(life.accept(vm, ignored)) } }
    },
    'GET /domain': async () => ({ status: 200, body: withinLimit(await reportInTime(life, clock)) }),
    'POST /shutdown': async (body) => {
      life.shutdown(parseShutdownRequest(await body()).gracePeriodSeconds)
      return accepted
    },
    'POST /destroy': async () => {
      life.destroy()
      return accepted
    },
    'POST /freeze': async (body) => {
      life.freeze(parseFreezeRequest(await body()).id)
      return accepted
    },
    'POST /thaw': async (body) => {
      life.thaw(parseFreezeRequest(await body()).id)
      return accepted
    },
    'PUT /volumes': async (body) => {
      life.attach(parseVolumesRequest(await body()))
      return accepted
    },
    'POST /final': async () => accepted,
    ...Object.fromEntries(probeNames.map((name) => [`POST /probe/${name}`, () => probed(name, options)])),
  }

  const server = createServer((request, response) => {
    const name = `${request.method} ${request.url}`
    if (name === 'GET /events') return stream(response, options)
    const route = routes[name]
    const run = route ?? (() => Promise.reject(new Refused('NotFound', `${name} is not supported`)))
    run(() => readBody(request))
      .catch((error: unknown) => failure(error, log))
      .then(({ status, body }) => {
        const [type, text] =
          typeof body === 'string' ? ['text/plain', body] : ['application/json', JSON.stringify(body)]
        response.writeHead(status, { 'content-type': type }).end(text, () => {
          // The launcher must not exit before the response is sent.
          if (name === 'POST /final') life.final()
        })
      })
      .catch((error: unknown) => log.warn({ err: error, request: name }, 'could not respond'))
  })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // An error without a listener would end the launcher, and the VM with it.
    socket.on('error', (error) => log.info({ err: error }, 'the client of a session has disconnected'))
    void openSession(request, socket, head, options)
  })
  return server
}

/** The program guest-probe in the pod prints the message, and succeeds if the status is 200. */
async function probed(name: ProbeName, { probe }: ServerOptions): Promise<HttpResponse> {
  const { isSuccess, message } = await probe(name)
  return { status: isSuccess ? 200 : 503, body: `${message}\n` }
}

/** @throws Refused if libvirt does not respond within `reportDeadlineMs`, and the errors of `Life.report` */
async function reportInTime(life: Life, clock: Clock): Promise<DomainReport> {
  const { promise: timeout, reject } = Promise.withResolvers<never>()
  const late = new Refused('LibvirtUnavailable', `libvirt did not respond within ${reportDeadlineMs / 1000} s`)
  const cancel = clock.after(reportDeadlineMs, () => reject(late))
  return Promise.race([life.report(), timeout]).finally(cancel)
}

/**
 * The handler accepts no more than the contract's limits: of bytes, values and levels. A report without `domain`, or at
 * least without `domain` and `specDrift`, is far below them.
 */
function withinLimit(report: DomainReport): DomainReport {
  const fits = (one: DomainReport) => {
    const text = JSON.stringify(one)
    return Buffer.byteLength(text) <= maxResponseBytes - responseEnvelopeBytes && isAcceptedReport(text)
  }
  if (fits(report)) return report
  const { domain: _, ...rest } = report
  return fits(rest) ? rest : summary(rest)
}

const responseEnvelopeBytes = 64

function summary(report: DomainReport): DomainReport {
  const { domain: _, specDrift: __, ...rest } = report
  return rest
}

/** One line for the current state, one for each change, and heartbeats. The domain is read with `GET /domain`. */
function stream(response: ServerResponse, { life, clock, log }: ServerOptions): void {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
  response.on('error', (error) => log.debug({ err: error }, 'a reader of events is gone'))
  const write = (line: string) => {
    if (response.writableLength > maxBacklogBytes) response.destroy()
    else response.write(`${line}\n`)
  }
  const writeReport = (report: DomainReport) => write(JSON.stringify(summary(report)))
  let cancel = () => {}
  const beat = () => {
    write(heartbeatLine)
    cancel = clock.after(heartbeatIntervalMs, beat)
  }
  cancel = clock.after(heartbeatIntervalMs, beat)
  const unsubscribe = life.subscribe(writeReport)
  response.once('close', () => {
    unsubscribe()
    cancel()
  })
  life.report().then(writeReport, (error: unknown) => {
    log.warn({ err: error }, 'could not read the state')
    response.destroy()
  })
}

async function openSession(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  { sessions, log }: ServerOptions,
): Promise<void> {
  const target = request.method === 'GET' ? parseTarget(request.url ?? '') : undefined
  const { upgrade = '' } = request.headers
  if (target === undefined || ![sessionProtocol, earlierProtocol].includes(upgrade)) {
    const message = `a session is GET of /console, /vnc, /tcp/PORT, /screenshot or /metrics with Upgrade: ${sessionProtocol}`
    return refuseUpgrade(socket, failure(new Refused('NotFound', message), log))
  }
  try {
    const session = await openGuestSession(sessions, target)
    if (socket.destroyed) return session.cancel()
    socket.write(formatHead(upgrade, session))
    socket.unshift(head)
    session.start(socket)
  } catch (error) {
    refuseUpgrade(socket, failure(error, log))
  }
}

/** The protocol with which handlers opened the console before there were sessions. */
const earlierProtocol = 'console'

function refuseUpgrade(socket: Duplex, { status, body }: { status: number; body: object }): void {
  const text = JSON.stringify(body)
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
}

function failure(error: unknown, log: ServerOptions['log']): { status: number; body: object } {
  const { reason, message } = explain(error)
  if (reason === 'InternalError') log.error({ err: error }, 'a request failed')
  return { status: statusOf[reason], body: { error: { reason, message: shorten(message, maxTextLength) } } }
}

function explain(error: unknown): { reason: LauncherErrorReason; message: string } {
  if (error instanceof Refused) return { reason: error.reason, message: error.message }
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof InvalidLauncherResponse || error instanceof InvalidNetworkMessage)
    return { reason: 'BadRequest', message }
  if (error instanceof ConnectionLost || error instanceof DeadlineExceeded) {
    return { reason: 'LibvirtUnavailable', message }
  }
  if (error instanceof LibvirtError) return { reason: 'NotReady', message }
  return { reason: 'InternalError', message }
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const joined = joinChunks()
  let length = 0
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) throw new Error('a chunk of a request is not a Buffer')
    length += chunk.length
    if (length > maxMessageBytes) throw new Refused('BadRequest', `the body is longer than ${maxMessageBytes} bytes`)
    joined.add(chunk)
  }
  return parseJson(joined.text())
}
