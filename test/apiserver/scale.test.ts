import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Preset } from '../../api/preset.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { nodes } from '../../controller/node.ts'
import { podName } from '../../controller/launcher-pod.ts'
import { pods } from '../../controller/pod.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { JsonObject } from '../../runtime/launcher-api.ts'
import { clusterVirtualMachinePresets, virtualMachines } from '../../runtime/resource.ts'
import type { KubeObject, Persisted, Resource } from '../../runtime/resource.ts'
import { startFakeLauncher, type FakeLauncher } from '../fake-launcher.ts'
import { sized } from '../soak.ts'
import { until } from '../until.ts'
import { accessAs, kubernetesAccount } from './accounts.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { copyOf, type RunningVm } from './at-rest.ts'
import { writeToEtcd } from './etcd.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'
import { readAudit } from './rights.ts'
import { startSimulatedNode } from './simulated-node.ts'

/** Each process within the memory of its manifest, in a cluster whose VMs all run. */
const vmCount = sized(1500, 10_000)
const presetCount = sized(150, 1000)
/** VMs of the node whose handler starts. */
const nodeVmCount = sized(50, 200)
const deadline = { deadlineMs: 600_000 }
/** Between two looks: the API server and the controller need the CPU. */
const pause = () => delay(500)

let api: TestApiServer
let kube: KubeClient
let kubelet: KubeClient
let processes: Processes
const launchers: FakeLauncher[] = []

const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', userGroups: ['system:serviceaccounts:virtset-system'] }, { level: 'None' }],
}

beforeAll(async () => {
  api = await startApiServer(undefined, { auditPolicy })
  const access = await kubeconfigAccess({ file: api.kubeconfig })
  kube = createKubeClient({ access, userAgent: 'test' })
  kubelet = createKubeClient({ access: accessAs(kubernetesAccount, access), userAgent: 'test' })
  processes = await installProcesses(api)
})
afterAll(async () => {
  await processes?.stop()
  for (const launcher of launchers) await launcher.close()
  await kube?.close()
  await kubelet?.close()
  await api?.stop()
})

/** A VM as controller and handler leave it, and its pod. */
async function runOne(): Promise<RunningVm> {
  const controller = await processes.startController('first')
  const node = await startSimulatedNode(api)
  const devices = { interfaces: [{ type: 'user' }], disks: [{ target: { dev: 'vda' }, source: { file: '/dev/null' } }] }
  const domain = { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } }, devices }
  const { interfaces } = devices
  const ref = { namespace: 'default', name: 'vm' }
  await kube.create(virtualMachines, {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { ...ref, labels: { app: 'web', tier: 'front' } },
    spec: { domain: { ...domain, devices: { interfaces } } },
  } as VirtualMachine)
  const phase = async () => (await kube.get(virtualMachines, ref)).status?.phase
  await until(async () => (await phase()) === 'Running', pause, { ...deadline, describe: () => controller.log() })
  await node.stop()
  controller.child.kill('SIGKILL')
  await once(controller.child, 'exit')
  const stored = await kube.get(virtualMachines, ref)
  const podRef = { namespace: 'default', name: podName(stored) }
  await startLauncher(stored, (await kube.get(pods, podRef)).metadata.uid)
  const handler = await processes.startHandler('first-handler', 'n1')
  const reported = async () => {
    const found = await kube.get(virtualMachines, ref)
    return found.status?.domain === undefined ? undefined : found
  }
  const vm = await until(reported, pause, { ...deadline, describe: () => handler.log() })
  handler.child.kill('SIGKILL')
  await once(handler.child, 'exit')
  const containerStatuses = [{ name: 'compute', ready: true, image: 'i', imageID: 'i', restartCount: 0, state: {} }]
  const body = { status: { phase: 'Running', podIP: '10.0.0.1', containerStatuses } }
  return { vm, pod: await kubelet.patch(pods, podRef, { type: 'merge', body }, { subresource: 'status' }) }
}

/** The launcher of a VM whose guest runs. */
async function startLauncher({ metadata: { uid }, spec }: Persisted<VirtualMachine>, podUID: string): Promise<void> {
  const launcher = await startFakeLauncher(api.directory, podUID)
  launchers.push(launcher)
  launcher.become({ vmUID: uid, phase: 'Running', reason: 'booted', domain: spec.domain as unknown as JsonObject })
}

