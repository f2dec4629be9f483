import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { systemClock } from '../../runtime/clock.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { resource } from '../../runtime/resource.ts'
import type { KubeObject } from '../../runtime/resource.ts'
import { createLogger } from '../../runtime/log.ts'
import { createMetrics } from '../../runtime/metrics.ts'
import { reconcileCertificates } from '../../webhooks/certificates/certificate-controller.ts'
import type { CertificateControllerOptions } from '../../webhooks/certificates/certificate-controller.ts'
import type { CertificateEvent } from '../../webhooks/certificates/event.ts'
import type { Leaf } from '../../webhooks/certificates/plan.ts'
import { createAdmissionMetrics } from '../../webhooks/metrics.ts'
import { createMayAccess } from '../../webhooks/admission/permission.ts'
import { admissionRoutes } from '../../webhooks/admission-routes.ts'
import { startServer } from '../../webhooks/server.ts'
import type { WebhookServer } from '../../webhooks/server.ts'
import { createApi } from '../../webhooks/subresources/api.ts'
import { watchFrontProxy } from '../../webhooks/subresources/front-proxy.ts'
import { createPower } from '../../webhooks/subresources/power.ts'
import { sessionsApi, subresourcesApi, type UserApi } from '../../webhooks/subresources/user-api.ts'
import { createTenantRequests } from '../../webhooks/tenant-requests.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installKinds } from './kinds.ts'
import { installWebhookService, services } from './service.ts'
import type { WebhookService } from './service.ts'

let api: TestApiServer
let kube: KubeClient
let service: WebhookService | undefined
const namespace = 'virtset-system'
const name = 'virtset-webhooks-certificates'
const secrets = resource<KubeObject>({ group: '', version: 'v1', plural: 'secrets', kind: 'Secret', namespaced: true })
const log = createLogger({ process: 'webhooks', level: 'silent' })
const kubectl = (rest: string[], input = '') => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], { input })

beforeAll(async () => {
  api = await startApiServer()
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'virtset-webhooks' })
  await kubectl(['create', 'namespace', namespace])
  await installKinds(api)
})
afterAll(async () => {
  await kube?.close()
  await api?.stop()
})

interface Replica {
  served: Leaf | undefined
  settle(): Promise<void>
}

function replica(
  clock: Clock,
  serve: (leaf: Leaf) => void = () => {},
  dnsNames = ['localhost'],
  recordEvent: (event: CertificateEvent) => void = () => {},
): Replica {
  const options: CertificateControllerOptions = {
    kube,
    clock,
    log,
    namespace,
    secretName: name,
    apiServiceNames: apiServices,
    dnsNames,
    serve,
    recordEvent,
  }
  const it: Replica = {
    served: undefined,
    async settle() {
      it.served = await reconcileCertificates(options, it.served)
    },
  }
  return it
}

const apiService = 'v1alpha1.admission.virtset.io'
const apiServices = [apiService, 'v1alpha1.subresources.virtset.io', 'v1alpha1.sessions.virtset.io']
const readBundle = () => kubectl(['get', 'apiservice', apiService, '-o', 'jsonpath={.spec.caBundle}'])

test('three replicas that start together agree on one certificate and one authority', async () => {
  service = await installWebhookService(api)
  const replicas = [replica(systemClock), replica(systemClock), replica(systemClock)]
  await Promise.all(replicas.map((one) => one.settle()))
  await Promise.all(replicas.map((one) => one.settle()))
  expect(new Set(replicas.map(({ served }) => served?.pem)).size).toBe(1)
  const text = Buffer.from(await readBundle(), 'base64').toString()
  expect(text.split('BEGIN CERTIFICATE').length - 1).toBe(1)
})

