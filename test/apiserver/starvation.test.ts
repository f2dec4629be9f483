import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { probesOf, starvedLimitsOf, type Probe } from '../confinement.ts'
import { eventually, until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { installProcesses, manifestOf, type Component, type Processes, type Replica } from './processes.ts'

/**
 * The processes with the CPU share of their requests on a node with 50 busy VMs, and with the kubelet's probes.
 */
let api: TestApiServer
let kube: KubeClient
let processes: Processes
/** The kubelet waits as long: the startup probes of the manifests fail 600 times, once a second. */
const startDeadlineMs = 600_000
beforeAll(async () => {
  api = await startApiServer()
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'test' })
  // As in the images: without the cache each start compiles everything.
  const cache = join(api.directory, 'compile-cache')
  await run([process.execPath, 'images/fill-cache.ts'], { environment: { NODE_COMPILE_CACHE: cache } })
  const environment = { NODE_COMPILE_CACHE: cache }
  processes = await installProcesses(api, { limitsFor: starvedLimitsOf, environment, startDeadlineMs })
})
afterAll(async () => {
  await processes?.stop()
  await kube?.close()
  await api?.stop()
})

/** Whether a probe succeeds, by the kubelet's rules: a status from 200 to 399 within the timeout. */
async function succeeds({ healthPort }: Replica, { httpGet, timeoutSeconds }: Probe): Promise<boolean> {
  const signal = AbortSignal.timeout(timeoutSeconds * 1000)
  try {
    const { statusCode, body } = await request(`http://127.0.0.1:${healthPort}${httpGet.path}`, { signal })
    await body.dump()
    return statusCode >= 200 && statusCode < 400
  } catch {
    return false
  }
}

/** Probes until one succeeds; returns whether that was before the kubelet would have restarted the container. */
async function startsInTime(replica: Replica, probe: Probe): Promise<boolean> {
  for (let failures = 0; failures < probe.failureThreshold; failures++) {
    if (await succeeds(replica, probe)) return true
    await sleep(probe.periodSeconds * 1000)
  }
  return false
}

/** Probes at the kubelet's interval until `signal` aborts; returns whether the kubelet would never have acted. */
async function holdsUntil(signal: AbortSignal, replica: Replica, probe: Probe): Promise<boolean> {
  let failures = 0
  while (!signal.aborted) {
    failures = (await succeeds(replica, probe)) ? 0 : failures + 1
    if (failures === probe.failureThreshold) return false
    await sleep(probe.periodSeconds * 1000, undefined, { signal }).catch(() => {})
  }
  return true
}

interface Lease {
  readonly spec: { readonly holderIdentity: string; readonly renewTime: string; readonly leaseTransitions: number }
}
const leasePath = '/apis/coordination.k8s.io/v1/namespaces/virtset-system/leases/virtset-controller'
const lease = async () => ((await kube.request('GET', leasePath)) as Lease).spec

const vm = (name: string) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name },
  spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 32 }, os: { type: { os: 'hvm' } } } },
})

test('on a node with 50 busy VMs the processes start, stay ready and live, keep the lease and complete VMs', async () => {
  const replicas: [Component, Replica][] = [
    ['webhooks', await processes.startWebhooks('webhooks-1')],
    ['controller', await processes.startController('controller-1')],
    ['handler', await processes.startHandler('handler-1', 'node1')],
  ]
  const probes = (component: Component) => probesOf(manifestOf[component], component)
  const starts = replicas.map(([component, replica]) => startsInTime(replica, probes(component).startupProbe))
  expect(await Promise.all(starts)).toEqual([true, true, true])
  for (const [component, replica] of replicas)
    await until(() => succeeds(replica, probes(component).readinessProbe), undefined, { deadlineMs: startDeadlineMs })

  const done = new AbortController()
  const held = replicas.flatMap(([component, replica]) => {
    const { readinessProbe, livenessProbe } = probes(component)
    return [readinessProbe, livenessProbe].map((probe) => holdsUntil(done.signal, replica, probe))
  })
  const first = await eventually('the controller leads', lease, startDeadlineMs)
  const renewals = new Set<string>()
  const path = '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines'
  // A lease renewal every two seconds, with a VM to complete and watch for each.
  while (renewals.size < 10) {
    const { renewTime, ...holder } = await lease()
    expect(holder).toMatchObject({ holderIdentity: 'controller-1', leaseTransitions: first.leaseTransitions })
    if (!renewals.has(renewTime)) await kube.request('POST', path, vm(`vm-${renewals.size}`))
    renewals.add(renewTime)
    await sleep(200)
  }
  done.abort()
  expect(await Promise.all(held)).toEqual(replicas.flatMap(() => [true, true]))
  expect(replicas.map(([, { child }]) => child.exitCode)).toEqual([null, null, null])
}, 2_000_000)
