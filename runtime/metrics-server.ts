import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Registry } from 'prom-client'
import type { Clock } from './clock.ts'
import type { ConnectionLimits } from './connections.ts'
import { createGuardedServer } from './guarded-server.ts'
import type { KubeClient } from './kube.ts'
import { listen } from './listen.ts'
import type { Logger } from './log.ts'
import { createScrapeAccess } from './scrape-access.ts'
import type { ScrapeAccess } from './scrape-access.ts'

export interface MetricsServer {
  readonly port: number
  close(): Promise<void>
}

interface MetricsServerOptions {
  /** 0: any free port. */
  readonly port: number
  /** Absent: every address. */
  readonly host?: string
  readonly registry: Registry
  readonly kube: Pick<KubeClient, 'request'>
  readonly log: Logger
  readonly clock: Clock
}

/** Prometheus scrapes every few seconds, with one connection per process. */
const connectionLimits: ConnectionLimits = {
  pending: 64,
  pendingPerAddress: 8,
  burst: 16,
  perSecond: 4,
  proven: 64,
}
const codes: Readonly<Record<ScrapeAccess, number>> = { allowed: 200, unauthenticated: 401, forbidden: 403, busy: 503 }

/**
 * `GET /metrics` over TLS, for clients that the cluster's RBAC allows to read metrics, which contain the names of
 * groups.
 */
export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { port, host, registry, kube, log, clock } = options
  const accessOf = createScrapeAccess(kube, clock)
  const respond = async (request: IncomingMessage): Promise<readonly [number, string]> => {
    if (request.method !== 'GET' || request.url?.split('?', 1)[0] !== '/metrics') return [404, 'not found\n']
    const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? []
    const access = token === undefined ? 'unauthenticated' : await accessOf(token, request.socket.remoteAddress ?? '')
    if (access !== 'allowed') return [codes[access], `${access}\n`]
    prove(request.socket)
    return [200, await registry.metrics()]
  }
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    // Node would store a body.
    request.resume()
    const reply = (code: number, body: string) =>
      response.writeHead(code, { 'content-type': code === 200 ? registry.contentType : 'text/plain' }).end(body)
    respond(request).then(
      ([code, body]) => reply(code, body),
      (error: unknown) => {
        log.warn({ err: error }, 'could not review the token of a metrics client')
        reply(503, 'the API server does not respond\n')
      },
    )
  }
  const { server, prove } = createGuardedServer({
    name: 'virtset-metrics',
    minVersion: 'TLSv1.2',
    limits: connectionLimits,
    clock,
    respond: answer,
  })
  const bound = await listen(server, port, host)
  log.info({ port: bound }, 'serving metrics')
  return {
    port: bound,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** The same if a port is set; otherwise only clients within the pod can read metrics. */
export function serveMetrics({
  port,
  ...rest
}: Omit<MetricsServerOptions, 'port'> & { readonly port: string | undefined }): Promise<MetricsServer | undefined> {
  return port === undefined ? Promise.resolve(undefined) : startMetricsServer({ ...rest, port: Number(port) })
}
