import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { request } from 'undici'
import { ensureBinaries, ensureTool } from '../cluster/binaries.ts'
import { lastLines, run } from '../cluster/command.ts'
import { createProgress } from '../cluster/progress.ts'
import { readSettings } from '../cluster/settings.ts'
import { terminal } from '../cluster/terminal.ts'
import { podName } from '../controller/launcher-pod.ts'
import { pods } from '../controller/pod.ts'
import { kubeconfigAccess } from '../runtime/access.ts'
import { ApiError, unlessNotFound } from '../runtime/api-error.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import {
  clusterVirtualMachinePresets,
  resource,
  virtualMachineConfigs,
  virtualMachineGroups,
  virtualMachines,
  type KubeObject,
} from '../runtime/resource.ts'
import { pick } from '../runtime/slim.ts'
import { startApiServer } from '../test/apiserver/apiserver.ts'
import { copyOf, type RunningVm } from '../test/apiserver/at-rest.ts'
import { writeToEtcd } from '../test/apiserver/etcd.ts'
import { installProcesses, type Replica } from '../test/apiserver/processes.ts'
import { until } from '../test/until.ts'
import { config, deployment, namespace, presetOfAll, vm } from './scale/objects.ts'
import { startSimulatedCluster } from './scale/simulated-cluster.ts'
import { cpuPer, usageByProgram } from './scale/usage.ts'

/**
 * What a VM costs in a cluster of simulated nodes: real etcd, API server, scheduler and controller manager; the real
 * webhooks, controller and handlers; KWOK as kubelets, and launchers without guests. Measures VMs beside bare pods in
 * the same run, their deletion, a group, a storm of restarts, and the takeover after the loss of the leader. Then, for
 * each number of VMs at rest: memory, the start of the controller, and a preset that selects all of them. Prints JSON.
 *
 *     node bench/scale.ts [--vms 1000] [--nodes 100] [--connections 16] [--rest 0,1000]
 *
 * CPU times and ratios to a bare pod are comparable between machines, seconds are not. Builds missing programs.
 */
const { values } = parseArgs({
  options: {
    vms: { type: 'string', default: '1000' },
    nodes: { type: 'string', default: '100' },
    connections: { type: 'string', default: '16' },
    rest: { type: 'string', default: '0,1000' },
  },
})
const vmCount = Number(values.vms)
/** Increasing. */
const restCounts = values.rest.split(',').map(Number)
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

const replicas = ['controller-1', 'controller-2'] as const

