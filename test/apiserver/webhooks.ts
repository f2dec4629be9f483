import { createAdmissionMetrics } from '../../webhooks/metrics.ts'
import { createMetrics } from '../../runtime/metrics.ts'
import { createLogger } from '../../runtime/log.ts'
import { systemClock } from '../../runtime/clock.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { createAuthority, issueLeaf } from '../../webhooks/certificates/authority.ts'
import { startCaches } from '../../webhooks/admission/caches.ts'
import type { WatchedCaches } from '../../webhooks/admission/caches.ts'
import type { Engine } from '../../webhooks/admission/engine.ts'
import { createMayAccess } from '../../webhooks/admission/permission.ts'
import { createApi } from '../../webhooks/subresources/api.ts'
import { watchFrontProxy } from '../../webhooks/subresources/front-proxy.ts'
import { createPower } from '../../webhooks/subresources/power.ts'
import { sessionsApi, subresourcesApi, type UserApi } from '../../webhooks/subresources/user-api.ts'
import { createHandlers, trustedAccounts } from '../../webhooks/admission/handler.ts'
import type { AdmissionRequest, AdmissionResult } from '../../webhooks/admission/request.ts'
import { BodyRejected } from '../../webhooks/body.ts'
import { createObjectHandlers } from '../../webhooks/objects/handlers.ts'
import { watchObjects, type WatchedObjects } from '../../inventory/objects.ts'
import { admissionRoutes } from '../../webhooks/admission-routes.ts'
import { startServer } from '../../webhooks/server.ts'
import type { WebhookServer } from '../../webhooks/server.ts'
import { run } from '../../cluster/command.ts'
import type { TestApiServer } from './apiserver.ts'
import { installKinds } from './kinds.ts'
import { installWebhookService, services, system } from './service.ts'
import { writePatch } from '../../webhooks/admission/patch.ts'
import { createTenantRequests } from '../../webhooks/tenant-requests.ts'

export interface TestWebhooks {
  readonly caches: WatchedCaches
  readonly objects: WatchedObjects
  readonly kube: KubeClient
  readonly server: WebhookServer
  stop(): Promise<void>
}

/**
 * Another mutating webhook for VMs with the label `extra-disk`, called after virtset's; it adds the disk `vdz` if it is
 * missing.
 * @param rejections how many requests it first rejects as if it were overloaded
 */
export function startOtherWebhook(api: TestApiServer, rejections = 0): Promise<WebhookServer> {
  let requests = 0
  const add = ({ object }: AdmissionRequest): AdmissionResult => {
    requests += 1
    if (requests <= rejections) throw new BodyRejected('overloaded')
    const source = { protocol: 'nbd', name: 'x', host: { name: 'disks.default' } }
    const value = { type: 'network', device: 'disk', source, target: { dev: 'vdz' } }
    const patch = JSON.stringify(object).includes('vdz')
      ? []
      : [{ op: 'add' as const, path: '/spec/domain/devices/disks/-', value }]
    return { allowed: true, patch: writePatch(patch) }
  }
  const rule = { apiGroups: ['virtset.io'], apiVersions: ['*'], operations: ['CREATE'], resources: ['virtualmachines'] }
  return startMutatingWebhook(api, add, { rule, label: 'extra-disk' })
}

/** A webhook of others, called after virtset's for new objects with a label of the value `yes`. */
export async function startMutatingWebhook(
  api: TestApiServer,
  handle: (request: AdmissionRequest) => AdmissionResult | Promise<AdmissionResult>,
  { rule, label }: { readonly rule: object; readonly label: string },
): Promise<WebhookServer> {
  const authority = await createAuthority(Date.now())
  const leaf = await issueLeaf(authority, ['localhost'], Date.now())
  const shared = {
    metrics: createAdmissionMetrics(createMetrics()),
    log: createLogger({ process: 'other', level: 'silent' }),
    clock: systemClock,
  }
  const certificate = { key: leaf.key, cert: leaf.pem }
  const routes = admissionRoutes({ ...shared, mutate: handle, validate: handle })
  const server = await startServer({ ...shared, certificate, routes }, 0, '127.0.0.1')
  const caBundle = Buffer.from(authority.pem).toString('base64')
  const configuration = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: 'zz-other' },
    webhooks: [
      {
        name: 'other.example.org',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        clientConfig: { caBundle, url: `https://localhost:${server.port}/mutate` },
        objectSelector: { matchLabels: { [label]: 'yes' } },
        rules: [rule],
      },
    ],
  }
  await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'apply', '-f', '-'], { input: JSON.stringify(configuration) })
  return server
}

/** Installs the CRDs and the webhooks of this process, which the API server reaches as in a cluster. */
export async function startWebhooks(
  api: TestApiServer,
  engineOf: (caches: WatchedCaches, kube: KubeClient) => Engine,
): Promise<TestWebhooks> {
  await installKinds(api)
  await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'create', 'namespace', system])

  const log = createLogger({ process: 'webhooks', level: 'silent' })
  const kube = createKubeClient({
    access: await kubeconfigAccess({ file: api.kubeconfig }),
    userAgent: 'virtset-webhooks',
  })
  const caches = startCaches(kube, log, systemClock)
  const objects = watchObjects({ kube, log, clock: systemClock, protectedNamespaces: ['kube-system', system] })
  const frontProxyWatch = watchFrontProxy(kube, log, systemClock, () => {})
  const frontProxy = () => frontProxyWatch.current()
  const reflectors = [...caches.reflectors, ...objects.reflectors, frontProxyWatch.reflector]
  await Promise.all(reflectors.map((reflector) => reflector.synced()))
  const authority = await createAuthority(Date.now())
  const leaf = await issueLeaf(
    authority,
    services.map((name) => `${name}.${system}.svc`),
    Date.now(),
  )
  const power = createPower(kube, systemClock)
  const mayAccess = createMayAccess(createTenantRequests(kube), systemClock)
  const objectHandlers = createObjectHandlers({ objects, namespaces: caches, mayAccess, clock: systemClock })
  const trust = { controllers: trustedAccounts(system) }
  const handlers = createHandlers(engineOf(caches, kube), trust, objectHandlers)
  const shared = {
    certificate: { key: leaf.key, cert: leaf.pem },
    metrics: createAdmissionMetrics(createMetrics()),
    log,
    clock: systemClock,
    frontProxy,
  }
  const serveApi = (userApi: UserApi) => {
    const { register } = createApi({ api: userApi, power, mayAccess, frontProxy, log, clock: systemClock })
    return startServer({ ...shared, routes: register }, 0)
  }
  const [subresources, sessions] = [await serveApi(subresourcesApi), await serveApi(sessionsApi)]
  const server = await startServer({ ...shared, routes: admissionRoutes({ ...shared, ...handlers }) }, 0)
  const service = await installWebhookService(api, authority.pem)
  const ports = { webhooks: server.port, subresources: subresources.port, sessions: sessions.port }
  await service.lead('in-process', ports)
  await service.available()
  return {
    caches,
    objects,
    kube,
    server,
    async stop() {
      await Promise.all([server, subresources, sessions].map((one) => one.drain(0)))
      await frontProxyWatch.stop()
      await Promise.all([caches.stop(), objects.stop()])
      await kube.close()
    },
  }
}
