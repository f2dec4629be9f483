import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { sized } from '../soak.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'
import { readAudit } from './rights.ts'
import { startSimulatedNode } from './simulated-node.ts'
import type { SimulatedNode } from './simulated-node.ts'

/**
 * A group on a real API server with webhooks and controller in their own processes; its VMs are on a simulated node.
 */
let api: TestApiServer
let processes: Processes
let controller: Replica
let node: SimulatedNode
/** The maximum number of VMs at once since it was set to 0. */
let most = 0

const policy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', users: ['system:serviceaccount:virtset-system:virtset-controller'] }, { level: 'None' }],
}

beforeAll(async () => {
  api = await startApiServer(undefined, { auditPolicy: policy })
  processes = await installProcesses(api)
  await processes.startWebhooks('one')
  controller = await processes.startController('controller')
  node = await startSimulatedNode(api)
  node.onChange(() => (most = Math.max(most, node.vms().length)))
})
afterAll(async () => {
  await node?.stop()
  await processes?.stop()
  await api?.stop()
})

const kubectl = (rest: string[], input?: string) =>
  run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })
const apply = (object: object) => kubectl(['apply', '-f', '-'], JSON.stringify(object))
const words = async (path: string, ...what: string[]) =>
  (await kubectl(['get', ...what, '-o', `jsonpath=${path}`])).split(' ').filter((word) => word !== '')
const vms = () => words('{.items[*].metadata.name}', 'vm', '-l', 'app=web')
const soon = { deadlineMs: 120_000 }
/** The goal. */
const many = sized(12, 50)

const domain = { type: 'qemu', memory: { unit: 'MiB', value: 8 }, os: { type: { os: 'hvm' } } }
const group = (replicas: number, more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  metadata: { name: 'web', namespace: 'default' },
  spec: {
    replicas,
    selector: { matchLabels: { app: 'web' } },
    template: { metadata: { labels: { app: 'web' } }, spec: { domain } },
    ...more,
  },
})

const scale = (count: number) => kubectl(['scale', 'vmg/web', `--replicas=${count}`])

/** Waits until this many VMs run, each with its pod, and the group reports it. */
const reaches = async (count: number): Promise<void> => {
  const running = () => node.vms().filter(({ status }) => status?.phase === 'Running').length
  const isThere = () => [node.vms().length, running(), node.pods().length].every((one) => one === count)
  const describe = () => `${node.vms().length} VMs, ${running()} run, ${node.pods().length} pods, not ${count}`
  await until(isThere, undefined, { ...soon, describe })
  const replicas = () => words('{.status.replicas}', 'vmg', 'web')
  await until(async () => Number((await replicas())[0] ?? 0) === count, undefined, soon)
}

/**
 * The controller's writes of VMs and pods since `from`, by verb and resource. The status of the group is written at
 * most every 100 ms.
 */
const written = (from: number): { readonly [what: string]: number } => {
  const counts: { [what: string]: number } = {}
  for (const { verb, resource } of readAudit(join(api.directory, 'audit.log')).slice(from)) {
    if (!['create', 'update', 'patch', 'delete'].includes(verb) || !/^(virtualmachines|pods)/.test(resource)) continue
    counts[`${verb} ${resource}`] = (counts[`${verb} ${resource}`] ?? 0) + 1
  }
  return counts
}

test.each([1, many])('the life of each of %i VMs takes six writes', async (count) => {
  await apply(group(0))
  await reaches(0)
  const from = readAudit(join(api.directory, 'audit.log')).length
  await scale(count)
  await reaches(count)
  await scale(0)
  await reaches(0)
  expect(written(from)).toEqual({
    'create virtualmachines': count,
    'create pods': count,
    'patch virtualmachines/status': count,
    'delete virtualmachines': count,
    'delete pods': count,
    'patch virtualmachines': count,
  })
})

