import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { openSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lastLines, run } from '../../cluster/command.ts'
import { controllerManagerCommand } from '../../cluster/controlplane.ts'
import { renderKubeconfig } from '../../cluster/pki.ts'
import { until } from '../until.ts'
import { kubectlAs, kubernetesAccount } from './accounts.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'

/** Configs, groups and their VMs with Kubernetes' own garbage collector and disruption controller. */
let api: TestApiServer
let processes: Processes
let webhooks: Replica
let controller: Replica
let manager: ChildProcess

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  webhooks = await processes.startWebhooks('one')
  controller = await processes.startController('controller')
  const pki = { directory: join(api.directory, 'pki') }
  const kubeconfig = join(api.directory, 'controller-manager.kubeconfig')
  writeFileSync(kubeconfig, renderKubeconfig(pki, api.server, 'controller-manager'), { mode: 0o600 })
  const [program = '', ...rest] = controllerManagerCommand(
    join(dirname(api.kubectl), 'kube-controller-manager'),
    pki,
    kubeconfig,
    join(api.directory, 'plugins'),
  )
  // Another cluster on this host may use the default port. An autoscaler is looked at every 15 s by default.
  const flags = ['--secure-port=0', '--horizontal-pod-autoscaler-sync-period=1s']
  const log = openSync(join(api.directory, 'controller-manager.log'), 'a')
  manager = spawn(program, [...rest, ...flags], { stdio: ['ignore', log, log] })
  // While it starts, the API server can miss its own deadline for a check of the webhooks.
  const isServed = () =>
    kubectl(['create', '--dry-run=server', '-f', '-'], JSON.stringify(configOf('a'))).catch(() => '')
  await until(async () => (await isServed()) !== '', undefined, { deadlineMs: 120_000 })
})
afterAll(async () => {
  manager?.kill('SIGKILL')
  await processes?.stop()
  await api?.stop()
})

const kubectl = (rest: string[], input?: string) =>
  run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })
const names = async (what: string) =>
  (await kubectl(['get', what, '-o', 'jsonpath={.items[*].metadata.name}'])).split(' ').filter((name) => name !== '')
const has = (what: string, count: number) =>
  until(async () => (await names(what)).length === count, undefined, {
    deadlineMs: 120_000,
    describe: () => `${count} of ${what}\n${lastLines(controller.log(), 15)}`,
  })

const spec = { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } }
const configOf = (name: string) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { name },
  spec: { template: { spec } },
})
const started = async (name: string) => {
  await kubectl(['apply', '-f', '-'], JSON.stringify(configOf(name)))
  const path = `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/${name}/start`
  const start = async () => (await kubectl(['create', '--raw', path, '-f', '-'], '{}').catch(() => '')) !== ''
  await until(start, undefined, { deadlineMs: 120_000 })
  await until(async () => (await names('pods')).length > 0, undefined, { deadlineMs: 120_000 })
}

test.each(['background', 'foreground'])('deleting a config (%s) deletes its VM and its pod', async (cascade) => {
  await started('web')
  await kubectl(['delete', 'vmc', 'web', `--cascade=${cascade}`, '--timeout=180s'])
  await has('vm', 0)
  await has('pods', 0)
  expect(await names('vmc')).toEqual([])
})

test('an orphaned VM continues to run, without an owner', async () => {
  await started('web')
  await kubectl(['delete', 'vmc', 'web', '--cascade=orphan', '--timeout=180s'])
  const owners = () =>
    kubectl(['get', 'vm', 'web', '-o', 'jsonpath={.metadata.ownerReferences}{.metadata.deletionTimestamp}'])
  await until(async () => (await owners()) === '', undefined, { deadlineMs: 120_000 })
  expect((await names('pods')).length).toBe(1)
  await kubectl(['delete', 'vm', 'web', '--timeout=180s'])
})

/** Assigns the pod to a node without a kubelet: its deletion ends only by force. */
const bind = async (pod: string) => {
  const target = { apiVersion: 'v1', kind: 'Node', name: 'n1' }
  const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name: pod }, target }
  const path = `/api/v1/namespaces/default/pods/${pod}/binding`
  await kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(binding))
}

test('a VM that is deleted with --cascade=orphan exists until its pod has ended', async () => {
  const vm = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata: { name: 'orphan' }, spec }
  await kubectl(['apply', '-f', '-'], JSON.stringify(vm))
  await has('pods', 1)
  const [pod = ''] = await names('pods')
  await bind(pod)
  const phase = () => kubectl(['get', 'vm', 'orphan', '-o', 'jsonpath={.status.phase}'])
  await until(async () => (await phase()) === 'Scheduled', undefined, { deadlineMs: 120_000 })
  await kubectl(['delete', 'vm', 'orphan', '--cascade=orphan', '--wait=false'])
  const state = () =>
    kubectl(['get', 'pod', pod, '-o', 'jsonpath={.metadata.ownerReferences}{.metadata.deletionTimestamp}'])
  // The garbage collector has removed the owner, and the controller has deleted the pod.
  await until(async () => /^[0-9TZ:-]+$/.test(await state()), undefined, { deadlineMs: 120_000 })
  expect(await names('vm')).toEqual(['orphan'])
  await expect(kubectl(['create', '-f', '-'], JSON.stringify(vm))).rejects.toThrow('already exists')
  await kubectl(['delete', 'pod', pod, '--grace-period=0', '--force'])
  await has('vm', 0)
})

