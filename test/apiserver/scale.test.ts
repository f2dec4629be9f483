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
import { clusterVirtualMachinePresets, virtualMachines } from '../../runtime/resource.ts'
import type { KubeObject, Resource } from '../../runtime/resource.ts'
import { sized } from '../soak.ts'
import { until } from '../until.ts'
import { accessAs, accountOf, kubernetesAccount } from './accounts.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { copyOf, type RunningVm } from './at-rest.ts'
import { writeToEtcd } from './etcd.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'
import { readAudit } from './rights.ts'
import { startSimulatedNode } from './simulated-node.ts'

/** The controller within the memory of its manifest, in a cluster whose VMs all run. */
const vmCount = sized(3000, 10_000)
const presetCount = sized(300, 1000)
const deadline = { deadlineMs: 600_000 }
/** Between two looks: the API server and the controller need the CPU. */
const pause = () => delay(500)

let api: TestApiServer
let kube: KubeClient
let handler: KubeClient
let kubelet: KubeClient
let processes: Processes

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
  handler = createKubeClient({ access: accessAs(accountOf('handler'), access), userAgent: 'test' })
  kubelet = createKubeClient({ access: accessAs(kubernetesAccount, access), userAgent: 'test' })
  processes = await installProcesses(api)
})
afterAll(async () => {
  await processes?.stop()
  await kube?.close()
  await handler?.close()
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
  const running = await until(
    async () => {
      const vm = await kube.get(virtualMachines, ref)
      return vm.status?.phase === 'Running' ? vm : undefined
    },
    pause,
    { ...deadline, describe: () => controller.log() },
  )
  await node.stop()
  controller.child.kill('SIGKILL')
  await once(controller.child, 'exit')
  const status = { domain: running.spec.domain, interfaces: [{ name: 'net0' }], podIP: '10.0.0.1' }
  const vm = await handler.patch(virtualMachines, ref, { type: 'merge', body: { status } }, { subresource: 'status' })
  const podRef = { namespace: 'default', name: podName(vm) }
  const containerStatuses = [{ name: 'compute', ready: true, image: 'i', imageID: 'i', restartCount: 0, state: {} }]
  const body = { status: { phase: 'Running', podIP: '10.0.0.1', containerStatuses } }
  return { vm, pod: await kubelet.patch(pods, podRef, { type: 'merge', body }, { subresource: 'status' }) }
}

function* cluster(one: RunningVm): Generator<readonly [Resource<KubeObject>, KubeObject]> {
  for (let count = 0; count < vmCount; count++) {
    const { vm, pod } = copyOf(one, `vm-${count}`)
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

test(`${vmCount} VMs and ${presetCount} presets at rest: the controller starts, leads and writes only presets' status`, async () => {
  const one = await runOne()
  await kube.create(nodes, { metadata: { name: 'n1' } })
  await writeToEtcd(api, cluster(one))
  const before = readAudit(join(api.directory, 'audit.log')).length
  const controller = await processes.startController('second')
  const describe = () => `${JSON.stringify(controller.usage())} ${controller.log().slice(-3000)}`
  const isDown = () => controller.child.exitCode !== null || controller.child.signalCode !== null
  const looked = async () => {
    if (isDown()) return true
    // It does not respond before it has started.
    const done = await metric(controller, 'virtset_queue{queue="vms",state="done"}').catch(() => 0)
    if (!(done >= vmCount)) return false
    const presets = (await kube.list(clusterVirtualMachinePresets)).items
    return presets.every(({ status }) => status?.conditions?.length === 2)
  }
  await until(looked, pause, { ...deadline, describe })
  expect([controller.usage().oomKills, isDown()], describe()).toEqual([0, false])
  expect(await lease()).toMatchObject({ holderIdentity: 'second', leaseTransitions: 1 })
  expect(await metric(controller, 'virtset_vms{phase="Running"}')).toBe(vmCount + 1)
  const requests = readAudit(join(api.directory, 'audit.log')).slice(before)
  const kinds = new Set(requests.map(({ verb, resource }) => `${verb} ${resource}`))
  const lists = [...kinds].filter((kind) => !/^(list|watch) /.test(kind))
  expect(lists.toSorted()).toEqual(['get leases', 'patch clustervirtualmachinepresets/status', 'update leases'])
  const statuses = requests.filter(({ resource }) => resource === 'clustervirtualmachinepresets/status')
  expect(statuses.length).toBe(presetCount)
}, 1_800_000)
