import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Agent, request } from 'undici'
import { run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import { volumeSnapshotDefinition } from '../volume-snapshots.ts'
import { accountOf } from './accounts.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import type { VirtualMachineGroup } from '../../api/group.ts'
import { attachmentPod } from '../../controller/attachment-pod.ts'
import { budgetOf } from '../../controller/budget.ts'
import { excludeNodes } from '../../controller/exclude-nodes.ts'
import { launcherPod } from '../../controller/launcher-pod.ts'
import type { Pod } from '../../controller/pod.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { nodeProfile } from '../node-profile.ts'
import { storedVm } from '../stored-vm.ts'
import { volumeOfEachKind } from '../volumes.ts'
import { installKinds } from './kinds.ts'

/** The admission policies without webhooks: they apply while the webhooks are unavailable. */
let api: TestApiServer
let admin: Agent
let bearer: Agent

interface Response {
  readonly code: number
  readonly message: string
  readonly object: { readonly metadata?: { readonly uid?: string }; readonly status?: { readonly token?: string } }
}

const merge = 'application/merge-patch+json'
const serverSideApply = 'application/apply-patch+yaml'

async function ask(
  method: 'POST' | 'PATCH' | 'PUT' | 'GET' | 'DELETE',
  path: string,
  body: object = {},
  as: { readonly token?: string; readonly user?: string; readonly group?: string; readonly type?: string } = {},
): Promise<Response> {
  const answer = await request(api.server + path, {
    method,
    dispatcher: as.token === undefined ? admin : bearer,
    headers: {
      'content-type': method === 'PATCH' ? (as.type ?? merge) : 'application/json',
      ...(as.token === undefined ? {} : { authorization: `Bearer ${as.token}` }),
      ...(as.user === undefined
        ? {}
        : { 'impersonate-user': as.user, 'impersonate-group': as.group ?? 'system:masters' }),
    },
    ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
  })
  const object = (await answer.body.json()) as Response['object'] & { readonly message?: string }
  return { code: answer.statusCode, message: object.message ?? '', object }
}

const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])
const vms = '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines'
const vm = (name: string, metadata: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, ...metadata },
  spec: { domain: { type: 'qemu' } },
})
const controller = { user: accountOf('controller') }
const webhooks = { user: accountOf('webhooks') }
const jane = { user: 'jane' }

const pods = '/api/v1/namespaces/default/pods'
const barePod = (name: string, labels: object = {}) => ({
  metadata: { name, labels },
  spec: { containers: [{ name: 'c', image: 'i' }] },
})
const secretOf = (name: string) => ({ metadata: { name } })
const secrets = '/api/v1/namespaces/virtset-system/secrets'
const events = '/api/v1/namespaces/default/events'
const ofKind = (apiVersion: string, kind: string) => ({
  apiVersion,
  kind,
  name: 'here',
  namespace: 'default',
  uid: 'u',
})
const event = (component: string, instance: string, involvedObject: object) => ({
  metadata: { generateName: 'event-' },
  involvedObject,
  type: 'Normal',
  reason: 'Started',
  message: 'it runs',
  source: { component, host: instance },
  reportingComponent: component,
  reportingInstance: instance,
})
const aboutNode = event('virtset-controller', 'controller-0', ofKind('v1', 'Node'))

const pdbs = '/apis/policy/v1/namespaces/default/poddisruptionbudgets'

const claims = '/api/v1/namespaces/default/persistentvolumeclaims'
const claimOf = (name: string, metadata: object = {}, spec: object = {}) => ({
  metadata: { name, ...metadata },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, ...spec },
})

const volumeSnapshots = '/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots'
const volumeSnapshotOf = (name: string, metadata: object, source: object) => ({
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshot',
  metadata: { name, ...metadata },
  spec: { source },
})

/** A request that each policy refuses; once it is refused, the API server enforces the policy. */
const foreign: readonly (readonly [string, object, { readonly user: string }])[] = [
  [pods, barePod('bare'), controller],
  [pods, barePod('foreign', { 'virtset.io/vm-uid': 'u' }), jane],
  [vms, vm('foreign'), webhooks],
  [secrets, secretOf('foreign'), webhooks],
  [events, aboutNode, controller],
  [pdbs, { metadata: { name: 'foreign' } }, controller],
  [claims, claimOf('foreign'), controller],
  [volumeSnapshots, volumeSnapshotOf('foreign', {}, {}), controller],
]

beforeAll(async () => {
  api = await startApiServer()
  admin = new Agent({
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  bearer = new Agent({ connect: { ca: api.certificateAuthority } })
  await installKinds(api)
  const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
  await ask('POST', crds, volumeSnapshotDefinition)
  await kubectl('create', 'namespace', 'virtset-system')
  await kubectl('apply', '-f', 'manifests/handler/rbac.yaml', '-f', 'manifests/handler/policy.yaml')
  for (const account of ['default', 'builder']) await kubectl('create', 'serviceaccount', account)
  const inController = ['policy', 'pods', 'claims', 'volume-snapshots', 'pod-status', 'budgets'].map(
    (name) => `controller/${name}`,
  )
  for (const file of [...inController, 'webhooks/policy', 'base/events', 'base/status'])
    await kubectl('apply', '-f', `manifests/${file}.yaml`)
  await ask('POST', vms, vm('probe'))
  // A policy takes effect shortly after it is written.
  const owned = { metadata: { finalizers: ['virtset.io/launcher-pod'] } }
  for (const [path, patch] of [
    ['probe', owned],
    ['probe/status', { status: { phase: 'Running' } }],
  ] as const) {
    await until(async () => (await ask('PATCH', `${vms}/${path}?dryRun=All`, patch, jane)).code !== 200, undefined, {
      deadlineMs: 120_000,
    })
  }
  for (const [path, body, as] of foreign) {
    let response: Response | undefined
    const isRefused = async () => (response = await ask('POST', `${path}?dryRun=All`, body, as)).code === 403
    await until(isRefused, undefined, { deadlineMs: 120_000, describe: () => `${path}: ${JSON.stringify(response)}` })
  }
})
afterAll(async () => {
  await admin?.close()
  await bearer?.close()
  await api?.stop()
})

const owner = (uid = 'u') => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  name: 'c',
  uid,
  controller: true,
})
const job = { apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'j' }
const held = ['virtset.io/launcher-pod']