const group = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  metadata: { name: 'web' },
  spec: {
    replicas: 3,
    minAvailable: 2,
    selector: { matchLabels: { app: 'web' } },
    template: { metadata: { labels: { app: 'web' } }, spec },
  },
}

/** As a kubelet reports it. */
const markReady = async (pod: string) => {
  const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] }
  const patch = ['patch', 'pod', pod, '--subresource=status', '--type=merge', '-p', JSON.stringify({ status })]
  await kubectl([...patch, ...kubectlAs(kubernetesAccount)])
}
const evict = (pod: string) => {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod } }
  const path = `/api/v1/namespaces/default/pods/${pod}/eviction`
  return kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(eviction))
}

test('a drain waits while fewer VMs of a group than its minAvailable would run', async () => {
  await kubectl(['apply', '-f', '-'], JSON.stringify(group))
  await has('pods', 3)
  const pods = await names('pods')
  for (const pod of pods) {
    await bind(pod)
    await markReady(pod)
  }
  const allowed = () => kubectl(['get', 'pdb', 'web', '-o', 'jsonpath={.status.disruptionsAllowed}'])
  await until(async () => (await allowed()) === '1', undefined, { deadlineMs: 120_000 })
  const [first = '', second = ''] = pods
  await evict(first)
  await expect(evict(second)).rejects.toThrow('disruption budget')
  await kubectl(['delete', 'vmg', 'web'])
  for (const pod of pods) await kubectl(['delete', 'pod', pod, '--grace-period=0', '--force', '--ignore-not-found'])
  await has('vm', 0)
  await has('pods', 0)
  await has('pdb', 0)
})

test('deleting a group deletes its VMs, and creates none meanwhile', async () => {
  await kubectl(['apply', '-f', '-'], JSON.stringify(group))
  await has('pods', 3)
  await has('pdb', 1)
  expect(await kubectl(['get', 'pdb', 'web', '-o', 'jsonpath={.spec.minAvailable} {.status.expectedPods}'])).toMatch(
    /^2 /,
  )
  // Kubernetes' autoscaler finds the scale subresource; there are no metrics here.
  await kubectl(['autoscale', 'vmg', 'web', '--min=1', '--max=5', '--cpu=80%'])
  await kubectl(['wait', 'hpa/web', '--for=condition=AbleToScale', '--timeout=120s'])
  await kubectl(['delete', 'hpa', 'web'])
  await kubectl(['delete', 'vmg', 'web', '--cascade=foreground', '--timeout=180s'])
  await has('vm', 0)
  await has('pods', 0)
  await has('pdb', 0)
})

test('a namespace with a running config is removed completely', async () => {
  await kubectl(['create', 'namespace', 'team'])
  const config = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineConfig',
    metadata: { name: 'web', namespace: 'team' },
    spec: { template: { spec } },
  }
  await kubectl(['apply', '-f', '-'], JSON.stringify(config))
  await kubectl(
    [
      'create',
      '--raw',
      '/apis/subresources.virtset.io/v1alpha1/namespaces/team/virtualmachineconfigs/web/start',
      '-f',
      '-',
    ],
    '{}',
  )
  expect(await kubectl(['delete', 'namespace', 'team', '--timeout=180s'])).toContain('"team" deleted')
})

test('the deletion of a namespace completes once the subresources are back', async () => {
  await kubectl(['create', 'namespace', 'brief'])
  await processes.withdraw(webhooks)
  webhooks.child.kill('SIGKILL')
  const isServed = () =>
    kubectl([
      'get',
      'apiservice',
      'v1alpha1.subresources.virtset.io',
      '-o',
      'jsonpath={.status.conditions[?(@.type=="Available")].status}',
    ])
  await until(async () => (await isServed()) === 'False', undefined, { deadlineMs: 120_000 })
  await kubectl(['delete', 'namespace', 'brief', '--wait=false'])
  const waits = ['wait', 'namespace/brief', '--for=condition=NamespaceDeletionDiscoveryFailure', '--timeout=120s']
  await kubectl(waits)
  await processes.startWebhooks('two')
  await kubectl(['wait', 'namespace/brief', '--for=delete', '--timeout=180s'])
})
