import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lastLines, run } from '../../cluster/command.ts'
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

/**
 * A probe, by the kubelet's rules: undefined for a status from 200 to 399 within the timeout, otherwise what failed.
 */
async function failureOf({ healthPort }: Replica, { httpGet, timeoutSeconds }: Probe): Promise<string | undefined> {
  const signal = AbortSignal.timeout(timeoutSeconds * 1000)
  try {
    const { statusCode, body } = await request(`http://127.0.0.1:${healthPort}${httpGet.path}`, { signal })
    const text = await body.text()
    return statusCode >= 200 && statusCode < 400 ? undefined : `${statusCode} ${text}`
  } catch (error) {
    return String(error)
  }
}

/**
 * Probes at the kubelet's interval until one succeeds. More probes would use up the CPU that the process needs to
 * become ready.
 *
 * @throws Error after `mostFailures`, or when the process has ended, with the last failure and the end of the log
 */
async function succeeds(replica: Replica, probe: Probe, mostFailures: number): Promise<void> {
  let failure = ''
  for (let failures = 0; failures < mostFailures; failures++) {
    const again = await failureOf(replica, probe)
    if (again === undefined) return
    failure = again
    if (replica.child.exitCode !== null) break
    await sleep(probe.periodSeconds * 1000)
  }
  const which = `${replica.name}: no probe of ${probe.httpGet.path} succeeded, the last failed with: ${failure}`
  throw new Error(`${which}\n${stateOf(replica)}`)
}

/** For the message of a failure. */
function stateOf(replica: Replica): string {
  const cpuSeconds = replica.usage().cpuSeconds.toFixed(1)
  return `exit code ${replica.child.exitCode}, ${cpuSeconds} s of CPU time, log:\n${lastLines(replica.log(), 15)}`
}

/**
 * Probes at the kubelet's interval until `signal` aborts; returns the failures on which the kubelet would have acted.
 */
async function failuresUntil(signal: AbortSignal, replica: Replica, probe: Probe): Promise<string[]> {
  const failures: string[] = []
  while (!signal.aborted) {
    const failure = await failureOf(replica, probe)
    if (failure === undefined) failures.length = 0
    else failures.push(`${replica.name} ${probe.httpGet.path}: ${failure}`)
    if (failures.length === probe.failureThreshold) return failures
    await sleep(probe.periodSeconds * 1000, undefined, { signal }).catch(() => {})
  }
  return []
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
  const [webhooks, controller, handler] = await Promise.all([
    processes.startWebhooks('webhooks-1'),
    processes.startController('controller-1'),
    processes.startHandler('handler-1', 'node1'),
  ])
  const replicas: [Component, Replica][] = [
    ['webhooks', webhooks],
    ['controller', controller],
    ['handler', handler],
  ]
  const probes = (component: Component) => probesOf(manifestOf[component], component)
  const starts = replicas.map(async ([component, replica]) => {
    const { startupProbe, readinessProbe } = probes(component)
    await succeeds(replica, startupProbe, startupProbe.failureThreshold)
    await succeeds(replica, readinessProbe, startDeadlineMs / 1000 / readinessProbe.periodSeconds)
  })
  await Promise.all(starts)

  const done = new AbortController()
  const held = replicas.flatMap(([component, replica]) => {
    const { readinessProbe, livenessProbe } = probes(component)
    return [readinessProbe, livenessProbe].map((probe) => failuresUntil(done.signal, replica, probe))
  })
  const states = () => replicas.map(([, replica]) => `${replica.name}: ${stateOf(replica)}`).join('\n')
  const first = await eventually('the controller leads', lease, startDeadlineMs).catch((error: unknown) => {
    throw new Error(states(), { cause: error })
  })
  const path = '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines'
  // A lease renewal every two seconds, with a VM to complete and watch for each.
  let { renewTime } = first
  for (let renewals = 0; renewals < 6; renewals++) {
    await kube.request('POST', path, vm(`vm-${renewals}`))
    const next = async () => {
      const now = await lease()
      return now.renewTime === renewTime ? undefined : now
    }
    const describe = () => `renewal ${renewals + 1} of the lease\n${states()}`
    const renewed = await until(next, () => sleep(200), { describe })
    const { leaseTransitions } = first
    expect(renewed, states()).toMatchObject({ holderIdentity: 'controller-1', leaseTransitions })
    renewTime = renewed.renewTime
  }
  done.abort()
  expect((await Promise.all(held)).flat()).toEqual([])
  expect(replicas.map(([, { child }]) => child.exitCode)).toEqual([null, null, null])
}, 2_000_000)