describe('finalizer and owners of a VM', () => {
  test.each<[string, object, { readonly user: string }, number, string]>([
    ['a user creates it with the finalizer that mutation gave it', { finalizers: held }, jane, 201, ''],
    ['a user cannot set a config as its owner', { ownerReferences: [owner()] }, jane, 403, 'config or group that owns'],
    ['a user can set another kind of owner', { ownerReferences: [job] }, jane, 201, ''],
    ['the controller can set a config as its owner', { ownerReferences: [owner()] }, controller, 201, ''],
  ])('%s', async (_, metadata, as, code, message) => {
    const response = await ask('POST', `${vms}?dryRun=All`, vm('new', metadata), as)
    expect([response.code, response.message.includes(message)]).toEqual([code, true])
  })

  test.each<[string, object, object, { readonly user: string }, number, string]>([
    ['a user removes the finalizer', { finalizers: held }, { finalizers: null }, jane, 403, 'is removed by'],
    ['a user adds the finalizer', {}, { finalizers: held }, jane, 403, 'only virtset can add the finalizer'],
    ['a user adds a finalizer of their own', { finalizers: held }, { finalizers: [...held, 'a.b/c'] }, jane, 200, ''],
    ['the controller takes the finalizer', { finalizers: held }, { finalizers: null }, controller, 200, ''],
    ['a user removes the owner', { ownerReferences: [owner()] }, { ownerReferences: null }, jane, 403, 'owns a VM'],
    ['a user changes the owner', { ownerReferences: [owner()] }, { ownerReferences: [owner('v')] }, jane, 403, 'owns'],
    ['a user labels it', { ownerReferences: [owner()], finalizers: held }, { labels: { a: 'b' } }, jane, 200, ''],
    [
      'garbage collection orphans it',
      { ownerReferences: [owner()] },
      { ownerReferences: null },
      { user: 'system:serviceaccount:kube-system:generic-garbage-collector' },
      200,
      '',
    ],
  ])('%s', async (name, before, patch, as, code, message) => {
    const of = name.replaceAll(/[^a-z]+/g, '-')
    expect((await ask('POST', vms, vm(of, before), controller)).code).toBe(201)
    const response = await ask('PATCH', `${vms}/${of}`, { metadata: patch }, as)
    expect([response.code, response.message.includes(message)]).toEqual([code, true])
  })
})

describe('status', () => {
  const apis = '/apis/virtset.io/v1alpha1'
  const template = { spec: { domain: { type: 'qemu' } } }
  const selector = { matchLabels: { app: 'a' } }
  const running = { phase: 'Running', podUID: 'forged', nodeName: 'node1' }
  const restart = { restart: { uid: 'u', requestedAt: '2030-01-01T00:00:00Z' } }
  const accepted = { revision: 'forged' }

  test.each<[string, string, string, object, object, { readonly user: string }]>([
    ['VM', 'VirtualMachine', 'namespaces/default/virtualmachines', vm('s').spec, running, controller],
    ['config', 'VirtualMachineConfig', 'namespaces/default/virtualmachineconfigs', { template }, restart, webhooks],
    [
      'group',
      'VirtualMachineGroup',
      'namespaces/default/virtualmachinegroups',
      { selector, template },
      { replicas: 3 },
      controller,
    ],
    ['preset', 'VirtualMachinePreset', 'namespaces/default/virtualmachinepresets', { selector }, accepted, controller],
    [
      'cluster preset',
      'ClusterVirtualMachinePreset',
      'clustervirtualmachinepresets',
      { selector },
      accepted,
      controller,
    ],
  ])('of a %s: only the account that observes it can write it', async (_, kind, path, spec, status, writer) => {
    const stored = await ask('POST', `${apis}/${path}`, {
      kind,
      apiVersion: vm('s').apiVersion,
      metadata: { name: 's' },
      spec,
    })
    expect(stored.code).toBe(201)
    const plural = path.split('/').at(-1)
    const refused = await ask('PATCH', `${apis}/${path}/s/status`, { status }, jane)
    expect([refused.code, refused.message]).toEqual([
      403,
      expect.stringContaining(`only virtset's controller, handlers and webhooks can write the status of ${plural}`),
    ])
    expect((await ask('PATCH', `${apis}/${path}/s/status`, { status }, writer)).code).toBe(200)
  })

  test('sent when a VM is created or its metadata is changed has no effect', async () => {
    await ask('POST', vms, { ...vm('created'), status: running }, jane)
    const changed = await ask('PATCH', `${vms}/created`, { metadata: { labels: { a: 'b' } }, status: running }, jane)
    expect([changed.code, changed.object.status]).toEqual([200, { phase: 'Pending' }])
  })

  test('of a group does not restrict its scale', async () => {
    const groups = `${apis}/namespaces/default/virtualmachinegroups`
    const group = { kind: 'VirtualMachineGroup', apiVersion: vm('s').apiVersion, metadata: { name: 'scaled' } }
    await ask('POST', groups, { ...group, spec: { selector, template } })
    expect((await ask('PATCH', `${groups}/scaled/scale`, { spec: { replicas: 2 } }, jane)).code).toBe(200)
  })

  test('cannot be edited with kubectl, which shows why', async () => {
    const edit = ['edit', 'vm', 'probe', '--subresource=status']
    const environment = { KUBE_EDITOR: 'sed -i s/Pending/Running/' }
    const edited = run([api.kubectl, '--kubeconfig', api.kubeconfig, ...edit], { environment })
    await expect(edited).rejects.toThrow('it reports what they observed; change the spec instead')
  })
})

describe('the controller and budgets', () => {
  const group = { metadata: { name: 'g', namespace: 'default', uid: 'g-1', resourceVersion: '1' } }
  const own = budgetOf({
    ...group,
    spec: { minAvailable: 1, selector: { matchLabels: { app: 'a' } }, template: { spec: { domain: {} } } },
  } as unknown as Persisted<VirtualMachineGroup>)!
  const { metadata } = own
  const foreign = { metadata: { name: 'db' }, spec: { minAvailable: 1, selector: { matchLabels: { app: 'db' } } } }

  test.each<[string, object, number, string]>([
    ['of a group', own, 201, ''],
    ['of another workload', foreign, 403, 'the owner of a budget'],
    ['without a label', { ...own, metadata: { ...metadata, labels: {} } }, 403, 'the owner of a budget'],
    ['of another name', { ...own, metadata: { ...metadata, name: 'h' } }, 403, 'the owner of a budget'],
    ['for all pods', { ...own, spec: { minAvailable: 1, selector: {} } }, 403, 'must select only launcher pods'],
  ])('creates one %s', async (_, budget, code, message) => {
    const response = await ask('POST', `${pdbs}?dryRun=All`, budget, controller)
    expect([response.code, response.message.includes(message)]).toEqual([code, true])
  })

  test('changes and deletes only those of groups, also after their label was removed', async () => {
    const unlabelled = { ...own, metadata: { ...metadata, labels: {} } }
    for (const budget of [foreign, unlabelled]) expect((await ask('POST', pdbs, budget, jane)).code).toBe(201)
    const { labels } = metadata
    const codes = [
      await ask('PATCH', `${pdbs}/db`, { spec: { minAvailable: 0 } }, controller),
      await ask('DELETE', `${pdbs}/db`, {}, controller),
      await ask('PATCH', `${pdbs}/g`, { metadata: { labels } }, controller),
      await ask('DELETE', `${pdbs}/g`, {}, controller),
    ].map(({ code }) => code)
    expect(codes).toEqual([403, 403, 200, 200])
  })
})

