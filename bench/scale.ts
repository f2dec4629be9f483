import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { request } from 'undici'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { ensureBinaries, ensureTool } from '../cluster/binaries.ts'
import { lastLines, run } from '../cluster/command.ts'
import { createProgress } from '../cluster/progress.ts'
import { readSettings } from '../cluster/settings.ts'
import { terminal } from '../cluster/terminal.ts'
import { podName } from '../controller/launcher-pod.ts'
import { pods } from '../controller/pod.ts'
import { kubeconfigAccess } from '../runtime/access.ts'
import { unlessNotFound } from '../runtime/api-error.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { resource, virtualMachineGroups, virtualMachines, type KubeObject } from '../runtime/resource.ts'
import { pick } from '../runtime/slim.ts'
import { startApiServer } from '../test/apiserver/apiserver.ts'
import { copyOf, type RunningVm } from '../test/apiserver/at-rest.ts'
import { writeToEtcd } from '../test/apiserver/etcd.ts'
import { installProcesses, type Replica } from '../test/apiserver/processes.ts'
import { until } from '../test/until.ts'
import { startSimulatedCluster } from './scale/simulated-cluster.ts'
import { cpuPer, usageByProgram } from './scale/usage.ts'

/**
 * What a VM costs in a cluster of simulated nodes: real etcd, API server, scheduler and controller manager; the real
 * webhooks, controller and handlers; KWOK as kubelets, and launchers without guests. Measures VMs beside bare pods in
 * the same run, their deletion, a group, and the start of the controller with VMs at rest. Prints JSON.
 *
 *     node bench/scale.ts [--vms 1000] [--nodes 100] [--connections 16] [--rest 1000]
 *
 * CPU times and ratios to a bare pod are comparable between machines, seconds are not. Builds missing programs.
 */
const { values } = parseArgs({
  options: {
    vms: { type: 'string', default: '1000' },
    nodes: { type: 'string', default: '100' },
    connections: { type: 'string', default: '16' },
    rest: { type: 'string', default: '1000' },
  },
})
const vmCount = Number(values.vms)
const restCount = Number(values.rest)
const namespace = 'default'
const nodeNames = Array.from({ length: Number(values.nodes) }, (_, index) => `node-${index}`)

const settings = readSettings(resolve(import.meta.dirname, '..'), process.env)
const progress = createProgress(terminal, join(settings.cache, 'log'))
const remedy = 'requires Go >= 1.26 and a Go module proxy'
const binaries = await progress.step('Kubernetes', remedy, (step) => ensureBinaries(step, settings))
const kwok = await progress.step('KWOK', remedy, (step) => ensureTool(step, settings, 'kwok'))
const folder = ['go', 'list', '-m', '-f', '{{.Dir}}', 'sigs.k8s.io/kwok']
const module = (await run(folder, { directory: join(settings.checkout, 'cluster/kwok') })).trim()

const deployments = resource<KubeObject>({
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
  namespaced: true,
})

/** Stopped in reverse order. */
const started: { stop(): unknown }[] = []
const opened = <T extends { stop(): unknown }>(one: T): T => {
  started.push(one)
  return one
}
const often = () => delay(100)
const patience = { deadlineMs: 3_600_000 }
const round = (value: number) => Number(value.toFixed(1))
const memoryMiB = () =>
  Object.fromEntries([...usageByProgram()].map(([program, { residentMiB }]) => [program, Math.round(residentMiB)]))

try {
  console.log(JSON.stringify(await measure(), undefined, 2))
} finally {
  for (const one of started.reverse()) await one.stop()
}

