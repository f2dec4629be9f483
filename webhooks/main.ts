import { parseArgs } from 'node:util'
import { defaultAccess } from '../runtime/access.ts'
import { systemClock } from '../runtime/clock.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { startHealth } from '../runtime/health.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger, isLogLevel } from '../runtime/log.ts'
import { createMetrics, observeReflectors } from '../runtime/metrics.ts'
import { serveMetrics } from '../runtime/metrics-server.ts'
import { createShutdown } from '../runtime/shutdown.ts'
import { cachesWithout, startCaches } from './caches.ts'
import { firstFromFiles, keepFromFiles } from './certificate-files.ts'
import { keepCertificates, settleFirst } from './certificate-keeper.ts'
import type { KeeperOptions } from './certificate-keeper.ts'
import type { Leaf } from './certificates.ts'
import { createEngine } from './engine.ts'
import { createCompletionMetrics, createReviewMetrics, observeCertificate } from './metrics.ts'
import { createMayAccess } from './permission.ts'
import { createReviewers, trustedAccounts } from './reviewers.ts'
import { startServer } from './server.ts'
import type { Certificate, WebhookServer } from './server.ts'
import { createApi } from './subresources/api.ts'
import type { Api } from './subresources/api.ts'
import { watchFrontProxy } from './subresources/front-proxy.ts'
import type { FrontProxyWatch } from './subresources/front-proxy.ts'
import type { Tracer } from './tracing.ts'
import { createPower } from './subresources/power.ts'
import { warmUp } from './warm-up.ts'

const { env } = process
const namespace = env['NAMESPACE'] ?? 'virtset-system'
const level = env['LOG_LEVEL'] ?? 'info'
const log = createLogger({ process: 'webhooks', ...(isLogLevel(level) ? { level } : {}) })
const trust = { controllers: trustedAccounts(namespace) }
const registry = createMetrics()

/** Longer than PROPAGATION_SECONDS, shorter than the pod's terminationGracePeriodSeconds. */
const shutdown = createShutdown({ source: process, log, exit: (code) => process.exit(code), timeoutMs: 35_000 })

const { values } = parseArgs({
  options: {
    presets: { type: 'string' },
    port: { type: 'string', default: env['PORT'] ?? '8443' },
    cert: { type: 'string' },
    key: { type: 'string' },
  },
})

const { presets: folder, cert, key } = values
if (folder === undefined) await serveCluster(Number(values.port))
else if (cert === undefined || key === undefined) throw new Error('--presets DIR wants --cert FILE and --key FILE')
else await serveFolder(folder, { cert, key }, Number(values.port))

