import { readFile } from 'node:fs/promises'
import { watchObjects } from '../inventory/objects.ts'
import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import type { ConnectionLimits } from '../runtime/connections.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger, type Logger } from '../runtime/log.ts'
import { createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown, type Shutdown } from '../runtime/shutdown.ts'
import { cachesWithout, startCaches } from './admission/caches.ts'
import { createEngine, type Engine } from './admission/engine.ts'
import { createHandlers, ownAccounts, trustedAccounts } from './admission/handler.ts'
import { createNetworkWarnings, type NetworkWarnings } from './admission/network-warnings.ts'
import { createMayAccess } from './admission/permission.ts'
import { warmUp } from './admission/warm-up.ts'
import { firstFromFiles, keepFromFiles } from './certificates/files.ts'
import {
  runCertificateController,
  reconcileFirst,
  type CertificateControllerOptions,
} from './certificates/certificate-controller.ts'
import type { Leaf } from './certificates/plan.ts'
import { admissionRoutes } from './admission-routes.ts'
import { createAdmissionMetrics, createCompletionMetrics, observeCertificate } from './metrics.ts'
import {
  apiConnectionLimits,
  forUsers,
  sessionConnectionLimits,
  startServer,
  type ServerOptions,
  type WebhookServer,
} from './server.ts'
import { createAuthorReviews } from './objects/author-reviews.ts'
import { runConfigurationController } from './objects/configuration-controller.ts'
import { createObjectHandlers, type ObjectHandlers } from './objects/handlers.ts'
import { readSettings, type ClusterSource, type FolderSource, type Settings } from './settings.ts'
import { createApi } from './subresources/api.ts'
import { watchFrontProxy } from './subresources/front-proxy.ts'
import { createSessionClient, isReachable } from './subresources/session-client.ts'
import { createPower } from './subresources/power.ts'
import { createSessionMetrics } from './subresources/session-metrics.ts'
import { createSessions } from './subresources/sessions.ts'
import { sessionsApi, subresourcesApi, type UserApi } from './subresources/user-api.ts'
import { createTenantRequests } from './tenant-requests.ts'
import type { Tracer } from './tracing.ts'

const clock = systemClock

/** Of each client. Lanes allow twice as many requests as they have places, if the others are late. */
const connections = 32

/** Shared by both sources of presets. */
interface Process {
  readonly settings: Settings
  readonly log: Logger
  readonly registry: ReturnType<typeof createMetrics>
  readonly shutdown: Shutdown
}

/** The webhooks: admission, subresources and certificates; or admission alone, with presets from files. */
async function main(settings: Settings, log: Logger): Promise<void> {
  // Longer than PROPAGATION_SECONDS, shorter than the pod's terminationGracePeriodSeconds.
  const timeoutMs = 35_000
  const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code), timeoutMs })
  const context = { settings, log, registry: createMetrics(), shutdown }
  const { source } = settings
  await (source.kind === 'cluster' ? serveCluster(context, source) : serveFolder(context, source))
}

/**
 * Serves in a cluster: presets from its API server, self-issued certificates, health and metrics on ports of their own.
 */
