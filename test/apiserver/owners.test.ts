import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { openSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { controllerManagerCommand } from '../../cluster/controlplane.ts'
import { renderKubeconfig } from '../../cluster/pki.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'

/** What Kubernetes' own garbage collector makes of configs, groups and their VMs. */
let api: TestApiServer
let processes: Processes
let webhooks: Replica
let manager: ChildProcess

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  webhooks = await processes.startWebhooks('one')
  await processes.startController('controller')
  const pki = { directory: join(api.directory, 'pki') }
  const kubeconfig = join(api.directory, 'controller-manager.kubeconfig')
  writeFileSync(kubeconfig, renderKubeconfig(pki, api.server, 'controller-manager'), { mode: 0o600 })
  const [program = '', ...rest] = controllerManagerCommand(
    join(dirname(api.kubectl), 'kube-controller-manager'),
    pki,
    kubeconfig,
    join(api.directory, 'plugins'),
  )
  // Another cluster may run on this machine, and has its port.
  const log = openSync(join(api.directory, 'controller-manager.log'), 'a')
  manager = spawn(program, [...rest, '--secure-port=0'], { stdio: ['ignore', log, log] })
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
    describe: () => `${count} of ${what}`,
  })

const spec = { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } }
const started = async (name: string) => {
  const config = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineConfig',
    metadata: { name },
    spec: { template: { spec } },
  }
  await kubectl(['apply', '-f', '-'], JSON.stringify(config))
  const path = `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/${name}/start`
  const start = async () => (await kubectl(['create', '--raw', path, '-f', '-'], '{}').catch(() => '')) !== ''
  await until(start, undefined, { deadlineMs: 120_000 })
  await until(async () => (await names('pods')).length > 0, undefined, { deadlineMs: 120_000 })
}

test.each(['background', 'foreground'])(
  'a config that is deleted (%s) takes its VM and its pod along',
  async (cascade) => {
    await started('web')
    await kubectl(['delete', 'vmc', 'web', `--cascade=${cascade}`, '--timeout=180s'])
    await has('vm', 0)
    await has('pods', 0)
    expect(await names('vmc')).toEqual([])
  },
)

test('an orphaned VM runs on, and belongs to nobody', async () => {
  await started('web')
  await kubectl(['delete', 'vmc', 'web', '--cascade=orphan', '--timeout=180s'])
  const owners = () =>
    kubectl(['get', 'vm', 'web', '-o', 'jsonpath={.metadata.ownerReferences}{.metadata.deletionTimestamp}'])
  await until(async () => (await owners()) === '', undefined, { deadlineMs: 120_000 })
  expect((await names('pods')).length).toBe(1)
  await kubectl(['delete', 'vm', 'web', '--timeout=180s'])
})

test('a group that is deleted takes its VMs along, and makes no new ones meanwhile', async () => {
  const group = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineGroup',
    metadata: { name: 'web' },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec },
    },
  }
  await kubectl(['apply', '-f', '-'], JSON.stringify(group))
  await has('pods', 3)
  // Kubernetes' own autoscaler finds what it needs to know; what it measures by is not here.
  await kubectl(['autoscale', 'vmg', 'web', '--min=1', '--max=5', '--cpu=80%'])
  await kubectl(['wait', 'hpa/web', '--for=condition=AbleToScale', '--timeout=120s'])
  await kubectl(['delete', 'hpa', 'web'])
  await kubectl(['delete', 'vmg', 'web', '--cascade=foreground', '--timeout=180s'])
  await has('vm', 0)
  await has('pods', 0)
})

test('a namespace with a running config is deleted to its end', async () => {
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

test('a namespace is not kept from its end for longer than the sub-resources are away', async () => {
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