/** In a cluster: presets from its API server, certificates of our own, health and metrics on a second port. */
async function serveCluster(port: number): Promise<void> {
  const kube = createKubeClient({ access: await defaultAccess(env), userAgent: 'virtset-webhooks' })
  const caches = startCaches(kube, log, systemClock)
  const frontProxy = watchFrontProxy(kube, log, systemClock, () => server?.renewTrust())
  const reflectors = [...caches.reflectors, frontProxy.reflector]
  observeReflectors(registry, reflectors)
  let server: WebhookServer | undefined
  let served: { readonly notAfter: number; readonly authorityNotAfter?: number } | undefined
  observeCertificate(registry, () => served)
  const health = await startHealth({
    port: Number(env['HEALTH_PORT'] ?? 8080),
    registry,
    log,
    clock: systemClock,
    unready: () => [
      ...caches.unready(),
      ...(frontProxy.current() === undefined ? ['the API server publishes no front proxy'] : []),
      ...(server === undefined ? ['there is no certificate yet'] : []),
      ...(shutdown.signal.aborted ? ['stopping'] : []),
    ],
  })
  const metrics = await serveMetrics({ port: env['METRICS_PORT'], registry, kube, log, clock: systemClock })
  const use = (leaf: Leaf, authority: { readonly notAfter: number } | undefined) => {
    served = { notAfter: leaf.notAfter, ...(authority === undefined ? {} : { authorityNotAfter: authority.notAfter }) }
    server?.use({ key: leaf.key, cert: leaf.pem })
  }
  const { POD_NAME: podName = 'virtset-webhooks', POD_UID: podUid = '' } = env
  const pod = { apiVersion: 'v1', kind: 'Pod', namespace, name: podName, uid: podUid }
  const recorder = createEventRecorder({ kube, log, component: 'virtset-webhooks', instance: podName })
  const service = env['SERVICE'] ?? 'virtset-webhooks'
  const keeper: KeeperOptions = {
    kube,
    clock: systemClock,
    log,
    namespace,
    secretName: env['SECRET'] ?? 'virtset-webhooks-certificates',
    apiServiceName: 'v1alpha1.subresources.virtset.io',
    dnsNames: [`${service}.${namespace}.svc`, `${service}.${namespace}.svc.cluster.local`],
    serve: use,
    tell: (news) => recorder.record({ ...news, regarding: pod }),
  }
  const propagationMs = Number(env['PROPAGATION_SECONDS'] ?? 10) * 1000
  shutdown.step('serve until nobody comes any more', () => server?.drain(propagationMs))
  shutdown.step('caches', () => caches.stop())
  shutdown.step('front proxy', () => frontProxy.stop())
  shutdown.step('events', () => recorder.stop())
  shutdown.step('metrics', () => metrics?.close())
  shutdown.step('client', () => kube.close())
  shutdown.step('health', () => health.close())

  const directory = env['CERTIFICATE_DIRECTORY']
  const files = { directory: directory ?? '', clock: systemClock, log, serve: use }
  const first = await (directory === undefined
    ? settleFirst(keeper, shutdown.signal)
    : firstFromFiles(files, shutdown.signal))
  await Promise.all(reflectors.map((reflector) => reflector.synced(shutdown.signal)))
  const mayAccess = createMayAccess(kube, systemClock)
  const api = createApi({
    power: createPower(kube, systemClock),
    mayAccess,
    frontProxy: () => frontProxy.current(),
    log,
    clock: systemClock,
  })
  server = await serve(
    { key: first.key, cert: first.pem },
    createEngine(caches, mayAccess, systemClock, createCompletionMetrics(registry)),
    port,
    { api, frontProxy },
  )
  await (directory === undefined
    ? keepCertificates(keeper, first, shutdown.signal)
    : keepFromFiles(files, first, shutdown.signal))
}

/** Without a cluster, presets from files: to measure the webhooks, or to try presets. */
async function serveFolder(folder: string, files: Certificate, port: number): Promise<void> {
  // Only here, so that a cluster's webhooks carry no reader of YAML.
  const { readInventory, readCertificate } = await import('./local.ts')
  const certificate = await readCertificate(files.cert, files.key)
  const engine = createEngine(
    cachesWithout(systemClock, await readInventory(folder, log)),
    () => Promise.resolve(false),
    systemClock,
    createCompletionMetrics(registry),
  )
  const unready = () => (shutdown.signal.aborted ? ['stopping'] : [])
  const health = await startHealth({
    port: Number(env['HEALTH_PORT'] ?? 0),
    registry,
    log,
    clock: systemClock,
    unready,
  })
  log.info({ port: health.port }, 'probes and metrics')
  const server = await serve(certificate, engine, port)
  shutdown.step('close', () => server.drain(0))
}

async function serve(
  certificate: Certificate,
  engine: ReturnType<typeof createEngine>,
  port: number,
  cluster?: { readonly api: Api; readonly frontProxy: FrontProxyWatch },
): Promise<WebhookServer> {
  const reviewers = createReviewers(engine, trust)
  const metrics = createReviewMetrics(registry)
  const tracer = await startTracing()
  const options = {
    certificate,
    ...reviewers,
    metrics,
    log,
    clock: systemClock,
    ...(cluster === undefined ? {} : { api: cluster.api, frontProxy: () => cluster.frontProxy.current() }),
    ...(tracer === undefined ? {} : { tracer }),
  }
  warmUp()
  const server = await startServer(options, port)
  log.info({ port: server.port }, 'reviewing')
  return server
}

/** OTEL_EXPORTER_OTLP_ENDPOINT and its like; the exporter is loaded only with them. */
async function startTracing(): Promise<Tracer | undefined> {
  if (!Object.keys(env).some((name) => name.startsWith('OTEL_EXPORTER_OTLP'))) return undefined
  const { createTracer, tracingFrom } = await import('./tracing.ts')
  const settings = tracingFrom(env)
  if (settings === undefined) return undefined
  const tracer = createTracer({ ...settings, clock: systemClock, log })
  shutdown.step('spans', () => tracer.stop())
  log.info({ url: settings.url }, 'reviews that the API server traces are traced')
  return tracer
}