async function measure(): Promise<object> {
  const api = opened(await progress.step('API server', 'see the log', () => startApiServer(binaries.kubernetes)))
  const kube = createKubeClient({
    access: await kubeconfigAccess({ file: api.kubeconfig }),
    userAgent: 'virtset-bench',
  })
  started.push({ stop: () => kube.close() })
  const processes = opened(await progress.step('virtset', 'see the log', () => installProcesses(api)))
  const simulated = { api, binaries: binaries.kubernetes, kwok, stages: join(module, 'kustomize/stage'), nodeNames }
  opened(await progress.step(`${nodeNames.length} nodes`, 'see the log', () => startSimulatedCluster(simulated)))
  const controller = await progress.step('Webhooks, controller, handlers', 'see the log', async () => {
    await processes.startWebhooks('webhooks-1')
    return processes.startController('controller-1')
  })
  const handlers = opened(await startHandlers(api))
  /** When each VM was seen to run, by name. */
  const runningAtMs = new Map<string, number>()
  const log = createLogger({ process: 'bench', level: 'silent' })
  const vms = opened(
    startReflector({
      kube,
      resource: virtualMachines,
      log,
      slim: ({ apiVersion, kind, metadata, status }) => ({
        apiVersion,
        kind,
        metadata: { name: metadata.name, namespace, uid: metadata.uid, resourceVersion: metadata.resourceVersion },
        spec: { domain: {} },
        status: pick(status ?? {}, 'phase', 'message'),
      }),
    }),
  )
  vms.onChange(({ kind, object: { metadata, status } }) => {
    if (kind === 'deleted') runningAtMs.delete(metadata.name)
    else if (status?.phase === 'Running' && !runningAtMs.has(metadata.name))
      runningAtMs.set(metadata.name, performance.now())
  })
  await vms.synced()
  await progress.step('A first VM', 'see the log', async () => {
    await kube.create(virtualMachines, vm('first'))
    const describe = () => `the first VM does not run: ${JSON.stringify(vms.store.list().map(({ status }) => status))}`
    await until(() => runningAtMs.size === 1, often, { deadlineMs: 300_000, describe })
    await kube.delete(virtualMachines, { namespace, name: 'first' })
    await until(() => vms.store.list().length === 0, often, patience)
  })
  const empty = memoryMiB()
  const ended = once(controller.child, 'exit').then(() => {
    throw new Error(`the controller ended: ${lastLines(controller.log(), 5)}`)
  })
  // It is killed on purpose at the end.
  ended.catch(() => {})

  /** Its duration, and the CPU time of each process for each of `vmCount` objects. */
  const timed = (title: string, work: () => Promise<void>) =>
    progress.step(title, 'see the log', async (step) => {
      const before = usageByProgram()
      const beganMs = performance.now()
      const show = setInterval(() => step.show(`${runningAtMs.size} VMs run`), 1000)
      await Promise.race([work(), ended]).finally(() => clearInterval(show))
      const seconds = (performance.now() - beganMs) / 1000
      const machinePercent = Math.round(cpuPer(1, before).all / 10 / seconds / cpus().length)
      const cpuMs = cpuPer(vmCount, before)
      const { all, ...programs } = cpuMs
      const largest = Object.entries(programs)
        .toSorted(([, one], [, other]) => other - one)
        .map(([program, ms]) => `${program} ${ms}`)
      step.show(`${all} ms of CPU for each (${largest.join(', ')}), ${machinePercent} % of the machine`)
      return { seconds: round(seconds), perSecond: round(vmCount / seconds), machinePercent, cpuMs }
    })

  const barePods = await timed(`${vmCount} bare pods`, async () => {
    await kube.create(deployments, deployment())
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/bare`
    const ready = async () => {
      const { status } = (await kube.request('GET', path)) as { readonly status: { readonly readyReplicas?: number } }
      return status.readyReplicas === vmCount
    }
    await until(ready, () => delay(500), patience)
  })
  await kube.request('DELETE', `/apis/apps/v1/namespaces/${namespace}/deployments/bare`, {
    propagationPolicy: 'Background',
  })
  const podsAreGone = async () => (await kube.list(pods, { namespace, limit: 1 })).items.length === 0
  await progress.step('Bare pods end', 'see the log', () => until(podsAreGone, () => delay(500), patience))

  const createdAtMs = new Map<string, number>()
  const created = await timed(`${vmCount} VMs`, async () => {
    await inParallel(vmCount, async (index) => {
      createdAtMs.set(`vm-${index}`, performance.now())
      await kube.create(virtualMachines, vm(`vm-${index}`))
    })
    await until(() => runningAtMs.size === vmCount, often, patience)
  })
  const latencies = [...runningAtMs].map(([name, atMs]) => atMs - (createdAtMs.get(name) ?? NaN)).sort((a, b) => a - b)
  const latencyAt = (share: number) => round((latencies[Math.floor(share * (latencies.length - 1))] ?? NaN) / 1000)
  const full = memoryMiB()
  const one = await kube.get(virtualMachines, { namespace, name: 'vm-0' })
  const template: RunningVm = { vm: one, pod: await kube.get(pods, { namespace, name: podName(one) }) }

  const deleted = await timed(`Deletion of ${vmCount} VMs`, async () => {
    await inParallel(vmCount, (index) => kube.delete(virtualMachines, { namespace, name: `vm-${index}` }))
    await until(() => vms.store.list().length === 0, often, patience)
  })

  const ofGroup = await timed(`A group of ${vmCount}`, async () => {
    const { spec } = vm('')
    const labels = { app: 'group' }
    await kube.create(virtualMachineGroups, {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachineGroup',
      metadata: { namespace, name: 'group' },
      spec: { replicas: vmCount, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    })
    await until(() => runningAtMs.size === vmCount, often, patience)
  })
  await progress.step('The group ends', 'see the log', async () => {
    await unlessNotFound(kube.delete(virtualMachineGroups, { namespace, name: 'group' }))
    await until(() => vms.store.list().length === 0, often, patience)
  })

  // Handlers would look for launchers of VMs that were never started.
  await handlers.stop()
  const atRest = await progress.step(`The controller starts with ${restCount} VMs`, 'see the log', async () => {
    await kill(controller)
    await writeToEtcd(api, objectsAtRest(template))
    const before = usageByProgram()
    const beganMs = performance.now()
    const second = await processes.startController('controller-1')
    // Each scrape starts a new measurement of the event loop.
    let longestBlockMs = 0
    const isDone = async () => {
      const metrics = await metricsOf(second)
      longestBlockMs = Math.max(longestBlockMs, (metrics.get('nodejs_eventloop_lag_max_seconds') ?? 0) * 1000)
      return (metrics.get('virtset_queue{queue="vms",state="done"}') ?? 0) >= restCount
    }
    await until(isDone, () => delay(200), patience)
    return {
      vms: restCount,
      seconds: round((performance.now() - beganMs) / 1000),
      cpuMs: cpuPer(1, before)['controller'],
      peakMiB: Math.round(second.usage().peakBytes / 2 ** 20),
      longestBlockMs: Math.round(longestBlockMs),
    }
  })
  const ratio = round(created.cpuMs.all / barePods.cpuMs.all)
  return {
    machine: { cpus: cpus().length, load: loadavg().map(round) },
    nodes: nodeNames.length,
    count: vmCount,
    barePods,
    vms: { ...created, latencySeconds: { p50: latencyAt(0.5), p95: latencyAt(0.95) }, cpuOfBarePod: ratio },
    deleted,
    group: ofGroup,
    memoryMiB: { empty, full },
    atRest,
  }
}

/** Calls `work` with 0 to `count - 1`, as many at once as there are connections. */
async function inParallel(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const worker = async () => {
    for (let index = next++; index < count; index = next++) await work(index)
  }
  await Promise.all(Array.from({ length: Number(values.connections) }, worker))
}

async function startHandlers(api: {
  readonly kubectl: string
  readonly kubeconfig: string
  readonly directory: string
}) {
  const log = openSync(join(api.directory, 'handlers.log'), 'a')
  const script = join(settings.checkout, 'bench/scale/handlers.ts')
  const child = spawn(process.execPath, [script, api.kubeconfig, ...nodeNames], { stdio: ['ignore', log, log] })
  return { stop: () => kill({ child }) }
}

async function kill({ child }: { readonly child: ChildProcess }): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

function* objectsAtRest(template: RunningVm) {
  for (let index = 0; index < restCount; index++) {
    const { vm: copy, pod } = copyOf(template, `rest-${index}`)
    yield [virtualMachines, copy] as const
    yield [pods, pod] as const
  }
}

/** Empty until the process serves metrics. */
async function metricsOf({ healthPort }: Replica): Promise<ReadonlyMap<string, number>> {
  const response = await request(`http://127.0.0.1:${healthPort}/metrics`).catch(() => undefined)
  const lines = ((await response?.body.text()) ?? '').split('\n').filter((line) => !line.startsWith('#'))
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
}

function vm(name: string): VirtualMachine {
  const devices = {
    disks: [{ device: 'disk', type: 'volume', source: { volume: 'disk' }, target: { dev: 'vda', bus: 'virtio' } }],
    interfaces: [{ type: 'user' }],
  }
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { namespace, name },
    spec: {
      domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } }, devices },
      volumes: [{ name: 'disk', emptyDisk: { capacity: '1Gi' } }],
    },
  } as VirtualMachine
}

function deployment(): KubeObject {
  const labels = { app: 'bare' }
  const requests = { cpu: '100m', memory: '64Mi' }
  const containers = [{ name: 'compute', image: 'launcher:1', resources: { requests } }]
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace, name: 'bare' },
    spec: {
      replicas: vmCount,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers } },
    },
  } as KubeObject
}
