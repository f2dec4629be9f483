import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Agent, request } from 'undici'
import { run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installKinds } from './kinds.ts'

/** The two admission policies, without any webhook: they hold while the webhooks are away. */
let api: TestApiServer
let admin: Agent
let bearer: Agent

interface Said {
  readonly code: number
  readonly message: string
  readonly object: { readonly metadata?: { readonly uid?: string }; readonly status?: { readonly token?: string } }
}

const merge = 'application/merge-patch+json'

async function ask(
  method: 'POST' | 'PATCH' | 'GET',
  path: string,
  body: object = {},
  as: { readonly token?: string; readonly user?: string } = {},
): Promise<Said> {
  const answer = await request(api.server + path, {
    method,
    dispatcher: as.token === undefined ? admin : bearer,
    headers: {
      'content-type': method === 'PATCH' ? merge : 'application/json',
      ...(as.token === undefined ? {} : { authorization: `Bearer ${as.token}` }),
      ...(as.user === undefined ? {} : { 'impersonate-user': as.user, 'impersonate-group': 'system:masters' }),
    },
    ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
  })
  const object = (await answer.body.json()) as Said['object'] & { readonly message?: string }
  return { code: answer.statusCode, message: object.message ?? '', object }
}

const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])
const machines = '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines'
const machine = (name: string, metadata: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, ...metadata },
  spec: { domain: { type: 'qemu' } },
})
const controller = { user: 'system:serviceaccount:virtset-system:virtset-controller' }
const jane = { user: 'jane' }

beforeAll(async () => {
  api = await startApiServer()
  admin = new Agent({
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  bearer = new Agent({ connect: { ca: api.certificateAuthority } })
  await installKinds(api)
  await kubectl('create', 'namespace', 'virtset-system')
  await kubectl('apply', '-f', 'manifests/handler/rbac.yaml', '-f', 'manifests/handler/policy.yaml')
  await kubectl('apply', '-f', 'manifests/controller/policy.yaml')
  await ask('POST', machines, machine('probe'))
  // A policy counts a moment after it is written.
  const owned = { metadata: { finalizers: ['virtset.io/launcher-pod'] } }
  await until(
    async () => (await ask('PATCH', `${machines}/probe?dryRun=All`, owned, jane)).code !== 200,
    () => {},
    { deadlineMs: 120_000 },
  )
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
    ['a user says that a config owns it', { ownerReferences: [owner()] }, jane, 403, 'which config or group owns'],
    ["a user says that something of somebody else's owns it", { ownerReferences: [job] }, jane, 201, ''],
    ['the controller says that a config owns it', { ownerReferences: [owner()] }, controller, 201, ''],
  ])('%s', async (_, metadata, as, code, message) => {
    const said = await ask('POST', `${machines}?dryRun=All`, machine('new', metadata), as)
    expect([said.code, said.message.includes(message)]).toEqual([code, true])
  })

  test.each<[string, object, object, { readonly user: string }, number, string]>([
    ['a user takes the finalizer', { finalizers: held }, { finalizers: null }, jane, 403, 'is taken away by'],
    ['a user adds the finalizer', {}, { finalizers: held }, jane, 403, "is virtset's own"],
    ['a user adds a finalizer of their own', { finalizers: held }, { finalizers: [...held, 'a.b/c'] }, jane, 200, ''],
    ['the controller takes the finalizer', { finalizers: held }, { finalizers: null }, controller, 200, ''],
    ['a user takes the owner', { ownerReferences: [owner()] }, { ownerReferences: null }, jane, 403, 'owns a VM'],
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
    expect((await ask('POST', machines, machine(of, before), controller)).code).toBe(201)
    const said = await ask('PATCH', `${machines}/${of}`, { metadata: patch }, as)
    expect([said.code, said.message.includes(message)]).toEqual([code, true])
  })
})

describe('a handler', () => {
  const tokens: Record<string, string> = {}
  const account = '/api/v1/namespaces/virtset-system/serviceaccounts/virtset-handler'

  /** As the kubelet gets it: bound to a pod, and by it to a node. */
  async function tokenOf(node: string): Promise<string> {
    await ask('POST', '/api/v1/nodes', { metadata: { name: node } })
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
    for (const name of ['here', 'nowhere']) await ask('POST', machines, machine(name))
    const scheduled = { status: { phase: 'Scheduled', nodeName: 'node1' } }
    const { code } = await ask('PATCH', `${machines}/here/status`, scheduled, controller)
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
    ['takes no VM', 'node2', 'nowhere/status', { status: { nodeName: 'node2' } }, 422, 'only the VMs of its own node'],
    ['gives none away', 'node1', 'here/status', { status: { nodeName: 'node2' } }, 422, 'only the VMs of its own node'],
    ['without a node writes none', 'unbound', 'here/status', { status: { phase: 'Failed' } }, 422, 'bound to a node'],
    ['writes nothing but status', 'node1', 'here', { metadata: { labels: { a: 'b' } } }, 403, 'cannot patch resource'],
  ])('%s', async (_, who, path, patch, code, message) => {
    const said = await ask('PATCH', `${machines}/${path}`, patch, { token: tokens[who] ?? '' })
    expect([said.code, said.message]).toEqual([code, expect.stringContaining(message)])
  })
})
