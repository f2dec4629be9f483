import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { lastLines, run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installKinds } from './kinds.ts'

/** The controller in its own process, with its account and only the permissions of its manifests. */
let api: TestApiServer
let kubeconfig: string
const children: ChildProcess[] = []

const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])
const apply = async (name: string, object: object) => {
  const file = join(api.directory, `${name}.json`)
  await writeFile(file, JSON.stringify(object))
  return kubectl('apply', '--server-side', '-f', file)
}
const read = async (...what: string[]): Promise<unknown> => JSON.parse(await kubectl('get', ...what, '-o', 'json'))
const field = (path: string, ...what: string[]) =>
  kubectl('get', ...what, '--ignore-not-found', '-o', `jsonpath=${path}`)
const phase = (name: string) => field('{.status.phase}', 'vm', name)
const podOf = (name: string) => field('{.items[*].metadata.name}', 'pods', '-l', `virtset.io/vm-name=${name}`)

const logFile = (identity: string) => join(api.directory, `${identity}.log`)
const startReplica = (identity: string) => {
  const log = openSync(logFile(identity), 'a')
  const env = {
    ...process.env,
    KUBECONFIG: kubeconfig,
    POD_NAME: identity,
    LAUNCHER_IMAGE: 'launcher:1',
    HEALTH_PORT: '0',
  }
  const child = spawn(process.execPath, ['controller/main.ts'], { stdio: ['ignore', log, log], env })
  children.push(child)
  return child
}

const eventually = async (what: string, isTrue: () => Promise<boolean>) => {
  const failed = async () => {
    const logs = await Promise.all(['one', 'two'].map((name) => readFile(logFile(name), 'utf8').catch(() => '')))
    throw new Error(`${what} did not come true\n${logs.map((log) => lastLines(log, 15)).join('\n')}`)
  }
  await until(isTrue, undefined, { deadlineMs: 120_000 }).catch(failed)
}

/** Acts as the scheduler. */
const bind = async (pod: string, node: string) => {
  const file = join(api.directory, 'binding.json')
  const binding = {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name: pod },
    target: { apiVersion: 'v1', kind: 'Node', name: node },
  }
  await writeFile(file, JSON.stringify(binding))
  await kubectl('create', '--raw', `/api/v1/namespaces/default/pods/${pod}/binding`, '-f', file)
}

const vm = (name: string) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, labels: { size: 'small' } },
  spec: { domain: { type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } } },
})

beforeAll(async () => {
  api = await startApiServer()
  await installKinds(api)
  await kubectl('create', 'namespace', 'virtset-system')
  await kubectl('create', 'serviceaccount', 'default')
  await kubectl('apply', '-f', 'manifests/controller/rbac.yaml')
  const token = (await kubectl('create', 'token', '-n', 'virtset-system', 'virtset-controller')).trim()
  kubeconfig = join(api.directory, 'controller.kubeconfig')
  const cluster = {
    server: api.server,
    'certificate-authority-data': Buffer.from(api.certificateAuthority).toString('base64'),
  }
  const config = {
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(kubeconfig, JSON.stringify(config))
  await apply('preset', {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name: 'titled', namespace: 'default' },
    spec: { selector: { matchLabels: { size: 'small' } }, domain: { title: 'by a preset' } },
  })
})

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await api.stop()
})

