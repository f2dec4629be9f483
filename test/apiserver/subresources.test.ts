import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { attempt, run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes } from './processes.ts'

/** start, stop and restart through the API server's aggregator, with the webhooks and the controller as processes of their own. */
let api: TestApiServer
let processes: Processes

let admin: Agent

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  await processes.startWebhooks('one')
  await processes.startController('controller')
  admin = new Agent({
    connect: { ca: api.certificateAuthority, cert: api.clientCertificate, key: api.clientKey },
  })
  await until(
    async () =>
      (await attempt(
        command('wait', 'apiservice/v1alpha1.subresources.virtset.io', '--for=condition=Available', '--timeout=20s'),
      )) !== undefined,
    undefined,
    { deadlineMs: 40_000 },
  )
})
afterAll(async () => {
  await admin?.close()
  await processes?.stop()
  await api?.stop()
})

const command = (...rest: string[]) => [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest]
const kubectl = (rest: string[], input?: string) => run(command(...rest), input === undefined ? {} : { input })
const apply = (object: object) => kubectl(['apply', '-f', '-'], JSON.stringify(object))
const field = async (path: string, ...what: string[]) =>
  kubectl(['get', ...what, '--ignore-not-found', '-o', `jsonpath=${path}`])

const eventually = (what: string, isTrue: () => Promise<boolean>) =>
  until(isTrue, undefined, { deadlineMs: 20_000, describe: () => what })

const domain = { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } }
const config = (name: string, title = 'first') => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { name, namespace: 'default' },
  spec: { template: { metadata: { labels: { app: name } }, spec: { domain: { ...domain, title } } } },
})

interface Answer {
  readonly code: number
  readonly body: { readonly [key: string]: unknown }
}

const subresource = (verb: string, name: string, query = '') =>
  `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/${name}/${verb}${query}`

const ask = async (
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH',
  path: string,
  options: { readonly body?: string; readonly user?: string; readonly groups?: string[] } = {},
): Promise<Answer> => {
  const { body, user, groups = [] } = options
  const headers = {
    'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
    ...(user === undefined
      ? {}
      : { 'impersonate-user': user, 'impersonate-group': [...groups, 'system:authenticated'] }),
  }
  const answer = await request(api.server + path, {
    method,
    headers,
    dispatcher: admin,
    ...(body === undefined ? {} : { body }),
  })
  return { code: answer.statusCode, body: JSON.parse(await answer.body.text()) }
}

/** What scheduler, handler and kubelet do. */
const podOf = (name: string) => field('{.items[*].metadata.name}', 'pods', '-l', `virtset.io/vm-name=${name}`)
const runs = async (name: string) => {
  await eventually(`${name} has a pod`, async () => (await podOf(name)) !== '')
  const pod = await podOf(name)
  const binding = {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name: pod },
    target: { apiVersion: 'v1', kind: 'Node', name: 'n1' },
  }
  await kubectl(
    ['create', '--raw', `/api/v1/namespaces/default/pods/${pod}/binding`, '-f', '-'],
    JSON.stringify(binding),
  )
  await eventually(`${name} is scheduled`, async () => (await field('{.status.phase}', 'vm', name)) === 'Scheduled')
  await kubectl(['patch', 'vm', name, '--subresource=status', '--type=merge', '-p', '{"status":{"phase":"Running"}}'])
}
const podEnds = async (name: string) => {
  await eventually(
    `the pod of ${name} is asked to end`,
    async () =>
      (await field('{.items[*].metadata.deletionTimestamp}', 'pods', '-l', `virtset.io/vm-name=${name}`)) !== '',
  )
  await kubectl(['delete', 'pod', '-l', `virtset.io/vm-name=${name}`, '--grace-period=0', '--force'])
  return undefined
}
const isGone = (name: string) =>
  eventually(`${name} is gone`, async () => (await field('{.metadata.uid}', 'vm', name)) === '')
const hasPhase = (name: string, phase: string) =>
  eventually(`${name} is ${phase}`, async () => (await field('{.status.phase}', 'vmc', name)) === phase)

describe('the flow', () => {
  test('POST c1, start, i1, stop, PATCH, start, i2, stop', async () => {
    await apply(config('c1'))
    await hasPhase('c1', 'Stopped')

    const started = await ask('GET', subresource('start', 'c1'))
    expect(started).toMatchObject({
      code: 201,
      body: {
        kind: 'VirtualMachine',
        metadata: {
          name: 'c1',
          labels: { app: 'c1' },
          ownerReferences: [{ kind: 'VirtualMachineConfig', name: 'c1', controller: true }],
        },
        spec: { domain: { title: 'first', uuid: expect.any(String) } },
      },
    })
    const first = await field('{.metadata.uid}', 'vm', 'c1')
    await hasPhase('c1', 'Starting')
    await runs('c1')
    await hasPhase('c1', 'Running')
    expect(await kubectl(['get', 'vmc', 'c1', '--no-headers'])).toMatch(/^c1 +Running +n1 +false /)

    await kubectl([
      'patch',
      'vmc',
      'c1',
      '--type=merge',
      '-p',
      '{"spec":{"template":{"spec":{"domain":{"title":"second"}}}}}',
    ])
    await eventually('c1 is outdated', async () => (await field('{.status.outdated}', 'vmc', 'c1')) === 'true')
    expect(await field('{.spec.domain.title}', 'vm', 'c1')).toBe('first')
    expect(await ask('POST', subresource('start', 'c1'))).toMatchObject({
      code: 409,
      body: { kind: 'Status', reason: 'Conflict', message: expect.stringContaining('running already') },
    })

    expect(await ask('POST', subresource('stop', 'c1'), { body: '{"gracePeriodSeconds":5}' })).toMatchObject({
      code: 202,
      body: { status: 'Success', details: { uid: first } },
    })
    expect(await field('{.metadata.annotations.virtset\\.io/grace-period-seconds}', 'vm', 'c1')).toBe('5')
    await hasPhase('c1', 'Stopping')
    expect(await ask('PUT', subresource('start', 'c1'))).toMatchObject({
      code: 409,
      body: { message: expect.stringContaining('stopping') },
    })
    await podEnds('c1')
    await isGone('c1')
    await hasPhase('c1', 'Stopped')
    expect((await ask('POST', subresource('stop', 'c1'))).code).toBe(409)

    expect(await ask('PUT', subresource('start', 'c1'))).toMatchObject({
      code: 201,
      body: { spec: { domain: { title: 'second' } } },
    })
    expect(await field('{.metadata.uid}', 'vm', 'c1')).not.toBe(first)
    expect((await ask('POST', subresource('stop', 'c1'))).code).toBe(202)
    await isGone('c1')
  })
})
