import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lastLines, run } from '../../cluster/command.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { startFakeLauncher } from '../fake-launcher.ts'
import type { FakeLauncher } from '../fake-launcher.ts'
import { until } from '../until.ts'
import { volumeSnapshotDefinition } from '../volume-snapshots.ts'
import { kubectlAs, kubernetesAccount } from './accounts.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { freePort } from './free-port.ts'
import { installProcesses } from './processes.ts'
import type { Processes } from './processes.ts'
import { ownAddress } from './service.ts'
import { isUsed, readAudit, rightsOf, textOf } from './rights.ts'
import type { Right } from './rights.ts'

/**
 * Every function of the processes runs, each with its account, on an API server with an audit log: their roles contain
 * exactly the permissions that they use.
 */
let api: TestApiServer
let processes: Processes
let handler: ChildProcess
let healthPort = 0
const launchers: FakeLauncher[] = []
const kubeletRoot = mkdtempSync(join(tmpdir(), 'virtset-kubelet-'))

const kubectl = (rest: string[], input?: object) =>
  run(
    [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest],
    input === undefined ? {} : { input: JSON.stringify(input) },
  )
const apply = (object: object) => kubectl(['apply', '--server-side', '-f', '-'], object)
const field = (path: string, ...what: string[]) =>
  kubectl(['get', ...what, '--ignore-not-found', '-o', `jsonpath=${path}`])
const replicaLog = (name: string) => lastLines(readFileSync(join(api.directory, `${name}.log`), 'utf8'), 12)
const eventually = (what: string, isTrue: () => Promise<boolean>, deadlineMs = 120_000) =>
  until(isTrue, undefined, {
    deadlineMs,
    describe: () => [what, ...['webhooks', 'controller', 'handler'].map(replicaLog)].join('\n'),
  })

const policy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', userGroups: ['system:serviceaccounts:virtset-system'] }, { level: 'None' }],
}
const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } }
const object = (kind: string, name: string, spec: object, metadata: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind,
  metadata: { name, ...(kind.startsWith('Cluster') ? {} : { namespace: 'default' }), ...metadata },
  spec,
})

/** A token as the kubelet requests it for the handler's pod: bound to a node. */
async function handlerToken(node: string): Promise<string> {
  await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'Node', metadata: { name: node } })
  const spec = { nodeName: node, serviceAccountName: 'virtset-handler', containers: [{ name: 'c', image: 'i' }] }
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'handler', namespace: 'virtset-system' }, spec }
  await kubectl(['create', '-f', '-'], pod)
  const bound = ['--bound-object-kind', 'Pod', '--bound-object-name', 'handler']
  return (await kubectl(['create', 'token', '-n', 'virtset-system', 'virtset-handler', ...bound])).trim()
}

/** Acts as the pod that queries libvirt on a node. */
async function writeProfile(node: string): Promise<void> {
  const metadata = {
    name: `profile-${node}`,
    namespace: 'virtset-system',
    labels: { 'app.kubernetes.io/component': 'profile' },
    ownerReferences: [
      { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'virtset-profile', uid: 'u', controller: true },
    ],
  }
  const spec = { nodeName: node, serviceAccountName: 'virtset-handler', containers: [{ name: 'c', image: 'i' }] }
  await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'Pod', metadata, spec })
  const uid = await field('{.metadata.uid}', '-n', 'virtset-system', 'pod', metadata.name)
  const directory = join(kubeletRoot, 'pods', uid, 'volumes/kubernetes.io~empty-dir/profile')
  mkdirSync(directory, { recursive: true })
  const profile = { libvirtVersion: '11.3.0', capabilities: bundledCapabilities }
  writeFileSync(join(directory, 'profile.json'), JSON.stringify(profile))
}