describe('the controller and VolumeSnapshots', () => {
  const ownerReferences = [
    { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineSnapshot', name: 'nightly', uid: 'u' },
  ]
  const ofClaim = { persistentVolumeClaimName: 'db' }

  test.each<[string, object, object, number]>([
    ['of a claim, for a VirtualMachineSnapshot', { ownerReferences }, ofClaim, 201],
    ['of a claim, for nothing', {}, ofClaim, 403],
    ['of existing content', { ownerReferences }, { volumeSnapshotContentName: 'content' }, 403],
  ])('creates one %s', async (_, metadata, source, code) => {
    const body = volumeSnapshotOf('nightly-root', metadata, source)
    expect((await ask('POST', `${volumeSnapshots}?dryRun=All`, body, controller)).code).toBe(code)
  })

  test('changes none', async () => {
    expect((await ask('POST', volumeSnapshots, volumeSnapshotOf('own', { ownerReferences }, ofClaim), jane)).code).toBe(
      201,
    )
    const patch = { metadata: { labels: { a: 'b' } } }
    expect((await ask('PATCH', `${volumeSnapshots}/own`, patch, controller)).code).toBe(403)
  })
})

describe('the controller and claims', () => {
  const volumeSnapshot = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'nightly-root' }
  const labels = { 'virtset.io/config': 'web' }

  test.each<[string, object, number]>([
    ['of a config', claimOf('root-web', { labels }), 201],
    ['of a group', claimOf('root-web-0', { labels: { 'virtset.io/group': 'web' } }), 201],
    ['without a label', claimOf('root-web'), 403],
    ['of a chosen volume', claimOf('root-web', { labels }, { volumeName: 'db' }), 403],
    [
      'of a volume that it selects',
      claimOf('root-web', { labels }, { selector: { matchLabels: { owner: 'db' } } }),
      403,
    ],
    [
      'that copies another',
      claimOf('root-web', { labels }, { dataSource: { kind: 'PersistentVolumeClaim', name: 'db' } }),
      403,
    ],
    ['of a VolumeSnapshot', claimOf('root-web', { labels }, { dataSource: volumeSnapshot }), 201],
    ['of a reference to a VolumeSnapshot', claimOf('root-web', { labels }, { dataSourceRef: volumeSnapshot }), 201],
    [
      'of a reference to another kind',
      claimOf('root-web', { labels }, { dataSourceRef: { ...volumeSnapshot, kind: 'Other' } }),
      403,
    ],
  ])('creates one %s', async (_, claim, code) => {
    expect((await ask('POST', `${claims}?dryRun=All`, claim, controller)).code).toBe(code)
  })

  test('marks them as filled and used, and changes nothing else', async () => {
    expect((await ask('POST', claims, claimOf('db', { annotations: { owner: 'jane' } }), jane)).code).toBe(201)
    const codes = [
      { annotations: { 'virtset.io/filled': 'now' } },
      { annotations: { 'virtset.io/used': 'now' } },
      { annotations: { owner: 'other' } },
      { annotations: { owner: null } },
      { finalizers: [] },
      { labels },
    ].map(async (metadata) => (await ask('PATCH', `${claims}/db`, { metadata }, controller)).code)
    expect(await Promise.all(codes)).toEqual([200, 200, 403, 403, 403, 403])
  })

  test('does not mark one beside a thousand annotations, or a hundred owners', async () => {
    const many = (prefix: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, '']))
    const owners = (count: number) =>
      Array.from({ length: count }, (_, index) => ({
        apiVersion: 'v1',
        kind: 'Pod',
        name: `o${index}`,
        uid: `u${index}`,
      }))
    const mark = { metadata: { annotations: { 'virtset.io/used': 'now' } } }
    const answers = [
      claimOf('many', { annotations: many('a', 1100) }),
      claimOf('few', { annotations: many('a', 900) }),
      claimOf('owned', { ownerReferences: owners(200) }),
    ].map(async (claim) => {
      expect((await ask('POST', claims, claim, jane)).code).toBe(201)
      const { code, message } = await ask('PATCH', `${claims}/${claim.metadata.name}`, mark, controller)
      return `${code} ${message}`
    })
    expect(await Promise.all(answers)).toEqual([
      expect.stringMatching(/^403 .*that has a thousand labels and annotations, or a hundred owners/),
      expect.stringMatching(/^200 /),
      expect.stringMatching(/^403 .*that has a thousand labels and annotations, or a hundred owners/),
    ])
  })
})

test('the controller makes only a VM the owner of a claim, and only of one of a group', async () => {
  const apiVersion = 'virtset.io/v1alpha1'
  const ofGroup = { apiVersion, kind: 'VirtualMachineGroup', name: 'web', uid: 'g' }
  const ofVm = { apiVersion, kind: 'VirtualMachine', name: 'web-0', uid: 'v' }
  const ofJane = { apiVersion: 'v1', kind: 'ConfigMap', name: 'jane', uid: 'j' }
  const owned = (name: string, label: string, owner: object) =>
    ask('POST', claims, claimOf(name, { labels: { [label]: 'web' }, ownerReferences: [owner] }), jane)
  const codes = [
    await owned('root-web-0', 'virtset.io/group', ofGroup),
    await owned('root-web-1', 'virtset.io/group', ofJane),
    await owned('root-other', 'virtset.io/config', ofGroup),
    ...(await Promise.all(
      (
        [
          ['root-web-0', [ofVm]],
          ['root-web-1', [ofVm]],
          ['root-web-1', [ofJane, ofVm]],
          ['root-web-1', [ofJane, { ...ofJane, uid: 'k' }]],
          ['root-other', [ofVm]],
        ] as const
      ).map(([name, ownerReferences]) =>
        ask('PATCH', `${claims}/${name}?dryRun=All`, { metadata: { ownerReferences } }, controller),
      ),
    )),
  ].map(({ code }) => code)
  expect(codes).toEqual([201, 201, 201, 200, 403, 200, 403, 403])
})