test('many, none, many again while the controller is killed: never more, and no leftover pod', async () => {
  most = 0
  await scale(many)
  await reaches(many)
  expect(await words('{.status.selector}', 'vmg', 'web')).toEqual(['app=web'])
  const scaled = await kubectl([
    'get',
    '--raw',
    '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachinegroups/web/scale',
  ])
  expect(JSON.parse(scaled)).toMatchObject({
    kind: 'Scale',
    spec: { replicas: many },
    status: { replicas: many, selector: 'app=web' },
  })
  const selected = node.pods().filter(({ metadata }) => metadata.labels?.['app'] === 'web')
  expect(selected.length).toBe(many)
  const named = node.vms().map(({ metadata }) => [metadata.generateName, metadata.name.startsWith('web-')])
  expect(new Set(named.map(String))).toEqual(new Set(['web-,true']))
  const [created] = await words(
    '{.items[?(@.reason=="SuccessfulCreate")].message}',
    'events',
    '--field-selector=involvedObject.kind=VirtualMachineGroup',
  )
  expect(created).toBe('Created')
  expect(await kubectl(['get', 'vmg', 'web', '--no-headers'])).toMatch(new RegExp(`^web +${many} +${many} +0 `))
  await scale(0)
  await reaches(0)

  await scale(many)
  await until(() => node.vms().length > 0, undefined, soon)
  controller.child.kill('SIGKILL')
  controller = await processes.startController('controller-2')
  await reaches(many)
  await scale(0)
  await until(() => node.vms().length < many, undefined, soon)
  controller.child.kill('SIGKILL')
  // As the kubelet restarts a container: it has the same name, so it need not wait for its own lease to expire.
  controller = await processes.startController('controller-2')
  await reaches(0)
  expect(most).toBe(many)
})

test('adopts an orphan, and releases a VM that no longer matches', async () => {
  await scale(1)
  await reaches(1)
  const [first = ''] = await vms()
  await kubectl(['label', 'vm', first, 'app=other', '--overwrite'])
  await until(async () => (await vms()).length === 1, undefined, soon)
  expect(await words('{.metadata.ownerReferences[*].kind}', 'vm', first)).toEqual([])
  // Now the other VM is released, and the orphan matches again: one is enough.
  await scale(0)
  await until(async () => (await vms()).length === 0, undefined, soon)
  await kubectl(['label', 'vm', first, 'app=web', '--overwrite'])
  await until(async () => (await vms()).length === 0, undefined, soon)
})

test.each(['config', 'group'])('the example of a %s is accepted', async (name) => {
  const output = await kubectl(['apply', '--dry-run=server', '-f', `manifests/examples/vms/${name}.yaml`])
  expect(output).toContain('created')
})

test.each<[string, object, string]>([
  [
    'a selector that does not match the template',
    { selector: { matchLabels: { app: 'db' } } },
    'spec.template.metadata.labels',
  ],
  ['a selector of everything', { selector: {} }, 'spec.selector'],
  [
    'another selector than is stored',
    {
      selector: { matchLabels: { app: 'web', tier: 'x' } },
      template: { metadata: { labels: { app: 'web', tier: 'x' } }, spec: { domain } },
    },
    'spec.selector',
  ],
  ['fewer than none', { replicas: -1 }, 'spec.replicas'],
  [
    'a template with a mistake',
    { template: { metadata: { labels: { app: 'web' } }, spec: { domain: { ...domain, memery: 1 } } } },
    'spec.template.spec.domain.memery',
  ],
])('refuses %s', async (_, more, field) => {
  await expect(apply(group(0, more))).rejects.toThrow(field)
})

test('reports in a condition why no VM can be created, and not ten times a second', async () => {
  const refusing = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'few', namespace: 'default' },
    spec: { hard: { 'count/virtualmachines.virtset.io': '0' } },
  }
  await apply(refusing)
  await kubectl([
    'patch',
    'resourcequota',
    'few',
    '--subresource=status',
    '--type=merge',
    '-p',
    JSON.stringify({ status: { hard: refusing.spec.hard, used: { 'count/virtualmachines.virtset.io': '0' } } }),
  ])
  await scale(3)
  const message = () =>
    kubectl(['get', 'vmg', 'web', '-o', 'jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].message}'])
  await until(async () => (await message()).includes('quota'), undefined, soon)
  const counts = await words('{.items[?(@.reason=="FailedCreate")].count}', 'events')
  expect(counts.map(Number).reduce((sum, one) => sum + one, 0)).toBeLessThan(6)
  await kubectl(['delete', 'resourcequota', 'few'])
  await reaches(3)
  await until(async () => (await message()) === '', undefined, soon)
})