async function serveCluster(context: Process, source: ClusterSource): Promise<void> {
  const { settings, log, registry, shutdown } = context
  const { namespace } = settings
  const { healthPort, metricsPort, pod, secretName, certificateDirectory: directory, propagationMs } = source
  const access = await defaultAccess(process.env)
  const kube = createKubeClient({ access, userAgent: 'virtset-webhooks', connections })
  // Connections of its own: a start occupies one until admission of its VM has ended, which can request a review of
  // access.
  const accessKube = createKubeClient({ access, userAgent: 'virtset-webhooks', connections })
  const caches = startCaches(kube, log, clock)
  const protectedNamespaces = ['kube-system', namespace]
  const objects = watchObjects({ kube, log, clock, protectedNamespaces })
  const frontProxy = watchFrontProxy(kube, log, clock, () => {
    for (const server of servers) server.renewTrust()
  })
  const reflectors = [...caches.reflectors, ...objects.reflectors, frontProxy.reflector]
  observeReflectors(registry, reflectors)
  const servers: WebhookServer[] = []
  let served: { readonly notAfter: number; readonly authorityNotAfter?: number } | undefined
  observeCertificate(registry, () => served)
  const unready = () => [
    ...caches.unready(),
    ...objects.unready(),
    ...(frontProxy.current() === undefined ? ['the front proxy of the API server is not known yet'] : []),
    ...(servers.length < 3 ? ['no certificate yet'] : []),
    ...(shutdown.signal.aborted ? ['stopping'] : []),
  ]
  const health = await startHealth({ port: healthPort, registry, log, clock, unready })
  const metrics = await serveMetrics({ port: metricsPort, registry, kube, log, clock })
  const use = (leaf: Leaf, authority: { readonly notAfter: number } | undefined) => {
    served = { notAfter: leaf.notAfter, ...(authority === undefined ? {} : { authorityNotAfter: authority.notAfter }) }
    for (const server of servers) server.use({ key: leaf.key, cert: leaf.pem })
  }
  const regarding = { apiVersion: 'v1', kind: 'Pod', namespace, name: pod.name, uid: pod.uid }
  const recorder = createEventRecorder({ kube, log, component: 'virtset-webhooks', instance: pod.name })
  const certificateOptions: CertificateControllerOptions = {
    kube,
    clock,
    log,
    namespace,
    secretName,
    apiServiceNames: ['admission', 'subresources', 'sessions'].map((api) => `v1alpha1.${api}.virtset.io`),
    dnsNames: source.services.flatMap((name) => [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`]),
    serve: use,
    recordEvent: (event) => recorder.record({ ...event, regarding }),
  }
  shutdown.step('drain the servers', () =>
    Promise.all(servers.map((server) => server.drain(propagationMs))).then(() => {}),
  )
  shutdown.step('caches', () => Promise.all([caches.stop(), objects.stop()]).then(() => {}))
  shutdown.step('front proxy', () => frontProxy.stop())
  shutdown.step('events', () => recorder.stop())
  shutdown.step('metrics', () => metrics?.close())
  shutdown.step('client', () => kube.close())
  shutdown.step('client for access reviews', () => accessKube.close())
  shutdown.step('health', () => health.close())

  const files = { directory: directory ?? '', clock, log, serve: use }
  const first = await (directory === undefined
    ? reconcileFirst(certificateOptions, shutdown.signal)
    : firstFromFiles(files, shutdown.signal))
  await Promise.all(reflectors.map((reflector) => reflector.synced(shutdown.signal)))
  const tenantRequests = createTenantRequests(accessKube)
  const mayAccess = createMayAccess(tenantRequests, clock)
  const power = createPower(kube, clock)
  const sessions =
    source.handlerToken === undefined
      ? undefined
      : createSessions({
          kube,
          mayAccess,
          endpointOf: (node) => caches.sessionEndpoint(node),
          openAtNode: createSessionClient(tokenFrom(source.handlerToken), clock),
          isReachable: (endpoint) => isReachable(endpoint, clock),
          metrics: createSessionMetrics(registry),
          log,
          clock,
        })
  const optional = sessions === undefined ? {} : { sessions }
  const users = { power, ...optional, mayAccess, frontProxy: () => frontProxy.current(), log, clock }
  const engine = createEngine(caches, mayAccess, clock, createCompletionMetrics(registry))
  const objectHandlers = createObjectHandlers({ objects, namespaces: caches, mayAccess, clock })
  const networkWarnings = createNetworkWarnings(tenantRequests, clock)
  const certificate = { key: first.key, cert: first.pem }
  const shared = {
    certificate,
    metrics: createAdmissionMetrics(registry),
    log,
    clock,
    frontProxy: () => frontProxy.current(),
  }
  const serveUsers = (api: UserApi, connections: ConnectionLimits, port: number) => {
    const routes = createApi({ ...users, api }).register
    return startServer({ ...shared, ...forUsers, connections, routes }, port)
  }
  const cluster = { objectHandlers, networkWarnings }
  servers.push(await serveUsers(subresourcesApi, apiConnectionLimits, source.subresourcesPort))
  servers.push(await serveUsers(sessionsApi, sessionConnectionLimits, source.sessionsPort))
  servers.push(await serveAdmission(context, shared, engine, cluster))
  const exclusions = { namespaces: protectedNamespaces, accounts: ownAccounts(namespace) }
  const reviews = createAuthorReviews(mayAccess, log, clock)
  void runConfigurationController({ kube, objects, exclusions, reviews, log, clock }, shutdown.signal)
  await (directory === undefined
    ? runCertificateController(certificateOptions, first, shutdown.signal)
    : keepFromFiles(files, first, shutdown.signal))
}

/** The kubelet replaces the token long before it expires. */
const tokenFrom = (file: string) => async (): Promise<string> => (await readFile(file, 'utf8')).trim()

/** Serves without a cluster, with presets from files: for benchmarks, or to try presets. */
async function serveFolder(context: Process, { folder, certificate, healthPort }: FolderSource): Promise<void> {
  const { log, registry, shutdown } = context
  // Imported here so that the webhooks of a cluster do not load a YAML parser.
  const { readInventory, readCertificate } = await import('./admission/local.ts')
  const pair = await readCertificate(certificate.cert, certificate.key)
  const caches = cachesWithout(clock, await readInventory(folder, log))
  const engine = createEngine(caches, () => Promise.resolve(false), clock, createCompletionMetrics(registry))
  const unready = () => (shutdown.signal.aborted ? ['stopping'] : [])
  const health = await startHealth({ port: healthPort, registry, log, clock, unready })
  log.info({ port: health.port }, 'serving probes and metrics')
  const server = await serveAdmission(
    context,
    { certificate: pair, metrics: createAdmissionMetrics(registry), log, clock },
    engine,
  )
  shutdown.step('close', () => server.drain(0))
}

async function serveAdmission(
  { settings, log, shutdown }: Process,
  shared: Omit<ServerOptions, 'routes'>,
  engine: Engine,
  cluster?: { readonly objectHandlers: ObjectHandlers; readonly networkWarnings: NetworkWarnings },
): Promise<WebhookServer> {
  const tracer = await startTracing(log, shutdown)
  const trust = { controllers: trustedAccounts(settings.namespace) }
  const handlers = createHandlers(engine, trust, cluster?.objectHandlers, cluster?.networkWarnings)
  const options = { ...shared, ...handlers, ...(tracer === undefined ? {} : { tracer }) }
  warmUp()
  const server = await startServer({ ...shared, routes: admissionRoutes(options) }, settings.port)
  log.info({ port: server.port }, 'serving admission requests')
  return server
}

/** The exporter is loaded only if an OTEL_EXPORTER_OTLP_* variable is set. */
async function startTracing(log: Logger, shutdown: Shutdown): Promise<Tracer | undefined> {
  if (!Object.keys(process.env).some((name) => name.startsWith('OTEL_EXPORTER_OTLP'))) return undefined
  const { createTracer, tracingFrom } = await import('./tracing.ts')
  const tracing = tracingFrom(process.env)
  if (tracing === undefined) return undefined
  const tracer = createTracer({ ...tracing, clock, log })
  shutdown.step('spans', () => tracer.stop())
  log.info({ url: tracing.url }, 'tracing the requests that the API server traces')
  return tracer
}

const settings = readSettings(process.env, process.argv.slice(2))
const log = createLogger({ process: 'webhooks', level: settings.logLevel })
await main(settings, log).catch((error: unknown) => {
  log.fatal({ err: error }, 'the webhooks failed')
  process.exit(1)
})