describe('the controller on a real API server, without webhooks', () => {
  it('a VM and a config have a phase before any controller runs', async () => {
    await apply('early', vm('early'))
    const config = { ...vm('early'), kind: 'VirtualMachineConfig', spec: { template: { spec: vm('early').spec } } }
    await apply('early-config', config)
    expect(await phase('early')).toBe('Pending')
    expect(await field('{.items[*].metadata.name}', 'vm', '--field-selector', 'status.phase=Pending')).toBe('early')
    expect(await field('{.status.phase}', 'vmc', 'early')).toBe('Stopped')
    await kubectl('delete', 'vm,vmc', 'early')
  })

  it('completes a VM, creates its pod, assigns it to its node, and removes it; the other replica takes over from a killed leader', async () => {
    const one = startReplica('one')
    await eventually('the first replica leads', async () =>
      (await readFile(logFile('one'), 'utf8')).includes('"leading"'),
    )
    startReplica('two')
    await apply('vm1', vm('vm1'))
    await eventually('vm1 has a pod', async () => (await podOf('vm1')) !== '')
    expect(await read('vm', 'vm1')).toMatchObject({
      metadata: { finalizers: ['virtset.io/launcher-pod'] },
      spec: { domain: { title: 'by a preset', memory: { unit: 'MB', value: 64 }, uuid: expect.any(String) } },
    })

    const reasons = async () =>
      (await field('{.items[*].reason}', 'events', '--field-selector', 'involvedObject.name=vm1')).split(' ').toSorted()
    // An event that is not written yet would be lost with the leader.
    await eventually('both events', async () => (await reasons()).join() === 'Completed,SuccessfulCreate')
    one.kill('SIGKILL')
    await bind(await podOf('vm1'), 'n1')
    await apply('vm2', vm('vm2'))
    await eventually('vm1 is scheduled', async () => (await phase('vm1')) === 'Scheduled')
    await eventually('vm2 has a pod', async () => (await podOf('vm2')) !== '')
    expect(await read('vm', 'vm1')).toMatchObject({
      status: {
        nodeName: 'n1',
        podUID: await field('{.metadata.uid}', 'pod', await podOf('vm1')),
        presets: 'default/titled',
        memory: '62500Ki',
        cpus: 1,
        conditions: [
          { type: 'Completed', status: 'True' },
          { type: 'PodScheduled', status: 'True' },
          { type: 'Ready', status: 'False' },
          { type: 'Synchronized', status: 'False' },
        ],
      },
    })

    const pod = await podOf('vm1')
    await kubectl('delete', 'vm', 'vm1', '--wait=false')
    await eventually(
      'the pod is deleted',
      async () => (await field('{.metadata.deletionTimestamp}', 'pod', pod)) !== '',
    )
    expect(await field('{.metadata.name}', 'vm', 'vm1')).toBe('vm1')
    // Acts as the kubelet after the container has ended.
    await kubectl('delete', 'pod', pod, '--grace-period=0', '--force')
    await eventually('vm1 is gone', async () => (await field('{.metadata.name}', 'vm', 'vm1')) === '')
    await eventually('a third event', async () => (await reasons()).length > 2)
    expect(await reasons()).toEqual(['Completed', 'SuccessfulCreate', 'SuccessfulDelete'])
  })

  it('sets the condition Accepted of a preset', async () => {
    const accepted = '{.status.conditions[?(@.type=="Accepted")].status}'
    await eventually('accepted', async () => (await field(accepted, 'vmp', 'titled')) === 'True')
    expect(await field('{.status.revision}', 'vmp', 'titled')).toMatch(/^[0-9a-f]{16}$/)
  })

  it('fails a VM whose pod is lost', async () => {
    const pod = await podOf('vm2')
    await bind(pod, 'n1')
    await eventually('vm2 is scheduled', async () => (await phase('vm2')) === 'Scheduled')
    await kubectl('delete', 'pod', pod, '--grace-period=0', '--force')
    await eventually('vm2 has failed', async () => (await phase('vm2')) === 'Failed')
    expect(await field('{.status.reason}', 'vm', 'vm2')).toMatch(/^(PodDeleted|NodeLost)$/)
    expect(await podOf('vm2')).toBe('')
    await kubectl('delete', 'vm', 'vm2', '--timeout=180s')
  })

  it('reports why a VM cannot be completed, and completes it once that is corrected', async () => {
    const right = vm('vm3')
    const { memory, ...domain } = right.spec.domain
    await apply('vm3', { ...right, spec: { domain: { ...domain, memery: memory } } })
    await eventually(
      'vm3 is refused',
      async () => (await field('{.status.reason}', 'vm', 'vm3')) === 'CompletionRefused',
    )
    expect(await field('{.status.message}', 'vm', 'vm3')).toContain('spec.domain.memery')
    expect(await podOf('vm3')).toBe('')
    await apply('vm3', right)
    await eventually('vm3 has a pod', async () => (await podOf('vm3')) !== '')
  })

  it('recognizes the pod of a VM that states empty values, which the API server does not store', async () => {
    const of = vm('empty')
    const term = { topologyKey: 'a', labelSelector: { matchLabels: {} }, namespaceSelector: { matchLabels: {} } }
    const interfaces = [{ type: 'user', backend: { type: 'passt' } }]
    const spec = {
      domain: { ...of.spec.domain, devices: { interfaces } },
      tolerations: [
        { key: 'a', operator: 'Equal', value: '' },
        { key: '', operator: 'Exists' },
        { key: 'b', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 0 },
      ],
      affinity: {
        nodeAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 1, preference: { matchExpressions: [{ key: 'a', operator: 'Exists', values: [] }] } },
          ],
        },
        podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] },
        podAntiAffinity: {},
      },
      nodeSelector: { a: '' },
      ports: [{ name: 'web', port: 80 }],
      readinessProbe: {
        httpGet: { port: 'web', path: '', httpHeaders: [{ name: 'a', value: '' }] },
        initialDelaySeconds: 0,
      },
    }
    await apply('empty', { ...of, spec })
    await eventually('the VM has a pod', async () => (await podOf('empty')) !== '')
    await bind(await podOf('empty'), 'n1')
    const outcome = () => field('{.status.phase} {.status.reason}', 'vm', 'empty')
    await eventually('the VM is scheduled or refused', async () => /Scheduled|PodNotOwn/.test(await outcome()))
    expect(await outcome()).toBe('Scheduled ')
  })

  it('exits in order on SIGTERM, and releases the lease', async () => {
    const two = children.at(-1)!
    const ended = new Promise((resolve) => two.once('exit', (code) => resolve(code)))
    two.kill('SIGTERM')
    expect(await ended).toBe(0)
    expect(await field('{.spec.holderIdentity}', 'lease', '-n', 'virtset-system', 'virtset-controller')).toBe('')
  })

  it('exits at once, and leaves nothing to be done, when another process has taken the lease', async () => {
    const three = startReplica('three')
    const ended = new Promise((resolve) => three.once('exit', (code) => resolve(code)))
    const log = () => readFile(logFile('three'), 'utf8')
    await eventually('the third replica leads', async () => (await log()).includes('"leading"'))
    const spec = { holderIdentity: 'other', leaseTransitions: 9 }
    const lease = ['lease', '-n', 'virtset-system', 'virtset-controller']
    await kubectl('patch', ...lease, '--type=merge', '-p', JSON.stringify({ spec }))
    expect(await ended).toBe(1)
    expect(await log()).toContain('"exiting at once"')
    expect(await log()).not.toContain('"stopping"')
    expect(await field('{.spec.holderIdentity}', ...lease)).toBe('other')
  })
})