/** Copies of a VM and its pod: the first `nodeVmCount` on its node, the others on another. */
function copiesOf(one: RunningVm): readonly RunningVm[] {
  return Array.from({ length: vmCount }, (_, index) => {
    const { vm, pod } = copyOf(one, `vm-${index}`)
    if (index < nodeVmCount) return { vm, pod }
    const nodeName = 'n2'
    return { vm: { ...vm, status: { ...vm.status, nodeName } }, pod: { ...pod, spec: { ...pod.spec, nodeName } } }
  })
}

function* cluster(copies: readonly RunningVm[]): Generator<readonly [Resource<KubeObject>, KubeObject]> {
  for (const { vm, pod } of copies) {
    yield [virtualMachines, vm]
    yield [pods, pod]
  }
  for (let count = 0; count < presetCount; count++) yield [clusterVirtualMachinePresets, preset(count)]
}

/** Selects nothing, like most presets of a large cluster at most VMs. */
const preset = (count: number): Preset => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'ClusterVirtualMachinePreset',
  metadata: { name: `p${count}`, uid: randomUUID(), generation: 1, creationTimestamp: '2030-01-01T00:00:00Z' },
  spec: { selector: { matchLabels: { team: `t${count}` } }, domain: { title: `${count}` } },
})

const metric = async ({ healthPort }: Replica, line: string): Promise<number> => {
  const { body } = await request(`http://127.0.0.1:${healthPort}/metrics`)
  const found = (await body.text()).split('\n').find((one) => one.startsWith(`${line} `))
  return Number(found?.slice(line.length + 1) ?? NaN)
}

const leasePath = '/apis/coordination.k8s.io/v1/namespaces/virtset-system/leases/virtset-controller'
const lease = async () => ((await kube.request('GET', leasePath)) as { readonly spec: object }).spec

test(`${vmCount} VMs and ${presetCount} presets at rest: each process starts, and only presets' status is written`, async () => {
  const one = await runOne()
  for (const name of ['n1', 'n2']) await kube.create(nodes, { metadata: { name } })
  const copies = copiesOf(one)
  await writeToEtcd(api, cluster(copies))
  for (const { vm, pod } of copies.slice(0, nodeVmCount)) await startLauncher(vm, pod.metadata.uid)
  const reads = launchers.map((launcher) => launcher.reads)
  const before = readAudit(join(api.directory, 'audit.log')).length
  const controller = await processes.startController('second')
  const handler = await processes.startHandler('second-handler', 'n1')
  const webhooks = await processes.startWebhooks('webhooks')
  const replicas = [controller, handler, webhooks]
  const describe = () =>
    replicas.map((replica) => `${replica.name} ${JSON.stringify(replica.usage())} ${replica.log().slice(-2000)}`).join()
  const isDown = ({ child }: Replica) => child.exitCode !== null || child.signalCode !== null
  const looked = async () => {
    if (replicas.some(isDown)) return true
    // It does not respond before it has started.
    const done = await metric(controller, 'virtset_queue{queue="vms",state="done"}').catch(() => 0)
    if (!(done >= vmCount) || launchers.some((launcher, index) => launcher.reads === reads[index])) return false
    const presets = (await kube.list(clusterVirtualMachinePresets)).items
    return presets.every(({ status }) => status?.conditions?.length === 2)
  }
  await until(looked, pause, { ...deadline, describe })
  const ends = replicas.map((replica) => [replica.name, replica.usage().oomKills, isDown(replica)])
  expect(ends, describe()).toEqual(replicas.map(({ name }) => [name, 0, false]))
  expect(await lease()).toMatchObject({ holderIdentity: 'second', leaseTransitions: 1 })
  expect(await metric(controller, 'virtset_vms{phase="Running"}')).toBe(vmCount + 1)
  expect(await metric(controller, 'virtset_events_dropped_total')).toBe(0)
  const requests = readAudit(join(api.directory, 'audit.log')).slice(before)
  const kindsOf = (account: string) => {
    const own = requests.filter((one) => one.account === account && !/^(list|watch)$/.test(one.verb))
    return [...new Set(own.map(({ verb, resource }) => `${verb} ${resource}`))].toSorted()
  }
  expect(kindsOf('virtset-controller')).toEqual([
    'get leases',
    'patch clustervirtualmachinepresets/status',
    'update leases',
  ])
  // Its node's profile is not published, as nothing has queried libvirt.
  expect(kindsOf('virtset-handler')).toEqual(['get nodeprofiles'])
  const statuses = requests.filter(({ resource }) => resource === 'clustervirtualmachinepresets/status')
  expect(statuses.length).toBe(presetCount)
}, 1_800_000)