test('repairs and reports tampering: Secret deleted, authority removed, bundle overwritten', async () => {
  const recorded: string[] = []
  const one = replica(
    systemClock,
    () => {},
    ['localhost'],
    ({ type, reason }) => type === 'Warning' && recorded.push(reason),
  )
  await one.settle()
  const before = one.served
  const original = Buffer.from(await readBundle(), 'base64')
    .toString()
    .trim()
  const tamperings: string[][] = [
    ['delete', 'secret', '-n', namespace, name],
    [
      'patch',
      'secret',
      '-n',
      namespace,
      'virtset-webhooks-certificates',
      '--type=merge',
      '-p',
      '{"data":{"ca.crt":"","ca.key":"AAAA"}}',
    ],
    [
      'patch',
      'apiservice',
      apiService,
      '--type=json',
      '-p',
      `[{"op":"replace","path":"/spec/caBundle","value":"${Buffer.from(api.certificateAuthority).toString('base64')}"}]`,
    ],
    [
      'patch',
      'secret',
      '-n',
      namespace,
      'virtset-webhooks-certificates',
      '--type=merge',
      '-p',
      '{"data":{"tls.crt":"bm8="}}',
    ],
  ]
  for (const tampering of tamperings) {
    await kubectl(tampering)
    await one.settle()
    expect(Buffer.from(await readBundle(), 'base64').toString()).toContain(original)
  }
  expect(new Set(recorded)).toEqual(new Set(['AuthorityLost', 'CaBundleRepaired', 'SecretRepaired']))
  // The served certificate was trusted all the time, so there was no other event.
  expect(before?.pem).toBe(one.served?.pem)
})

test('no request fails during twenty rotations under load, with new and expired authorities', async () => {
  const time = { skewMs: 0 }
  const clock: Clock = { ...systemClock, now: () => Date.now() + time.skewMs }
  const servers: WebhookServer[] = []
  // A new DNS name requires a new leaf at any time.
  const names = services.map((service) => `${service}.virtset-system.svc`)
  const serve = (leaf: Leaf) => {
    for (const server of servers) server.use({ key: leaf.key, cert: leaf.pem })
  }
  const one = replica(clock, serve, names)
  await one.settle()
  const certificate = { key: one.served?.key ?? '', cert: one.served?.pem ?? '' }
  const allow = () => ({ allowed: true }) as const
  const metrics = createAdmissionMetrics(createMetrics())
  const frontProxyWatch = watchFrontProxy(kube, log, clock, () => {
    for (const server of servers) server.renewTrust()
  })
  await frontProxyWatch.reflector.synced()
  const frontProxy = () => frontProxyWatch.current()
  const power = createPower(kube, clock)
  const mayAccess = createMayAccess(createTenantRequests(kube), clock)
  const shared = { certificate, metrics, log, clock: systemClock, frontProxy }
  const admission = admissionRoutes({ ...shared, mutate: allow, validate: allow })
  const webhooks = await startServer({ ...shared, routes: admission }, 0)
  const serveApi = (api: UserApi) => {
    const { register } = createApi({ api, power, mayAccess, frontProxy, log, clock })
    return startServer({ ...shared, routes: register }, 0)
  }
  const [subresources, sessions] = [await serveApi(subresourcesApi), await serveApi(sessionsApi)]
  servers.push(webhooks, subresources, sessions)
  const ports = { webhooks: webhooks.port, subresources: subresources.port, sessions: sessions.port }
  await service?.lead('in-process', ports)
  await service?.available()
  const outcomes = { created: 0, failed: [] as string[] }
  const stop = new AbortController()
  const load = async (worker: number) => {
    for (let count = 0; !stop.signal.aborted; count++) {
      try {
        await kube.request('POST', '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines?dryRun=All', {
          apiVersion: 'virtset.io/v1alpha1',
          kind: 'VirtualMachine',
          metadata: { name: `vm-${worker}-${count}` },
          spec: { domain: {} },
        })
        outcomes.created++
      } catch (error) {
        outcomes.failed.push(String(error))
      }
    }
  }
  const workers = [load(1)]
  const leaves = new Set<string>()
  for (let rotation = 0; rotation < 20; rotation++) {
    // Twenty minutes apart: longer than an API server can take to trust a new authority.
    time.skewMs += 20 * 60 * 1000
    if (rotation % 5 === 4) {
      await kube.patch(secrets, { namespace, name }, { type: 'merge', body: { data: { 'ca.key': '' } } })
      await one.settle()
      time.skewMs += 20 * 60 * 1000
    }
    names.push(`name-${rotation}`)
    await one.settle()
    const enough = outcomes.created + outcomes.failed.length + 10
    await until(
      () => outcomes.created + outcomes.failed.length >= enough,
      () => {},
      { deadlineMs: 120_000 },
    )
    leaves.add(one.served?.pem ?? '')
  }
  stop.abort()
  await Promise.all(workers)
  await Promise.all(servers.map((server) => server.drain(0)))
  await frontProxyWatch.stop()
  expect(outcomes.failed).toEqual([])
  expect([leaves.size, outcomes.created >= 200]).toEqual([20, true])
})
