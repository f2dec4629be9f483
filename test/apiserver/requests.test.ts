import { setTimeout as delay } from 'node:timers/promises'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { run } from '../../cluster/command.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { clusterVirtualMachinePresets, resource, virtualMachines } from '../../runtime/resource.ts'
import { until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { installProcesses, type Processes } from './processes.ts'
import { readAudit } from './rights.ts'
import { system } from './service.ts'
import { startSimulatedNode, type SimulatedNode } from './simulated-node.ts'

/** What the start of a VM costs the API server, counted in requests of the real processes. */
let api: TestApiServer
let kube: KubeClient
let processes: Processes
let node: SimulatedNode

const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    // A watch is not a request per VM.
    { level: 'None', verbs: ['list', 'watch'] },
    { level: 'Metadata', userGroups: ['system:serviceaccounts:virtset-system'] },
    { level: 'None' },
  ],
}

beforeAll(async () => {
  api = await startApiServer(undefined, { auditPolicy })
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'test' })
  processes = await installProcesses(api)
  node = await startSimulatedNode(api, { kubeletRoot: api.directory })
  await processes.startWebhooks('webhooks-1')
  await processes.startController('controller-1')
  await processes.startHandler('handler-1', 'n1')
})
afterAll(async () => {
  await processes?.stop()
  await node?.stop()
  await kube?.close()
  await api?.stop()
})

const auditLog = () => join(api.directory, 'audit.log')

const vmCount = 20
const pause = () => delay(250)
const deadline = { deadlineMs: 300_000 }

const vm = (name: string): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { namespace: 'default', name },
  spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
})

/** Requests that are made every few seconds, however many VMs there are. */
const upkeep = /leases|presets\/status|secrets|configurations|apiservices/

/** The number of requests of virtset's accounts after the first `before`, by account, verb and resource. */
const requestsSince = (before: number): { readonly [request: string]: number } => {
  const counts: { [request: string]: number } = {}
  for (const { account, verb, resource } of readAudit(auditLog()).slice(before)) {
    if (upkeep.test(resource)) continue
    const key = `${account}: ${verb} ${resource}`
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

test('the start of a VM takes three writes and two events of virtset, and no read', async () => {
  const metadata = { name: 'titled' }
  const spec = { selector: {}, domain: { title: 'preset' } }
  const kind = 'ClusterVirtualMachinePreset'
  await kube.create(clusterVirtualMachinePresets, { apiVersion: 'virtset.io/v1alpha1', kind, metadata, spec })
  const isRunning = async (count: number) => {
    const { items } = await kube.list(virtualMachines)
    return items.filter(({ status }) => status?.phase === 'Running').length === count
  }
  const describe = () => JSON.stringify(requestsSince(0))
  await kube.create(virtualMachines, vm('first'))
  await until(() => isRunning(1), pause, { ...deadline, describe })
  const events = ['virtset-controller: create events', 'virtset-handler: create events']
  const areWritten = (from: number, count: number) => () =>
    events.every((event) => requestsSince(from)[event] === count)
  // Events are written last.
  await until(areWritten(0, 1), pause, { ...deadline, describe })
  const before = readAudit(auditLog()).length
  for (let count = 0; count < vmCount; count++) await kube.create(virtualMachines, vm(`vm-${count}`))
  await until(() => isRunning(vmCount + 1), pause, { ...deadline, describe })
  const expected = {
    'virtset-controller: create pods': vmCount,
    'virtset-controller: create events': vmCount,
    'virtset-controller: patch virtualmachines/status': vmCount,
    'virtset-handler: create events': vmCount,
    'virtset-handler: patch virtualmachines/status': vmCount,
  }
  await until(areWritten(before, vmCount), pause, { ...deadline, describe })
  expect(requestsSince(before)).toEqual(expected)
}, 600_000)

/** With managedFields. */
const wholeVms = resource<VirtualMachine>({ ...virtualMachines, read: true })
const fieldsOf = ({ metadata }: VirtualMachine) => (metadata.managedFields ?? []) as readonly ManagedFields[]
const applied = (name: string, labels: { readonly [key: string]: string }) =>
  kube.patch(
    wholeVms,
    { namespace: 'default', name },
    {
      type: 'apply',
      body: { ...vm(name), metadata: { namespace: 'default', name, labels } },
      fieldManager: 'applier',
      force: false,
    },
  )

test('managedFields of an applied VM list its live domain as one field', async () => {
  await applied('applied', {})
  const ref = { namespace: 'default', name: 'applied' }
  const found = await until(
    async () => {
      const current = await kube.get(wholeVms, ref)
      return current.status?.domain === undefined ? undefined : current
    },
    pause,
    deadline,
  )
  const owners = fieldsOf(found).flatMap(({ manager, fieldsV1 }) => {
    const domain = fieldsV1?.['f:status']?.['f:domain']
    return domain === undefined ? [] : [[manager, domain]]
  })
  expect(owners).toEqual([['virtset-handler', {}]])
})

test('a created VM has no managedFields until a manifest is applied to it', async () => {
  const created = await kube.get(wholeVms, { namespace: 'default', name: 'first' })
  expect([created.status?.phase, fieldsOf(created)]).toEqual(['Running', []])
  const first = await applied('first', { tier: 'front', zone: 'a' })
  expect(first.metadata.labels).toEqual({ tier: 'front', zone: 'a' })
  expect(fieldsOf(first).map(({ manager }) => manager)).toEqual(['applier', 'before-first-apply'])
  const second = await applied('first', { tier: 'back' })
  expect([second.metadata.labels, second.spec]).toEqual([{ tier: 'back' }, created.spec])
})

interface ManagedFields {
  readonly manager: string
  readonly fieldsV1?: { readonly 'f:status'?: { readonly 'f:domain'?: object } }
}

interface FlowSchema {
  readonly metadata: { readonly uid: string }
}

const schemas = '/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas'
const lease = '/apis/coordination.k8s.io/v1/namespaces/virtset-system/leases/virtset-controller'

test.each([
  ['virtset', 'virtset-controller', '/apis/virtset.io/v1alpha1/virtualmachines?limit=1'],
  ['virtset-handlers', 'virtset-handler', '/apis/virtset.io/v1alpha1/virtualmachines?limit=1'],
  ['virtset', 'virtset-webhooks', '/api/v1/namespaces?limit=1'],
  ['virtset-leader-election', 'virtset-controller', lease],
])('the API server limits by the FlowSchema %s what %s requests from %s', async (schema, account, path) => {
  const { metadata } = (await kube.request('GET', `${schemas}/${schema}`)) as FlowSchema
  const token = await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'create', 'token', '-n', system, account])
  const connection = new Agent({ connect: { ca: api.certificateAuthority } })
  const response = await request(api.server + path, {
    dispatcher: connection,
    headers: { authorization: `Bearer ${token.trim()}` },
  })
  await response.body.dump()
  await connection.close()
  expect([response.statusCode, response.headers['x-kubernetes-pf-flowschema-uid']]).toEqual([200, metadata.uid])
})