test('with claims gives each VM its number and its own claim, and keeps that of a lower number', async () => {
  const selector = { matchLabels: { app: 'db' } }
  const template = { metadata: { labels: selector.matchLabels }, spec: { domain } }
  const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }
  const claimTemplates = ['root', 'data'].map((name) => ({ name, spec: claim }))
  const persistentVolumeClaimRetentionPolicy = { whenScaled: 'Delete' }
  const own = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'data-db-1', namespace: 'default' } }
  await apply({ ...own, spec: claim })
  const more = { selector, template, claimTemplates, persistentVolumeClaimRetentionPolicy }
  await apply({ ...group(2, more), metadata: { name: 'db', namespace: 'default' } })
  const names = () => words('{.items[*].metadata.name}', 'vm', '-l', 'app=db')
  await until(async () => (await names()).join() === 'db-0,db-1', undefined, soon)
  const volumes = await words('{.items[*].spec.volumes[*].persistentVolumeClaim.claimName}', 'vm', '-l', 'app=db')
  expect(volumes).toEqual(['root-db-0', 'data-db-0', 'root-db-1', 'data-db-1'])
  const owners = () => words('{.items[*].metadata.ownerReferences[*].name}', 'pvc', '-l', 'virtset.io/group=db')
  expect(await owners()).toEqual([])
  await kubectl(['scale', 'vmg/db', '--replicas=1'])
  await until(async () => (await names()).join() === 'db-0', undefined, soon)
  // The garbage collector, which does not run here, deletes what the VM owned.
  await until(async () => (await owners()).join() === 'db-1', undefined, soon)
  // A user created this one.
  expect(await words('{.metadata.ownerReferences[*].name}', 'pvc', 'data-db-1')).toEqual([])
  await kubectl(['scale', 'vmg/db', '--replicas=0'])
  await until(async () => (await names()).length === 0, undefined, soon)
})

test('keeps no VM to which a preset gives labels that it does not select, and says which preset that is', async () => {
  const selector = { matchLabels: { app: 'plain' } }
  const template = { metadata: { labels: selector.matchLabels }, spec: { domain } }
  const plain = (name: string, replicas: number) => ({
    ...group(replicas, { selector, template }),
    metadata: { name, namespace: 'default' },
  })
  await apply(plain('plain', 0))
  await apply({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name: 'other', namespace: 'default' },
    spec: { selector, strength: 'Enforce', metadata: { labels: { app: 'other' } } },
  })
  await expect(apply(plain('late', 1))).rejects.toThrow('preset "default/other" sets this label')
  most = 0
  const before = node.vms().length
  const from = readAudit(join(api.directory, 'audit.log')).length
  await kubectl(['scale', 'vmg/plain', '--replicas=2'])
  const message = () =>
    kubectl(['get', 'vmg', 'plain', '-o', 'jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].message}'])
  const why = 'get the label app=other, set by preset "default/other", but spec.selector requires app=plain'
  await until(async () => (await message()).includes(why), undefined, soon)
  // Those after the first are dry runs.
  await until(() => (written(from)['create virtualmachines'] ?? 0) >= 4, undefined, soon)
  expect([await words('{.items[*].metadata.name}', 'vm', '-l', 'app in (other, plain)'), most <= before + 1]).toEqual([
    [],
    true,
  ])
  await kubectl(['delete', 'virtualmachinepreset', 'other'])
  const names = () => words('{.items[*].metadata.name}', 'vm', '-l', 'app=plain')
  await until(async () => (await names()).length === 2, undefined, soon)
})
