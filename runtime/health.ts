import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Registry } from 'prom-client'
import { createArrivalDeadlines } from './arrival-deadline.ts'
import type { Clock } from './clock.ts'
import type { ConnectionLimits } from './connections.ts'
import { guardConnections } from './guard.ts'
import { listen } from './listen.ts'
import { isLogLevel, logLevels } from './log.ts'
import type { Logger } from './log.ts'

export interface HealthOptions {
  /** 0: any free port. */
  readonly port: number
  /** Absent: every address. */
  readonly host?: string
  readonly registry: Registry
  readonly log: Logger
  readonly clock: Clock
  /** The reasons why the process is not ready, a sentence each. */
  readonly unready: () => readonly string[]
}

/** Clients do not authenticate here. kubelet probes twice in three seconds. */
const connectionLimits: ConnectionLimits = {
  pending: 256,
  pendingPerAddress: 32,
  burst: 32,
  perSecond: 8,
  proven: 1,
}

/** 10 s: enough to send metrics over the slowest link; a probe times out long before. */
const deadlineTurns = 40

export interface Health {
  readonly port: number
  close(): Promise<void>
}

/**
 * `GET /livez`: 200 `ok` while the event loop runs. `GET /readyz`: the same, or 503 and a reason per line. Only from
 * within the pod, such as by `kubectl exec` or `port-forward`: `GET /metrics` in Prometheus' text format, `GET` and
 * `PUT /log-level`.
 */
export async function startHealth(options: HealthOptions): Promise<Health> {
  const server = createServer((request, response) => {
    respond(options, request, response).catch((error: unknown) => {
      options.log.error({ err: error }, 'could not respond to a probe')
      reply(response, 500, 'internal error\n')
    })
  })
  // One request for each connection: the limits of connections are limits of requests. Further ones get a 503.
  server.maxRequestsPerSocket = 1
  guardConnections(server, {
    limits: connectionLimits,
    provenBy: 'nothing',
    deadlines: createArrivalDeadlines(options.clock, deadlineTurns),
    clock: options.clock,
    rejected: () => {},
  })
  return {
    port: await listen(server, options.port, options.host),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeIdleConnections()
      }),
  }
}

async function respond(options: HealthOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? '/').split('?', 1)[0]
  if (path === '/log-level') return respondLogLevel(options.log, request, response)
  if (request.method !== 'GET' && request.method !== 'HEAD') return reply(response, 405, 'method not allowed\n')
  if (path === '/livez') return replyChecks(response, [])
  if (path === '/readyz') return replyChecks(response, options.unready())
  if (path !== '/metrics') return reply(response, 404, 'not found\n')
  if (!isLocal(request)) return reply(response, 403, 'only from within this pod; use the metrics port\n')
  return reply(response, 200, await options.registry.metrics(), options.registry.contentType)
}

async function respondLogLevel(log: Logger, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (!isLocal(request)) return reply(response, 403, 'only from within this pod\n')
  if (request.method === 'GET') return reply(response, 200, `${log.level}\n`)
  if (request.method !== 'PUT') return reply(response, 405, 'method not allowed\n')
  const word = await readWord(request)
  if (!isLogLevel(word)) return reply(response, 400, `must be one of: ${logLevels.join(', ')}\n`)
  log.level = word
  return reply(response, 200, `${word}\n`)
}

function isLocal(request: IncomingMessage): boolean {
  const address = request.socket.remoteAddress ?? ''
  return address === '::1' || address.replace('::ffff:', '').startsWith('127.')
}

/** No level is longer than this. */
const longestWord = 16

async function readWord(request: IncomingMessage): Promise<string> {
  let word = ''
  for await (const chunk of request) {
    word += String(chunk)
    if (word.length > longestWord) return word
  }
  return word.trim()
}

function replyChecks(response: ServerResponse, reasons: readonly string[]): void {
  if (reasons.length === 0) reply(response, 200, 'ok\n')
  else reply(response, 503, `${reasons.join('\n')}\n`)
}

function reply(response: ServerResponse, code: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(code, { 'content-type': type, connection: 'close' }).end(body)
}