async function startHandler(): Promise<ChildProcess> {
  await kubectl(['apply', '-f', 'manifests/handler/rbac.yaml', '-f', 'manifests/handler/policy.yaml'])
  const token = await handlerToken('n1')
  const ca = Buffer.from(api.certificateAuthority).toString('base64')
  const kubeconfig = join(api.directory, 'handler.kubeconfig')
  const config = {
    clusters: [{ name: 'c', cluster: { server: api.server, 'certificate-authority-data': ca } }],
    users: [{ name: 'u', user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  mkdirSync(join(kubeletRoot, 'pods'), { recursive: true })
  const log = openSync(join(api.directory, 'handler.log'), 'a')
  healthPort = await freePort()
  await writeProfile('n1')
  const env = {
    NODE_NAME: 'n1',
    KUBELET_ROOT: kubeletRoot,
    HEALTH_PORT: String(healthPort),
    METRICS_PORT: '0',
    KUBECONFIG: kubeconfig,
  }
  return spawn(process.execPath, ['handler/main.ts'], { stdio: ['ignore', log, log], env: { ...process.env, ...env } })
}

/** Acts as scheduler: assigns the VM's pod to a node. Returns the name and uid of the pod. */
async function schedule(name: string): Promise<readonly [string, string]> {
  const podOf = (path: string) => field(`{.items[*].${path}}`, 'pods', '-l', `virtset.io/vm-name=${name}`)
  await eventually(`${name} has a pod`, async () => (await podOf('metadata.name')) !== '')
  const pod = await podOf('metadata.name')
  await kubectl(['create', '--raw', `/api/v1/namespaces/default/pods/${pod}/binding`, '-f', '-'], {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name: pod },
    target: { apiVersion: 'v1', kind: 'Node', name: 'n1' },
  })
  return [pod, await podOf('metadata.uid')]
}

/** Acts as scheduler and kubelet: assigns the VM's pod to a node, where its launcher listens. */
async function runs(name: string): Promise<FakeLauncher> {
  const [, uid] = await schedule(name)
  const launcher = await startFakeLauncher(kubeletRoot, uid)
  launchers.push(launcher)
  await eventually(`${name} runs`, async () => (await field('{.status.phase}', 'vm', name)) === 'Running')
  return launcher
}

/** Acts as scheduler and kubelet for a VM whose Secret does not exist. */
async function cannotMount(name: string): Promise<void> {
  const [pod, uid] = await schedule(name)
  const state = { waiting: { reason: 'ContainerCreating' } }
  const compute = { name: 'compute', image: 'i', imageID: '', ready: false, restartCount: 0, state }
  const patch = JSON.stringify({ status: { phase: 'Pending', containerStatuses: [compute] } })
  await kubectl([
    'patch',
    'pod',
    pod,
    '--subresource=status',
    '--type=merge',
    '-p',
    patch,
    ...kubectlAs(kubernetesAccount),
  ])
  await kubectl(['create', '-f', '-'], {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'mount', namespace: 'default' },
    involvedObject: { kind: 'Pod', namespace: 'default', name: pod, uid },
    reason: 'FailedMount',
    type: 'Warning',
    message: 'MountVolume.SetUp failed for volume "source-0" : secret "vm.seed" not found',
    lastTimestamp: new Date().toISOString(),
  })
}

/** As the kubelet does: the containers of a deleted pod end, then the pod is removed. */
async function podsEnd(name: string): Promise<void> {
  const ending = () => field('{.items[*].metadata.deletionTimestamp}', 'pods', '-l', `virtset.io/vm-name=${name}`)
  await eventually(`the pod of ${name} is asked to end`, async () => (await ending()) !== '')
  const pods = await field('{.items[*].metadata.name}', 'pods', '-l', `virtset.io/vm-name=${name}`)
  const ended = JSON.stringify({ status: { phase: 'Succeeded' } })
  for (const pod of pods.split(' ')) {
    const patch = ['patch', 'pod', pod, '--subresource=status', '--type=merge', '-p', ended]
    await kubectl([...patch, ...kubectlAs(kubernetesAccount)])
    await kubectl(['delete', 'pod', pod, '--grace-period=0', '--force'])
  }
}
/** Acts as launcher, whose guest can be frozen, and as the storage. */
async function takeSnapshot(launcher: FakeLauncher): Promise<void> {
  const source = { kind: 'VirtualMachineConfig', name: 'config' }
  await apply(object('VirtualMachineSnapshot', 'early', { source }))
  const reasonOf = (name: string, type: string) =>
    field(`{.status.conditions[?(@.type=="${type}")].reason}`, 'vmsnap', name)
  const unsupported = 'VolumeSnapshotsUnsupported'
  await eventually('it is unsupported', async () => (await reasonOf('early', 'Ready')) === unsupported)
  await kubectl(['delete', 'vmsnap', 'early'])
  await apply(volumeSnapshotDefinition)
  await kubectl(['wait', '--for=condition=Established', `crd/${volumeSnapshotDefinition.metadata.name}`])
  launcher.become({ version: 3, agent: 'connected' })
  const agentOf = () => field('{.status.conditions[?(@.type=="AgentConnected")].status}', 'vm', 'config')
  await eventually('the agent is connected', async () => (await agentOf()) === 'True')
  await apply(object('VirtualMachineSnapshot', 'nightly', { source }))
  const isTaken = () => field('{.metadata.uid}', 'volumesnapshots', 'nightly-root')
  await eventually('the claim is taken', async () => (await isTaken()) !== '')
  await eventually('the guest is frozen', async () => launcher.asked.includes('POST /freeze'))
  const status = { creationTime: new Date().toISOString(), readyToUse: true }
  const patch = ['patch', 'volumesnapshots', 'nightly-root', '--subresource=status', '--type=merge', '-p']
  await kubectl([...patch, JSON.stringify({ status })])
  await eventually('it is ready', async () => (await field('{.status.phase}', 'vmsnap', 'nightly')) === 'Ready')
  // On a busy machine, the handler can be too late.
  expect(['GuestFrozen', 'NoResponse']).toContain(await reasonOf('nightly', 'Quiesced'))
  const refused = kubectl(['patch', 'vmsnap', 'nightly', '--type=merge', '-p', '{"spec":{"source":{"name":"other"}}}'])
  await expect(refused).rejects.toThrow('is immutable')
}

const isGone = (kind: string, name: string) =>
  eventually(`${name} is gone`, async () => (await field('{.metadata.uid}', kind, name)) === '')
const subresource = (verb: string) =>
  kubectl(
    [
      'create',
      '--raw',
      `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/config/${verb}`,
      '-f',
      '-',
    ],
    { gracePeriodSeconds: 1 },
  )

beforeAll(async () => {
  // This plug-in requires permission to update `finalizers` from clients that set blockOwnerDeletion.
  api = await startApiServer(undefined, {
    auditPolicy: policy,
    flags: ['--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement'],
  })
  processes = await installProcesses(api)
  handler = await startHandler()
  // Bypasses the webhooks, which do not run yet.
  await apply(object('VirtualMachine', 'bypassed', { domain }))
  await processes.startWebhooks('webhooks')
  await processes.startController('controller')
  await eventually('the subresources are served', async () =>
    (await field('{.status.conditions[*].status}', 'apiservice', 'v1alpha1.subresources.virtset.io')).includes('True'),
  )
}, 120_000)
afterAll(async () => {
  handler?.kill('SIGKILL')
  await Promise.all(launchers.map((launcher) => launcher.close()))
  await processes?.stop()
  await api?.stop()
  rmSync(kubeletRoot, { recursive: true, force: true })
})

const secret = ['-n', 'virtset-system', 'secret', 'virtset-webhooks-certificates']
const loseSecret = () => kubectl(['delete', ...secret])
const secretIsBack = () =>
  eventually('the Secret is back', async () => (await field('{.data.tls\\.crt}', ...secret)) !== '')

/**
 * Permissions that the audit log does not show. A server-side apply that creates an object is logged as a patch, but
 * requires both. Updating `finalizers` is not a request: the plug-in checks the permission, and refuses
 * blockOwnerDeletion without it. A repeated event of a handler would need another node: the event recorder that counts
 * it is the one that the other processes use. Sets of capabilities take ten minutes, and a profile is read only while its
 * file is missing: node-profiles.test.ts does both with these accounts.
 */
const isProvenOtherwise = ({ account, resource, verb }: Right): boolean =>
  (resource.endsWith('/finalizers') && verb === 'update') ||
  (/^(nodeprofiles|poddisruptionbudgets)/.test(resource) && verb === 'create') ||
  (resource === 'nodecapabilitysets' && ['create', 'patch', 'delete'].includes(verb)) ||
  (account === 'virtset-handler' && resource === 'nodeprofiles' && verb === 'get') ||
  (account === 'virtset-handler' && resource === 'events' && verb === 'patch')

const insecure = new Agent({ connect: { rejectUnauthorized: false } })
afterAll(() => insecure.close())

/**
 * The response of a process to a request for its metrics by a service account; without one, to an anonymous request.
 */
async function scrape(name: string, account?: string): Promise<number> {
  const portOf = () =>
    /"port":(\d+)[^\n]*"serving metrics"/.exec(readFileSync(join(api.directory, `${name}.log`), 'utf8'))?.[1]
  await eventually(`${name} serves metrics`, async () => portOf() !== undefined)
  const token = account === undefined ? undefined : (await kubectl(['create', 'token', account])).trim()
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const { statusCode, body } = await request(`https://127.0.0.1:${portOf()}/metrics`, { dispatcher: insecure, headers })
  const text = await body.text()
  return text.includes('process_cpu_seconds_total') === (statusCode === 200) ? statusCode : Number.NaN
}

test('serves metrics only to accounts that can get /metrics', async () => {
  for (const account of ['prometheus', 'tenant']) await kubectl(['create', 'serviceaccount', account])
  await kubectl(['create', 'clusterrole', 'scraper', '--verb=get', '--non-resource-url=/metrics'])
  await kubectl([
    'create',
    'clusterrolebinding',
    'scraper',
    '--clusterrole=scraper',
    '--serviceaccount=default:prometheus',
  ])
  for (const name of ['webhooks', 'controller', 'handler']) {
    const codes = [await scrape(name, 'prometheus'), await scrape(name, 'tenant'), await scrape(name)]
    expect([name, ...codes]).toEqual([name, 200, 403, 401])
  }
  const beyond = await request(`http://${ownAddress()}:${healthPort}/metrics`)
  expect([beyond.statusCode, await beyond.body.text()]).toEqual([
    403,
    expect.stringContaining('only from within this pod'),
  ])
  const probe = await request(`http://${ownAddress()}:${healthPort}/livez`)
  expect([probe.statusCode, await probe.body.text()]).toEqual([200, 'ok\n'])
})

test('every permission is used, and none is missing', async () => {
  await loseSecret()
  const selector = { matchLabels: { size: 'small' } }
  await apply(object('VirtualMachinePreset', 'mine', { selector, domain: { title: 'by a preset' } }))
  await apply(object('ClusterVirtualMachinePreset', 'site', { selector, domain: { vcpu: { value: 2 } } }))
  // Registers the webhooks for a kind, and writes the status of its target and presets.
  const overlay = 'manifests/overlays/object-presets'
  await kubectl(['apply', '-f', `${overlay}/rbac.yaml`, '-f', `${overlay}/configuration.yaml`])
  const target = { apiVersion: 'v1', kind: 'ConfigMap' }
  const spec = { ...target, failurePolicy: 'Ignore' }
  await apply({ ...object('PresetTarget', 'configmaps', spec), metadata: { name: 'configmaps' } })
  await apply(object('ObjectPreset', 'mine', { target, selector }))
  await apply(object('ClusterObjectPreset', 'site', { target, selector }))
  const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }
  await kubectl(['create', '-f', '-'], {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'claim', namespace: 'default' },
    spec: claim,
  })
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'claim' } }]
  await apply(object('VirtualMachine', 'claimer', { domain, volumes }, { labels: { size: 'small' } }))
  const seed = { name: 'seed', cloudInit: { userDataSecretRef: { name: 'vm.seed' } } }
  await apply(object('VirtualMachine', 'seeded', { domain, volumes: [seed] }))
  await cannotMount('seeded')
  await runs('bypassed')
  await runs('claimer')
  await kubectl(['label', 'vm', 'claimer', 'app=claimer'])
  const labelled = () => field('{.items[*].metadata.name}', 'pods', '-l', 'app=claimer')
  await eventually('the pod has the label of its VM', async () => (await labelled()) !== '')

  await kubectl(['delete', 'vm', 'claimer', '--wait=false'])
  await podsEnd('claimer')
  await isGone('vm', 'claimer')
  await secretIsBack()
  // Repeating it increments the count of the event.
  await loseSecret()

  const claimTemplates = [{ name: 'root', spec: claim }]
  await apply(object('VirtualMachineConfig', 'config', { template: { spec: { domain } }, claimTemplates }))
  await subresource('start')
  await runs('config')
  const filled = () => field('{.metadata.annotations.virtset\\.io/filled}', 'pvc', 'root-config')
  await eventually('the claim of the config is marked as filled', async () => (await filled()) !== '')
  await subresource('restart')
  await podsEnd('config')
  await takeSnapshot(await runs('config'))
  await subresource('stop')
  await podsEnd('config')
  await isGone('vm', 'config')

  // An orphan for the group to adopt.
  await apply(object('VirtualMachine', 'orphan', { domain }, { labels: { app: 'web' } }))
  const template = { metadata: { labels: { app: 'web' } }, spec: { domain } }
  await apply(
    object('VirtualMachineGroup', 'group', {
      replicas: 2,
      minAvailable: 1,
      selector: { matchLabels: { app: 'web' } },
      template,
    }),
  )
  const budgets = () => field('{.items[*].metadata.name}', 'pdb')
  await eventually('the group has its budget', async () => (await budgets()) === 'group')
  const members = () => field('{.items[*].metadata.name}', 'vm', '-l', 'app=web')
  await eventually('the group has its VMs', async () => (await members()).split(' ').length === 2)
  await kubectl(['patch', 'vmg', 'group', '--type=merge', '-p', '{"spec":{"minAvailable":null}}'])
  await eventually('the group has no budget', async () => (await budgets()) === '')
  await kubectl(['scale', 'vmg', 'group', '--replicas=1'])
  await eventually('the group has one VM', async () => (await members()).split(' ').length === 1)
  await secretIsBack()
  const ready = () => field('{.status.conditions[?(@.type=="Ready")].message}', 'vm', 'seeded')
  await eventually('a missing Secret is reported', async () => (await ready()).includes('"vm.seed" not found'))

  // Before it concludes that a VM without a pod has ended, the controller asks for its node.
  const silent = { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } }
  await kubectl(['patch', 'node', 'n1', '--subresource=status', '--type=merge', '-p', JSON.stringify(silent)])
  await kubectl(['delete', 'pod', '-l', 'virtset.io/vm-name=bypassed', '--grace-period=0', '--force'])

  const ofObjects = rightsOf('manifests/overlays/object-presets/rbac.yaml')
  const rights = [
    ...['webhooks', 'controller', 'handler'].flatMap((part) => rightsOf(`manifests/${part}/rbac.yaml`)),
    ...ofObjects.map((right) => ({ ...right, account: 'virtset-webhooks' })),
  ]
  const asked = () => readAudit(join(api.directory, 'audit.log'))
  const unused = () => rights.filter((right) => !isProvenOtherwise(right) && !isUsed(right, asked())).map(textOf)
  await until(() => unused().length === 0, undefined, { deadlineMs: 60_000 }).catch(() => {})
  expect({ unused: unused(), refused: asked().filter(({ isAllowed }) => !isAllowed) }).toEqual({
    unused: [],
    refused: [],
  })
}, 240_000)