describe('a handler', () => {
  const tokens: Record<string, string> = {}
  const account = '/api/v1/namespaces/virtset-system/serviceaccounts/virtset-handler'

  /** As the kubelet requests it: bound to a pod and so to a node. */
  async function tokenOf(node: string): Promise<string> {
    await ask('POST', '/api/v1/nodes', { metadata: { name: node, labels: { pool: 'a' } } })
    const pod = {
      metadata: { name: `handler-${node}` },
      spec: { nodeName: node, serviceAccountName: 'virtset-handler', containers: [{ name: 'c', image: 'i' }] },
    }
    const { object } = await ask('POST', '/api/v1/namespaces/virtset-system/pods', pod)
    const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name: `handler-${node}`, uid: object.metadata?.uid }
    const asked = await ask('POST', `${account}/token`, { spec: { boundObjectRef } })
    return asked.object.status?.token ?? ''
  }

  beforeAll(async () => {
    for (const node of ['node1', 'node2']) tokens[node] = await tokenOf(node)
    tokens['unbound'] = (await ask('POST', `${account}/token`, { spec: {} })).object.status?.token ?? ''
    for (const name of ['here', 'nowhere']) await ask('POST', vms, vm(name))
    const scheduled = { status: { phase: 'Scheduled', nodeName: 'node1' } }
    const { code } = await ask('PATCH', `${vms}/here/status`, scheduled, controller)
    if (code !== 200) throw new Error(`the controller's status was answered with ${code}`)
  })

  test.each<[string, string, string, object, number, string]>([
    ['writes the VM of its node', 'node1', 'here/status', { status: { phase: 'Running' } }, 200, ''],
    [
      'writes no VM of another',
      'node2',
      'here/status',
      { status: { phase: 'Failed' } },
      422,
      'on "node1", the handler',
    ],
    [
      'writes no VM of no node',
      'node1',
      'nowhere/status',
      { status: { phase: 'Failed' } },
      422,
      'on "", the handler on',
    ],
    [
      'cannot claim a VM of another node',
      'node2',
      'nowhere/status',
      { status: { nodeName: 'node2' } },
      422,
      'only the VMs of its own node',
    ],
    [
      'cannot assign its VM to another node',
      'node1',
      'here/status',
      { status: { nodeName: 'node2' } },
      422,
      'only the VMs of its own node',
    ],
    [
      'cannot write a VM without a node',
      'unbound',
      'here/status',
      { status: { phase: 'Failed' } },
      422,
      'bound to a node',
    ],
    [
      'cannot name another pod',
      'node1',
      'here/status',
      { status: { podUID: 'other' } },
      422,
      'cannot change status.podUID',
    ],
    [
      'names a pod that serves a claim',
      'node1',
      'here/status',
      { status: { attachmentPods: [{ name: 'a', claimName: 'a', podName: 'p', podUID: 'u' }] } },
      422,
      'cannot change status.attachmentPods',
    ],
    [
      'delays the replacement of its VM',
      'node1',
      'here/status',
      { status: { podGracePeriodSeconds: 2_147_483_647 } },
      422,
      'cannot change status.podGracePeriodSeconds',
    ],
    ['reports the end of its VM', 'node1', 'here/status', { status: { phase: 'Failed' } }, 200, ''],
    [
      'cannot revive a VM that has ended',
      'node1',
      'here/status',
      { status: { phase: 'Running' } },
      422,
      'cannot change the phase of a VM that has ended',
    ],
    ['can write only the status', 'node1', 'here', { metadata: { labels: { a: 'b' } } }, 403, 'cannot patch resource'],
  ])('%s', async (_, who, path, patch, code, message) => {
    const response = await ask('PATCH', `${vms}/${path}`, patch, { token: tokens[who] ?? '' })
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  const owner = { apiVersion: 'v1', kind: 'Node', name: 'node1', uid: 'u' }
  const second = { apiVersion: 'v1', kind: 'Namespace', name: 'node1', uid: 'v' }
  const notOwned = 'only its Node owns the profile'
  test.each<[string, string, object, number, string]>([
    ['of its node', 'node1', {}, 200, ''],
    ['not of another', 'node2', {}, 422, 'only the profile of its own node'],
    ['not without the Node as owner', 'node1', { ownerReferences: [] }, 422, notOwned],
    ['not owned by another Node', 'node1', { ownerReferences: [{ ...owner, name: 'node2' }] }, 422, notOwned],
    ['not owned by another kind', 'node1', { ownerReferences: [{ ...owner, kind: 'Pod' }] }, 422, notOwned],
    [
      'not owned by a kind of this name',
      'node1',
      { ownerReferences: [{ ...owner, apiVersion: 'a.b/v1' }] },
      422,
      notOwned,
    ],
    ['not with a second owner', 'node1', { ownerReferences: [owner, second] }, 422, notOwned],
    ['not with a finalizer', 'node1', { finalizers: ['a.b/c'] }, 422, 'cannot add a finalizer'],
  ])('writes a profile: %s', async (_, who, metadata, code, message) => {
    const path = '/apis/virtset.io/v1alpha1/nodeprofiles/node1'
    const apply = (own: object, as: object = {}) => {
      const body = { ...nodeProfile('node1'), metadata: { name: 'node1', ownerReferences: [owner], ...own } }
      return ask('PATCH', `${path}?fieldManager=virtset-handler&force=true`, body, { ...as, type: serverSideApply })
    }
    const handler = { token: tokens[who] ?? '' }
    const created = await apply(metadata, handler)
    // Those of an administrator do not stop a handler.
    await apply({})
    await ask('PATCH', path, { metadata: { finalizers: ['example.org/kept'] } })
    const updated = await apply(metadata, handler)
    await ask('PATCH', path, { metadata: { finalizers: null } })
    await ask('DELETE', path)
    expect([created.code, updated.code]).toEqual(code === 200 ? [201, 200] : [code, code])
    expect([created.message, updated.message]).toEqual([message, message].map((one) => expect.stringContaining(one)))
  })

  const label = 'cpu-model.virtset.io/EPYC'
  test.each<[string, string, string, object, number, string]>([
    ['labels its node with CPU models', 'node1', 'node1', { labels: { [label]: 'true' } }, 200, ''],
    ['removes such a label', 'node1', 'node1', { labels: { [label]: null } }, 200, ''],
    ['not another node', 'node2', 'node1', { labels: { [label]: 'true' } }, 422, 'only its own node'],
    ['not without a node', 'unbound', 'node1', { labels: { [label]: 'true' } }, 422, 'only its own node'],
    ['adds no other label', 'node1', 'node1', { labels: { zone: 'b' } }, 422, 'only the labels cpu-model'],
    ['changes no other label', 'node1', 'node1', { labels: { pool: 'b' } }, 422, 'only the labels cpu-model'],
    ['removes no other label', 'node1', 'node1', { labels: { pool: null } }, 422, 'only the labels cpu-model'],
    ['writes no annotation', 'node1', 'node1', { annotations: { a: 'b' } }, 422, 'only labels'],
    ['writes no finalizer', 'node1', 'node1', { finalizers: ['a.b/c'] }, 422, 'only labels'],
  ])('and Node objects: %s', async (_, who, node, metadata, code, message) => {
    const response = await ask('PATCH', `/api/v1/nodes/${node}`, { metadata }, { token: tokens[who] ?? '' })
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  test('cannot write the spec or the status of its node', async () => {
    const own = { token: tokens['node1'] ?? '' }
    const spec = { taints: [{ key: 'a', effect: 'NoSchedule' }] }
    expect(await ask('PATCH', '/api/v1/nodes/node1', { spec }, own)).toMatchObject({
      code: 422,
      message: expect.stringContaining('only labels'),
    })
    expect((await ask('PATCH', '/api/v1/nodes/node1/status', { status: {} }, own)).code).toBe(403)
  })

  const about = (apiVersion: string, kind: string, component = 'virtset-handler', instance = 'node1') =>
    event(component, instance, ofKind(apiVersion, kind))

  test.each<[string, string, object, number, string]>([
    ['about a VM', 'node1', about('virtset.io/v1alpha1', 'VirtualMachine'), 201, ''],
    ['about a Pod', 'node1', about('v1', 'Pod'), 403, 'virtset-handler cannot record events about v1 Pod'],
    ['about a preset', 'node1', about('virtset.io/v1alpha1', 'VirtualMachinePreset'), 403, 'VirtualMachinePreset'],
    ['of another node', 'node2', about('virtset.io/v1alpha1', 'VirtualMachine'), 403, 'node of the token, "node2"'],
    ['without a node', 'unbound', about('virtset.io/v1alpha1', 'VirtualMachine'), 403, 'node of the token, ""'],
    [
      "in the kubelet's name",
      'node1',
      about('virtset.io/v1alpha1', 'VirtualMachine', 'kubelet'),
      403,
      'source.component and reportingComponent must be virtset-handler',
    ],
  ])('writes events %s', async (_, who, body, code, message) => {
    const response = await ask('POST', events, body, { token: tokens[who] ?? '' })
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  test.each<[string, object, object, number, string]>([
    ['counts its own event', {}, { count: 2 }, 200, ''],
    ['cannot change a message', {}, { message: 'other' }, 403, 'only the count and the time'],
    ['cannot annotate an event', {}, { metadata: { annotations: { a: 'b' } } }, 403, 'only the count and the time'],
    ['cannot count an event of another component', { reportingComponent: 'kubelet' }, { count: 2 }, 403, 'must be'],
    [
      'takes over no event',
      { reportingComponent: 'kubelet', source: { component: 'kubelet' } },
      { reportingComponent: 'virtset-handler', source: { component: 'virtset-handler', host: 'node1' } },
      403,
      'only the count and the time',
    ],
  ])('%s', async (name, over, patch, code, message) => {
    const path = `${events}/${name.replaceAll(' ', '-')}`
    const body = { ...about('virtset.io/v1alpha1', 'VirtualMachine'), ...over }
    await ask('POST', events, { ...body, metadata: { name: name.replaceAll(' ', '-') } })
    const response = await ask('PATCH', path, patch, { token: tokens['node1'] ?? '' })
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })
})

describe('the controller', () => {
  const stored = storedVm()
  const claims = new Map([
    ['claim', { metadata: { name: 'claim' } }],
    ['block', { metadata: { name: 'block' }, spec: { volumeMode: 'Block' as const } }],
  ])
  const volumes = [...volumeOfEachKind, { name: 'block', persistentVolumeClaim: { claimName: 'block' } }]
  const vmWith = (spec: object) => ({ ...stored, spec: { ...stored.spec, ...spec } })
  const launcher = (spec: object = {}): Pod => launcherPod(vmWith(spec), { image: 'virtset-launcher', claims })
  const [compute] = launcher().spec.containers
  const withSpec = (spec: object): object => ({ ...launcher(), spec: { ...launcher().spec, ...spec } })
  const withContainer = (over: object): object => withSpec({ containers: [{ ...compute, ...over }] })
  const withVolume = (source: object): object =>
    withSpec({ volumes: [...launcher().spec.volumes, { name: 'a', ...source }] })
  const withMetadata = (metadata: object): object => ({
    ...launcher(),
    metadata: { ...launcher().metadata, ...metadata },
  })
  const security = { ...compute?.securityContext }
  const placement = { nodeSelector: { a: 'b' }, tolerations: [{ operator: 'Exists' }], affinity: { nodeAffinity: {} } }

  const portForwards = [{ proto: 'tcp', ranges: [{ start: 80 }] }]
  const reachable = { domain: { ...stored.spec.domain, devices: { interfaces: [{ portForwards }] } } }

  test.each<[string, object, number, string]>([
    ['the pod of a VM', launcher(), 201, ''],
    ['the pod of a VM with volumes', launcher({ volumes }), 201, ''],
    ['the pod of a VM of type kvm', launcher({ domain: { ...stored.spec.domain, type: 'kvm' } }), 201, ''],
    [
      'the pod of a VM with huge pages',
      launcher({ domain: { ...stored.spec.domain, memoryBacking: { hugepages: {} } } }),
      201,
      '',
    ],
    [
      'the pod of a VM with devices of its node',
      launcher({
        resourceClaims: [{ name: 'cards', resourceClaimTemplateName: 'two-cards' }],
        hostDevices: [
          { name: 'card', claim: { name: 'cards', request: 'card' } },
          { name: 'gpu', resourceName: 'example.com/gpu' },
        ],
      }),
      201,
      '',
    ],
    ['the pod of a VM with a placement', launcher(placement), 201, ''],
    ['the pod of a VM with excluded nodes', excludeNodes(launcher(placement), ['node1', 'node2']), 201, ''],
    [
      'the pod of a VM with ports',
      launcher({
        ...reachable,
        ports: [{ name: 'web', port: 80 }],
        readinessProbe: { httpGet: { port: 'web', path: '/healthz' } },
        livenessProbe: { tcpSocket: { port: 'web' }, periodSeconds: 5 },
        startupProbe: { tcpSocket: { port: 'web' }, failureThreshold: 100 },
      }),
      201,
      '',
    ],
    [
      'the pod of a VM with probes by commands',
      launcher({
        readinessProbe: { exec: { command: ['a'] } },
        livenessProbe: { exec: { command: ['b'] } },
        startupProbe: { exec: { command: ['c'] } },
      }),
      201,
      '',
    ],
    [
      'the command of another probe',
      withContainer({ readinessProbe: { exec: { command: ['/usr/local/bin/guest-probe', 'livenessProbe'] } } }),
      403,
      'probes',
    ],
    [
      'another sysctl',
      withSpec({
        securityContext: {
          ...launcher().spec.securityContext,
          sysctls: [{ name: 'net.ipv4.ip_local_port_range', value: '1 2' }],
        },
      }),
      403,
      'as user 107',
    ],
    ['a pod without the label', withMetadata({ labels: {} }), 403, 'label virtset.io/vm-uid'],
    ['a pod without an owner', withMetadata({ ownerReferences: [] }), 403, 'the one owner of a launcher pod'],
    [
      'a pod of another VM',
      withMetadata({ labels: { 'virtset.io/vm-uid': 'other' } }),
      403,
      'whose uid is in the label',
    ],
    ['another image', withContainer({ image: 'busybox' }), 403, 'image virtset-launcher'],
    ['a command', withContainer({ command: ['sh'] }), 403, 'without command'],
    ['arguments', withContainer({ args: ['-c'] }), 403, 'without command'],
    ['a second container', withSpec({ containers: [compute, { ...compute, name: 'd' }] }), 403, 'one container'],
    ['an init container', withSpec({ initContainers: [{ ...compute, name: 'd' }] }), 403, 'one container'],
    [
      'a value from a Secret',
      withContainer({ env: [{ name: 'a', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } }] }),
      403,
      'values from elsewhere',
    ],
    ['all keys of a Secret', withContainer({ envFrom: [{ secretRef: { name: 's' } }] }), 403, 'values from elsewhere'],
    ['a port of the host', withContainer({ ports: [{ containerPort: 1, hostPort: 1 }] }), 403, 'ports'],
    [
      'a probe of another address',
      withContainer({ readinessProbe: { httpGet: { port: 80, host: '169.254.169.254' } } }),
      403,
      'probes',
    ],
    ['a probe by a command', withContainer({ readinessProbe: { exec: { command: ['a'] } } }), 403, 'probes'],
    [
      'a liveness probe of another address',
      withContainer({ livenessProbe: { tcpSocket: { port: 80, host: '169.254.169.254' } } }),
      403,
      'probes',
    ],
    ['a liveness probe by a command', withContainer({ livenessProbe: { exec: { command: ['a'] } } }), 403, 'probes'],
    [
      'a startup probe of another address',
      withContainer({ startupProbe: { httpGet: { port: 80, host: '169.254.169.254' } } }),
      403,
      'probes',
    ],
    ['a startup probe by a command', withContainer({ startupProbe: { exec: { command: ['a'] } } }), 403, 'probes'],
    ['a startup probe by gRPC', withContainer({ startupProbe: { grpc: { port: 80 } } }), 403, 'probes'],
    ['a hook', withContainer({ lifecycle: { preStop: { exec: { command: ['a'] } } } }), 403, 'lifecycle'],
    ['a token', withSpec({ automountServiceAccountToken: true }), 403, 'a service account token'],
    ['another account', withSpec({ serviceAccountName: 'builder' }), 403, 'a service account token'],
    ['a node', withSpec({ nodeName: 'node1' }), 403, 'a nodeName'],
    ['the network of the host', withSpec({ hostNetwork: true }), 403, 'a host namespace'],
    ['the processes of the host', withSpec({ hostPID: true }), 403, 'a host namespace'],
    ['the memory of the host', withSpec({ hostIPC: true }), 403, 'a host namespace'],
    ['a path of the host', withVolume({ hostPath: { path: '/' } }), 403, 'the volumes of'],
    ['a volume of a Secret', withVolume({ secret: { secretName: 's' } }), 403, 'the volumes of'],
    [
      'a projected volume of a Secret that is not for VMs',
      withVolume({ projected: { sources: [{ configMap: { name: 'vm.a' } }, { secret: { name: 'vm-a' } }] } }),
      403,
      'the volumes of',
    ],
    [
      'a volume with a token',
      withVolume({ projected: { sources: [{ serviceAccountToken: { path: 't' } }] } }),
      403,
      'the volumes of',
    ],
    ['privileges', withContainer({ securityContext: { privileged: true } }), 403, 'must not have privileges'],
    [
      'another user',
      withContainer({ securityContext: { ...security, runAsUser: 0 } }),
      403,
      'must not have privileges',
    ],
    [
      'a capability',
      withContainer({ securityContext: { ...security, capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] } } }),
      403,
      'must not have privileges',
    ],
    ['no securityContext', withContainer({ securityContext: null }), 403, 'must not have privileges'],
    ['root', withSpec({ securityContext: { runAsUser: 0 } }), 403, 'as user 107'],
    [
      'no seccomp profile',
      withSpec({ securityContext: { ...launcher().spec.securityContext, seccompProfile: { type: 'Unconfined' } } }),
      403,
      'as user 107',
    ],
  ])('creates a pod with: %s', async (_, pod, code, message) => {
    const response = await ask('POST', `${pods}?dryRun=All`, pod, controller)
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  const attachment = attachmentPod(
    storedVm({ status: { nodeName: 'node1' } }),
    { name: 'a', persistentVolumeClaim: { claimName: 'a', readOnly: true } },
    { image: 'virtset-launcher', claim: { metadata: {}, spec: { resources: { requests: { storage: '1Gi' } } } } },
  )
  const attachmentWith = (over: object, container: object = {}): Pod => ({
    ...attachment,
    spec: {
      ...attachment.spec,
      containers: attachment.spec.containers.map((one) => ({ ...one, ...container })),
      ...over,
    },
  })
  const own = { 'virtset.io/attached-to': attachment.metadata.labels?.['virtset.io/attached-to'] }
  const ofTwo = [...attachment.spec.volumes, { name: 'd', persistentVolumeClaim: { claimName: 'b' } }]

  test.each<[string, object, number, string]>([
    ['one claim', attachment, 201, ''],
    [
      'a claim of another VM',
      { ...attachment, metadata: { ...attachment.metadata, labels: { 'virtset.io/attached-to': 'other' } } },
      403,
      'whose uid is in the label',
    ],
    [
      'a claim as a launcher',
      { ...attachment, metadata: { ...attachment.metadata, labels: { ...own, 'virtset.io/vm-uid': 'u' } } },
      403,
      'the label',
    ],
    ['two claims', attachmentWith({ volumes: ofTwo }), 403, 'must serve one claim'],
    [
      'a Secret',
      attachmentWith({ volumes: [...attachment.spec.volumes, { name: 'd', projected: { sources: [] } }] }),
      403,
      'must serve one claim',
    ],
    ['a claim by another command', attachmentWith({}, { command: ['sh'] }), 403, 'without command'],
    ['a claim as the launcher', attachmentWith({}, { command: undefined }), 403, 'without command'],
    ['a claim with arguments', attachmentWith({}, { args: ['x'] }), 403, 'without command'],
    [
      'a claim with another variable',
      attachmentWith({}, { env: [{ name: 'PATH', value: '/x' }] }),
      403,
      'must serve one claim',
    ],
    ['a claim on the network', attachmentWith({}, { ports: [{ containerPort: 1 }] }), 403, 'must serve one claim'],
    ['a claim as root', attachmentWith({ securityContext: { runAsUser: 0 } }), 403, 'as user 107'],
    ['a claim with a token', attachmentWith({ automountServiceAccountToken: true }), 403, 'must serve one claim'],
  ])('creates a pod that serves %s', async (_, pod, code, message) => {
    const response = await ask('POST', `${pods}?dryRun=All`, pod, controller)
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  test('deletes launcher pods and no others', async () => {
    await ask('POST', pods, barePod('other'))
    const names = [launcher(), attachment].map(({ metadata: { name = '' } }) => name)
    for (const pod of [launcher(), attachment]) await ask('POST', pods, pod, controller)
    const remove = async (one: string) => (await ask('DELETE', `${pods}/${one}`, {}, controller)).code
    expect(await Promise.all(['other', ...names].map(remove))).toEqual([403, 200, 200])
  })

  test.each<[string, string, number]>([
    ['v1', 'Node', 403],
    ['v1', 'Pod', 403],
    ['virtset.io/v1alpha1', 'VirtualMachineGroup', 201],
    ['virtset.io/v1alpha1', 'ClusterVirtualMachinePreset', 201],
  ])('writes events about %s %s: %i', async (apiVersion, kind, code) => {
    const body = event('virtset-controller', 'controller-0', ofKind(apiVersion, kind))
    expect((await ask('POST', `${events}?dryRun=All`, body, controller)).code).toBe(code)
  })
})

describe('a launcher pod', () => {
  const uid = 'a1b2c3d4-0000-4000-8000-000000000001'
  const labels = { 'virtset.io/vm-uid': uid }
  const unnamed = { 'virtset.io/vm-uid': '' }
  const vm = (over: object = {}) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    name: 'vm1',
    uid,
    controller: true,
    ...over,
  })
  const ownLabel = 'set the label virtset.io/vm-uid'
  const ownAttachment = 'set the label virtset.io/attached-to'
  const ownRecord = 'set the annotation virtset.io/labels'
  const ownOwner = 'the VM that owns a pod'
  const replicaSets = { user: 'system:serviceaccount:kube-system:replicaset-controller' }
  const garbageCollector = { user: 'system:serviceaccount:kube-system:generic-garbage-collector' }
  const controllerManager = { user: 'system:kube-controller-manager' }
  const computeStatus = { name: 'compute', image: 'i', imageID: 'i', ready: false, restartCount: 0 }
  const podWith = (metadata: object, name = 'p') => ({
    ...barePod(name),
    metadata: { ...barePod(name).metadata, ...metadata },
  })
  const withVariable = (name: string) => ({
    ...barePod('p'),
    spec: { containers: ['first', 'second'].map((one) => ({ name: one, image: 'i', env: [{ name, value: 'a' }] })) },
  })
  const ownVariable = 'a pod with the variable VIRTSET_VM_UID or VIRTSET_ATTACHED_TO'
  const mirrorPod = (metadata: object) => ({
    metadata: { annotations: { 'kubernetes.io/config.mirror': 'a' }, ...metadata },
    spec: { ...barePod('p').spec, nodeName: 'node1' },
  })

  /** The name of a launcher pod, or of a pod that a user created. */
  async function podOf(isLauncher: boolean): Promise<string> {
    const labelled = storedVm({ metadata: { labels: { app: 'a' } } })
    const { metadata, spec } = launcherPod(labelled, { image: 'virtset-launcher', claims: new Map() })
    const own = { metadata: { ...metadata, annotations: { ...metadata.annotations, other: 'a' } }, spec }
    const name = isLauncher ? (own.metadata.name ?? '') : 'mine'
    await ask('POST', pods, isLauncher ? own : barePod(name), isLauncher ? controller : jane)
    return name
  }

  test.each<[string, object, { readonly user: string }, number, string]>([
    ['a user creates a pod', podWith({}), jane, 201, ''],
    [
      'a user creates a pod with other labels and owners',
      podWith({ labels: { a: 'b' }, ownerReferences: [job] }),
      jane,
      201,
      '',
    ],
    ['a user creates one with the label', podWith({ labels }), jane, 403, ownLabel],
    [
      'a user creates one that serves a claim',
      podWith({ labels: { 'virtset.io/attached-to': uid } }),
      jane,
      403,
      ownAttachment,
    ],
    ['a user creates one with an empty label', podWith({ labels: unnamed }), jane, 403, ownLabel],
    ['a user creates one with its variable', withVariable('VIRTSET_VM_UID'), jane, 403, ownVariable],
    ['a user creates one with that of a claim', withVariable('VIRTSET_ATTACHED_TO'), jane, 403, ownVariable],
    ['a user creates one with another variable', withVariable('VM_UID'), jane, 201, ''],
    // KubeVirt's pods have such names.
    ['a user creates one with such a name', podWith({}, 'virt-launcher-a-b'), jane, 201, ''],
    ['a node creates a mirror pod', mirrorPod({ name: 'static' }), jane, 201, ''],
    [
      'a node creates a mirror pod with such a name',
      mirrorPod({ name: 'virt-launcher-a-b' }),
      jane,
      403,
      'a mirror pod cannot have the name',
    ],
    [
      'a node has such a name generated for one',
      mirrorPod({ generateName: 'virt-volume-a-' }),
      jane,
      403,
      'a mirror pod cannot have the name',
    ],
    ['a user creates one with the owner', podWith({ ownerReferences: [vm()] }), jane, 403, ownOwner],
    [
      'a user creates one whose owner does not control it',
      podWith({ ownerReferences: [vm({ controller: false })] }),
      jane,
      403,
      ownOwner,
    ],
    ['a Deployment creates one with the label', podWith({ labels }), replicaSets, 403, ownLabel],
    ['the webhooks create one with the label', podWith({ labels }), webhooks, 403, ownLabel],
    ['a shared controller manager creates one with the label', podWith({ labels }), controllerManager, 403, ownLabel],
  ])('%s', async (_, pod, as, code, message) => {
    const response = await ask('POST', `${pods}?dryRun=All`, pod, as)
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  test.each<[string, boolean, object, { readonly user: string }, number, string]>([
    ['a user labels a pod of their own as one', false, { labels }, jane, 403, ownLabel],
    ['a user gives a pod of their own an empty label', false, { labels: unnamed }, jane, 403, ownLabel],
    ['a user makes a VM the owner of a pod of their own', false, { ownerReferences: [vm()] }, jane, 403, ownOwner],
    ['a user labels it', true, { labels: { a: 'b' } }, jane, 200, ''],
    [
      'a user labels a pod as one that serves a claim',
      false,
      { labels: { 'virtset.io/attached-to': '' } },
      jane,
      403,
      ownAttachment,
    ],
    [
      'a user records labels as copied',
      true,
      { annotations: { 'virtset.io/labels': '{"a":"b"}' } },
      jane,
      403,
      ownRecord,
    ],
    [
      'the controller labels it',
      true,
      { labels: { a: 'b' }, annotations: { 'virtset.io/labels': '{}' } },
      controller,
      200,
      '',
    ],
    [
      'the controller labels it beside too many labels',
      true,
      { labels: Object.fromEntries(Array.from({ length: 2100 }, (_, index) => [`l${index}`, ''])) },
      controller,
      403,
      'a thousand labels',
    ],
    ['the controller removes a label of it', true, { labels: { app: null } }, controller, 200, ''],
    [
      'the controller labels a pod of a user',
      false,
      { labels: { a: 'b' } },
      controller,
      403,
      'only the labels of a launcher pod',
    ],
    [
      'the controller annotates it',
      true,
      { annotations: { a: 'b' } },
      controller,
      403,
      'only the labels of a launcher pod',
    ],
    [
      'the controller removes an annotation of it',
      true,
      { annotations: { other: null } },
      controller,
      403,
      'only the labels of a launcher pod',
    ],
    [
      'the controller removes its owner',
      true,
      { ownerReferences: null },
      controller,
      403,
      'only the labels of a launcher pod',
    ],
    [
      'the controller gives it a finalizer',
      true,
      { finalizers: ['a.b/c'] },
      controller,
      403,
      'only the labels of a launcher pod',
    ],
    [
      'the controller removes its identity',
      true,
      { labels: { 'virtset.io/vm-uid': null } },
      controller,
      403,
      'begin with virtset.io/',
    ],
    [
      'the controller changes its identity',
      true,
      { labels: { 'virtset.io/vm-name': 'b' } },
      controller,
      403,
      'begin with virtset.io/',
    ],
    [
      'the controller gives it another label of virtset',
      true,
      { labels: { 'virtset.io/attached-to': 'b' } },
      controller,
      403,
      'begin with virtset.io/',
    ],
    [
      'the controller gives it one of a subdomain',
      true,
      { labels: { 'cpu.virtset.io/a': 'b' } },
      controller,
      403,
      'begin with virtset.io/',
    ],
    [
      'the controller gives it a label of another domain',
      true,
      { labels: { 'notvirtset.io/a': 'b' } },
      controller,
      200,
      '',
    ],
    ['a user removes its label', true, { labels: { 'virtset.io/vm-uid': null } }, jane, 403, ownLabel],
    ['a user gives it another label', true, { labels: { 'virtset.io/vm-uid': 'other' } }, jane, 403, ownLabel],
    ['a user removes its owner', true, { ownerReferences: null }, jane, 403, ownOwner],
    ['garbage collection takes its owner', true, { ownerReferences: null }, garbageCollector, 200, ''],
    ['so does a shared controller manager', true, { ownerReferences: null }, controllerManager, 200, ''],
  ])('%s', async (_, isLauncher, patch, as, code, message) => {
    const name = await podOf(isLauncher)
    const response = await ask('PATCH', `${pods}/${name}?dryRun=All`, { metadata: patch }, as)
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  const kubelet = { user: 'kubelet', group: 'system:nodes' }
  const scheduler = { user: 'system:kube-scheduler' }
  const nodeController = { user: 'system:serviceaccount:kube-system:node-controller' }
  const rejected = { phase: 'Failed', reason: 'UnexpectedAdmissionError', message: 'no devices' }
  const disrupted = { conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'a' }] }
  const unscheduled = { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }] }
  const gate = { conditions: [{ type: 'example.com/gate', status: 'True' }] }
  const ended = { containerStatuses: [{ ...computeStatus, state: { terminated: { exitCode: 0, message: 'a' } } }] }
  const ownReport = 'only Kubernetes can report'

  beforeAll(() => kubectl('create', 'clusterrolebinding', 'kubelet', '--clusterrole=cluster-admin', '--user=kubelet'))

  test.each<[string, boolean, object, { readonly user: string }, number, string]>([
    ['a user reports its rejection', true, { status: rejected }, jane, 403, `${ownReport} the phase`],
    ['a user reports the end of its container', true, { status: ended }, jane, 403, `${ownReport} the phase`],
    ['a user reports its disruption', true, { status: disrupted }, jane, 403, `${ownReport} these conditions`],
    ['a user reports an address', true, { status: { podIP: '10.0.0.9' } }, jane, 403, `${ownReport} the addresses`],
    ['a user reports a node', true, { status: { hostIP: '10.0.0.9' } }, jane, 403, `${ownReport} the addresses`],
    ['a user reports a resize', true, { status: { resize: 'Proposed' } }, jane, 403, `${ownReport} the addresses`],
    ['another controller sets its own condition', true, { status: gate }, jane, 200, ''],
    ['another scheduler reports on it', true, { status: unscheduled }, jane, 200, ''],
    [
      'a user sets its label through the status',
      true,
      { metadata: { labels: { 'virtset.io/vm-uid': 'b' } } },
      jane,
      403,
      ownLabel,
    ],
    ['a user labels a pod of their own through the status', false, { metadata: { labels } }, jane, 403, ownLabel],
    ['a user reports on a pod of their own', false, { status: rejected }, jane, 200, ''],
    ['the kubelet reports its address', true, { status: { podIP: '10.0.0.9' } }, kubelet, 200, ''],
    ['the kubelet reports its rejection', true, { status: rejected }, kubelet, 200, ''],
    ['the kubelet reports the end of its container', true, { status: ended }, kubelet, 200, ''],
    ['the scheduler preempts it', true, { status: disrupted }, scheduler, 200, ''],
    ['the node controller evicts it', true, { status: disrupted }, nodeController, 200, ''],
    ['a shared controller manager evicts it', true, { status: disrupted }, controllerManager, 200, ''],
  ])('status: %s', async (_, isLauncher, patch, as, code, message) => {
    const name = await podOf(isLauncher)
    const response = await ask('PATCH', `${pods}/${name}/status?dryRun=All`, patch, as)
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  test.each([
    ['pods', (name: string) => `${pods}/${name}/binding`],
    ['bindings', () => '/api/v1/namespaces/default/bindings'],
  ])('a user cannot label it by a binding of %s', async (_, path) => {
    const name = await podOf(false)
    const binding = (of: object) => ({ metadata: { name, ...of }, target: { kind: 'Node', name: 'node1' } })
    const refused = await ask('POST', `${path(name)}?dryRun=All`, binding({ labels }), jane)
    expect([refused.code, refused.message]).toEqual([403, expect.stringContaining(ownLabel)])
    expect((await ask('POST', `${path(name)}?dryRun=All`, binding({}), scheduler)).code).toBe(201)
  })
})

describe('the webhooks', () => {
  /** The garbage collector deletes what it owns. */
  const gone = { apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: '00000000-0000-4000-8000-000000000000' }
  const instance = vm('instance', { ownerReferences: [{ ...owner(), name: 'instance' }] })

  test.each<[string, string, object, number, string]>([
    ['the VM of a config', vms, instance, 201, ''],
    [
      'on trial, the VM of a config whose last VM still exists',
      `${vms}?dryRun=All`,
      { ...instance, metadata: { ...instance.metadata, name: undefined, generateName: 'instance-' } },
      201,
      '',
    ],
    ['a VM without an owner', vms, vm('nobody'), 403, 'only the VMs of VirtualMachineConfigs'],
    ['a VM that a Job owns', vms, vm('job', { ownerReferences: [job] }), 403, 'only the VMs of'],
    ['the Secret with certificates', secrets, secretOf('virtset-webhooks-certificates'), 201, ''],
    ['another Secret', secrets, secretOf('token'), 403, 'only the Secret virtset-webhooks-certificates'],
    [
      'the Secret as one that gets the token of another account',
      secrets,
      {
        metadata: {
          name: 'virtset-webhooks-certificates',
          annotations: { 'kubernetes.io/service-account.name': 'virtset-controller' },
        },
        type: 'kubernetes.io/service-account-token',
      },
      403,
      'of type Opaque',
    ],
    [
      'a VM of another name than its config',
      vms,
      vm('spy', { ownerReferences: [{ ...owner(), name: 'instance' }] }),
      403,
      'which have their names',
    ],
    [
      'a Pod event elsewhere',
      events,
      event('virtset-webhooks', 'p', ofKind('v1', 'Pod')),
      403,
      'cannot record events about',
    ],
  ])('create %s', async (_, path, body, code, message) => {
    const response = await ask('POST', path, body, webhooks)
    expect([response.code, response.message]).toEqual([code, expect.stringContaining(message)])
  })

  test.each<[string, 'PATCH' | 'DELETE', string, object, number]>([
    ['can annotate the VM of a config', 'PATCH', 'instance', { metadata: { annotations: { a: 'b' } } }, 200],
    ['cannot change a spec', 'PATCH', 'instance', { spec: { domain: { type: 'kvm' } } }, 403],
    ['cannot remove the owner of a VM', 'PATCH', 'instance', { metadata: { ownerReferences: null } }, 403],
    ['cannot annotate another VM', 'PATCH', 'probe', { metadata: { annotations: { a: 'b' } } }, 403],
    ['cannot delete another VM', 'DELETE', 'probe', {}, 403],
    ['can delete the VM of a config', 'DELETE', 'instance', {}, 200],
  ])('%s', async (_, method, name, body, code) => {
    expect((await ask(method, `${vms}/${name}`, body, webhooks)).code).toBe(code)
  })

  test('can change only the caBundle of their APIServices', async () => {
    const spec = {
      group: 'subresources.virtset.io',
      version: 'v1alpha1',
      groupPriorityMinimum: 1000,
      versionPriority: 15,
      service: { namespace: 'virtset-system', name: 'virtset-subresources', port: 443 },
    }
    const name = 'v1alpha1.subresources.virtset.io'
    const apiServices = '/apis/apiregistration.k8s.io/v1/apiservices'
    await ask('POST', apiServices, { apiVersion: 'apiregistration.k8s.io/v1', metadata: { name }, spec })
    const write = async (path: string, body: object) => (await ask('PATCH', path, body, webhooks)).code
    const caBundle = Buffer.from(api.certificateAuthority).toString('base64')
    const automanaged = 'kube-aggregator.kubernetes.io/automanaged'
    expect([
      await write(`${apiServices}/${name}`, { spec: { caBundle } }),
      await write(`${apiServices}/${name}`, { spec: { service: { namespace: 'default' } } }),
      await write(`${apiServices}/${name}`, { spec: { caBundle: null, insecureSkipTLSVerify: true } }),
      await write(`${apiServices}/${name}`, { spec: { groupPriorityMinimum: 20_000 } }),
      await write(`${apiServices}/${name}`, { metadata: { ownerReferences: [gone] } }),
      // The API server deletes one with this label that it has not created itself.
      await write(`${apiServices}/${name}`, { metadata: { labels: { [automanaged]: 'true' } } }),
      await write(`${apiServices}/${name}`, { metadata: { labels: { 'example.org/added': 'by-a-webhook' } } }),
    ]).toEqual([200, 403, 403, 403, 403, 403, 200])
  })

  test('add neither owner nor finalizer to their Secret', async () => {
    const name = 'virtset-webhooks-certificates'
    await ask('POST', secrets, secretOf(name), webhooks)
    const write = async (change: object, of: object = {}) => {
      const secret = { type: 'Opaque', ...change, metadata: { name, ...of } }
      return (await ask('PUT', `${secrets}/${name}`, secret, webhooks)).code
    }
    expect([
      await write({ data: { 'tls.key': 'eA==' } }),
      await write({}, { ownerReferences: [gone] }),
      await write({}, { finalizers: ['example.org/held'] }),
      await write({}, { labels: { 'example.org/added': 'by-a-webhook' } }),
    ]).toEqual([200, 403, 403, 200])
  })
})