/** Requests that were sent again, because the host is too busy for the deadlines of webhooks. */
let repeats = 0

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
  const processes = opened(
    await progress.step('virtset', 'see the log', () => installProcesses(api, { startDeadlineMs: 600_000 })),
  )
  const simulated = { api, binaries: binaries.kubernetes, kwok, stages: join(module, 'kustomize/stage'), nodeNames }
  opened(await progress.step(`${nodeNames.length} nodes`, 'see the log', () => startSimulatedCluster(simulated)))
  const controller = await progress.step('Webhooks, controller, handlers', 'see the log', async () => {
    await processes.startWebhooks('webhooks-1')
    return processes.startController(replicas[0])
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
    await persistently(() => kube.create(virtualMachines, vm('first')))
    const describe = () => `the first VM does not run: ${JSON.stringify(vms.store.list().map(({ status }) => status))}`
    await until(() => runningAtMs.size === 1, often, { deadlineMs: 300_000, describe })
    await kube.delete(virtualMachines, { namespace, name: 'first' })
    await until(() => vms.store.list().length === 0, often, patience)
  })
  const empty = memoryMiB()
  let leader: Replica | undefined
  /** Rejects if the leader ends that is not killed on purpose. */
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => {})
  const follow = (one: Replica) => {
    leader = one
    void once(one.child, 'exit').then(() => {
      if (leader === one) ended.reject(new Error(`the controller ended: ${lastLines(one.log(), 5)}`))
    })
  }
  const killLeader = async (): Promise<void> => {
    const previous = leader
    leader = undefined
    if (previous !== undefined) await kill(previous)
  }
  follow(controller)

  /** Its duration, and the CPU time of each process for each of `count` objects. */
  const timed = (title: string, work: () => Promise<void>, count = vmCount) =>
    progress.step(title, 'see the log', async (step) => {
      const before = usageByProgram()
      const beganMs = performance.now()
      const show = setInterval(() => step.show(`${runningAtMs.size} VMs run`), 1000)
      await Promise.race([work(), ended.promise]).finally(() => clearInterval(show))
      const seconds = (performance.now() - beganMs) / 1000
      const machinePercent = Math.round(cpuPer(1, before).all / 10 / seconds / cpus().length)
      const cpuMs = cpuPer(count, before)
      const { all, ...programs } = cpuMs
      const largest = Object.entries(programs)
        .toSorted(([, one], [, other]) => other - one)
        .map(([program, ms]) => `${program} ${ms}`)
      step.show(`${all} ms of CPU for each (${largest.join(', ')}), ${machinePercent} % of the machine`)
      return { seconds: round(seconds), perSecond: round(count / seconds), machinePercent, cpuMs }
    })

  const barePods = await timed(`${vmCount} bare pods`, async () => {
    await kube.create(deployments, deployment(vmCount))
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

  const restarts = await measureRestarts()
  const failover = await measureFailover()

  // Handlers would look for launchers of VMs that were never started.
  await handlers.stop()
  const atRest: object[] = []
  let written = 0
  for (const count of restCounts) {
    await writeToEtcd(api, objectsAtRest(template, written, count))
    written = count
    atRest.push(await measureRest(count))
  }
  const ratio = round(created.cpuMs.all / barePods.cpuMs.all)
  return {
    machine: { cpus: cpus().length, load: loadavg().map(round) },
    nodes: nodeNames.length,
    count: vmCount,
    barePods,
    vms: { ...created, latencySeconds: { p50: latencyAt(0.5), p95: latencyAt(0.95) }, cpuOfBarePod: ratio },
    deleted,
    group: ofGroup,
    restarts,
    failover,
    repeats,
    memoryMiB: { empty, full },
    atRest,
  }

  /** All VMs of configs at once, by their subresource. */
  async function measureRestarts() {
    const names = Array.from({ length: vmCount }, (_, index) => `config-${index}`)
    const path = `/apis/subresources.virtset.io/v1alpha1/namespaces/${namespace}/virtualmachineconfigs`
    const ask = (verb: string) =>
      inParallel(vmCount, (index) => kube.request('POST', `${path}/${names[index]}/${verb}`, {}))
    await progress.step(`${vmCount} configs start`, 'see the log', async () => {
      await inParallel(vmCount, (index) => kube.create(virtualMachineConfigs, config(names[index] ?? '')))
      await ask('start')
      // A config whose status does not show its VM yet refuses to restart it.
      const run = async () =>
        (await kube.list(virtualMachineConfigs, { namespace })).items.map((one) => one.status?.phase)
      await until(
        async () => (await run()).every((phase) => phase === 'Running'),
        () => delay(1000),
        patience,
      )
    })
    const before = new Set(vms.store.list().map(({ metadata }) => metadata.uid))
    const restarted = await timed(`A storm of ${vmCount} restarts`, async () => {
      await ask('restart')
      const isNew = ({ metadata, status }: KubeObject & { readonly status?: { readonly phase?: string } }) =>
        status?.phase === 'Running' && !before.has(metadata.uid ?? '')
      await until(() => vms.store.list().filter(isNew).length === vmCount, often, patience)
    })
    await progress.step('The configs end', 'see the log', async () => {
      await inParallel(vmCount, (index) => kube.delete(virtualMachineConfigs, { namespace, name: names[index] ?? '' }))
      await until(() => vms.store.list().length === 0, often, patience)
    })
    return restarted
  }

  /** How long no VM starts after the leader was killed, while another replica waits for the lease. */
  async function measureFailover() {
    return progress.step('The leader is killed', 'see the log', async (step) => {
      const standby = await processes.startController(replicas[1])
      const isReady = async () => {
        const response = await request(`http://127.0.0.1:${standby.healthPort}/readyz`).catch(() => undefined)
        await response?.body.dump()
        return response?.statusCode === 200
      }
      await until(isReady, () => delay(200), patience)
      const beganMs = performance.now()
      await killLeader()
      follow(standby)
      await persistently(() => kube.create(virtualMachines, vm('survivor')))
      await Promise.race([until(() => runningAtMs.size === 1, often, patience), ended.promise])
      const seconds = round((performance.now() - beganMs) / 1000)
      await kube.delete(virtualMachines, { namespace, name: 'survivor' })
      await until(() => vms.store.list().length === 0, often, patience)
      step.show(`the next VM runs after ${seconds} s`)
      return { seconds }
    })
  }

  /** The replica that led starts again, so it leads at once. Then a preset selects all VMs, and changes once. */
  async function measureRest(count: number) {
    await killLeader()
    const start = await progress.step(`The controller starts with ${count} VMs`, 'see the log', async () => {
      const isDone = (metrics: Metrics) => (metrics.get('virtset_queue{queue="vms",state="done"}') ?? -1) >= count
      follow(await processes.startController(replicas[1]))
      return { ...(await untilDone(isDone)), memoryMiB: memoryMiB() }
    })
    const change = async (title: string) => {
      const set = { type: 'apply', body: presetOfAll(title), fieldManager: 'bench' } as const
      const { metadata } = await kube.patch(clusterVirtualMachinePresets, { name: 'all' }, set)
      return untilDone(async () => {
        const { status } = await kube.get(clusterVirtualMachinePresets, { name: 'all' })
        return status?.observedGeneration === metadata.generation && status?.matched === count
      })
    }
    const title = `A preset selects ${count} VMs, and changes`
    const [preset, changed] = await progress.step(title, 'see the log', async () => [
      await change(`${count}`),
      await change(`${count}, changed`),
    ])
    await kube.delete(clusterVirtualMachinePresets, { name: 'all' })
    return { vms: count, start, preset, changed }
  }

  /** The time, and the CPU time, memory and longest block of the controller meanwhile. */
  async function untilDone(isDone: (metrics: Metrics) => boolean | Promise<boolean>) {
    const one = leader
    if (one === undefined) throw new Error('no controller runs')
    const before = usageByProgram()
    const beganMs = performance.now()
    // Each scrape starts a new measurement of the event loop.
    let longestBlockMs = 0
    const look = async () => {
      const metrics = await metricsOf(one)
      longestBlockMs = Math.max(longestBlockMs, (metrics.get('nodejs_eventloop_lag_max_seconds') ?? 0) * 1000)
      return isDone(metrics)
    }
    await Promise.race([until(look, () => delay(200), patience), ended.promise])
    return {
      seconds: round((performance.now() - beganMs) / 1000),
      cpuMs: cpuPer(1, before)['controller'],
      peakMiB: Math.round(one.usage().peakBytes / 2 ** 20),
      longestBlockMs: Math.round(longestBlockMs),
    }
  }
}

/** Calls `work` with 0 to `count - 1`, as many at once as there are connections. */
async function inParallel(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const worker = async () => {
    for (let index = next++; index < count; index = next++) await persistently(() => work(index))
  }
  await Promise.all(Array.from({ length: Number(values.connections) }, worker))
}

/** Repeats a request after an error of the server. A conflict of a repeated one means that it was done before. */
async function persistently(send: () => Promise<unknown>, isRepeated = false): Promise<void> {
  try {
    await send()
  } catch (error) {
    const code = error instanceof ApiError ? error.status.code : 0
    if (isRepeated && (code === 404 || code === 409)) return
    if (code < 500) throw error
    repeats++
    await delay(1000)
    await persistently(send, true)
  }
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

/** Those from `from` to `to - 1`. */
function* objectsAtRest(template: RunningVm, from: number, to: number) {
  for (let index = from; index < to; index++) {
    const { vm: copy, pod } = copyOf(template, `rest-${index}`)
    yield [virtualMachines, copy] as const
    yield [pods, pod] as const
  }
}

/** By name and labels. */
type Metrics = ReadonlyMap<string, number>

/** Empty until the process serves metrics. */
async function metricsOf({ healthPort }: Replica): Promise<Metrics> {
  const response = await request(`http://127.0.0.1:${healthPort}/metrics`).catch(() => undefined)
  const lines = ((await response?.body.text()) ?? '').split('\n').filter((line) => !line.startsWith('#'))
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
}
