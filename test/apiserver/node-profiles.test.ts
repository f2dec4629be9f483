import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Capabilities } from '../../api/capabilities.ts'
import { attempt, run } from '../../cluster/command.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import type { NodeGroup } from '../../completion/outliers.ts'
import { publishProfile, type ProfilePublisher } from '../../handler/profile.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { emulatedCapabilities, olderCapabilities } from '../node-profile.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { startWebhooks } from './webhooks.ts'
import type { TestWebhooks } from './webhooks.ts'

/** Handlers of two nodes publish profiles, each with its node's token, and VMs are completed for them. */
let api: TestApiServer
let webhooks: TestWebhooks
const stops: (() => Promise<void>)[] = []
/** What the profile pods have written, by node. */
const written = new Map<string, Buffer>()

const kubectl = (rest: string[], input?: object) =>
  run(
    [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest],
    input === undefined ? {} : { input: JSON.stringify(input) },
  )

/** A client like the handler's on this node: its token is bound to its pod and so to the node. */
async function handlerOf(node: string) {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `handler-${node}`, namespace: 'virtset-system' },
    spec: { nodeName: node, serviceAccountName: 'virtset-handler', containers: [{ name: 'c', image: 'i' }] },
  }
  await kubectl(['create', '-f', '-'], pod)
  const bound = ['--bound-object-kind', 'Pod', '--bound-object-name', `handler-${node}`]
  const token = (await kubectl(['create', 'token', '-n', 'virtset-system', 'virtset-handler', ...bound])).trim()
  const kube = createKubeClient({
    access: {
      server: api.server,
      prove: () =>
        Promise.resolve({ tls: { ca: api.certificateAuthority }, headers: { authorization: `Bearer ${token}` } }),
    },
    userAgent: 'virtset-handler',
  })
  stops.push(() => kube.close())
  return kube
}

const find = (node: string, capabilities: Capabilities) =>
  written.set(node, Buffer.from(JSON.stringify({ libvirtVersion: '11.3.0', capabilities })))

async function publish(node: string, as = node): Promise<ProfilePublisher & { readonly lines: string[] }> {
  const lines: string[] = []
  const publisher = publishProfile({
    kube: await handlerOf(as),
    nodeName: node,
    read: () => Promise.resolve(written.get(node)),
    log: createLogger({ process: 'handler', to: { write: (line) => lines.push(line) } }),
    clock: systemClock,
  })
  stops.unshift(() => publisher.stop())
  return { ...publisher, lines }
}

const columns = (node: string) => kubectl(['get', 'nodeprofile', node, '--no-headers'])
const known = () =>
  webhooks.caches
    .capabilities()
    .providedFor({ domain: {} })
    .groups.flatMap(({ nodes }) => nodes)

beforeAll(async () => {
  api = await startApiServer()
  webhooks = await startWebhooks(api, (caches) => createEngine(caches, () => Promise.resolve(false)))
  await kubectl(['apply', '-f', 'manifests/handler/rbac.yaml', '-f', 'manifests/handler/policy.yaml'])
  for (const name of ['new', 'old', 'third']) {
    const labels = { 'kubernetes.io/hostname': name, pool: name }
    await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } })
  }
}, 120_000)

afterAll(async () => {
  for (const stop of stops) await stop()
  await webhooks?.stop()
  await api?.stop()
})

const vm = (name: string, machineType?: string, spec: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, namespace: 'default' },
  spec: {
    domain: {
      type: 'qemu',
      memory: { unit: 'MB', value: 64 },
      os: { type: { os: 'hvm', ...(machineType === undefined ? {} : { machine: machineType }) } },
    },
    ...spec,
  },
})
const completedFor = async (of: object) =>
  JSON.parse(await kubectl(['create', '-f', '-', '-o', 'json'], of)).spec.domain.os.type.machine
const refusalOf = (of: object): Promise<string> =>
  kubectl(['create', '--dry-run=server', '-f', '-'], of).then(
    () => 'created',
    (error: unknown) => String(error),
  )

test('without profiles, VMs are completed for the bundled profile', async () => {
  expect(await completedFor(vm('before'))).toBe('pc-i440fx-10.0')
})

test('handlers publish the profiles of their nodes, and kubectl shows them', async () => {
  find('new', bundledCapabilities)
  find('old', olderCapabilities('10.0'))
  await publish('new')
  await publish('old')
  await until(() => known().length === 2)
  expect((await columns('new')).trim().split(/\s+/).slice(0, 5)).toEqual([
    'new',
    '10.0.0',
    '11.3.0',
    'pc-i440fx-10.0',
    'true',
  ])
  expect((await columns('old')).trim().split(/\s+/).slice(0, 5)).toEqual([
    'old',
    '9.2.0',
    '11.3.0',
    'pc-i440fx-9.2',
    'true',
  ])
  const owner = [
    '-o',
    'jsonpath={.metadata.labels.pool} {.metadata.ownerReferences[*].kind} {.metadata.ownerReferences[*].name}',
  ]
  expect(await kubectl(['get', 'nodeprofile', 'old', ...owner])).toBe('old Node old')
  expect(await kubectl(['explain', 'nodeprofile.spec.capabilities.machines.alias'])).toContain('alias of the newest')
})

test('a VM is completed for the common profile of all nodes, or of the nodes that it selects', async () => {
  expect(await completedFor(vm('anywhere'))).toBe('pc-i440fx-9.2')
  expect(await completedFor(vm('selecting', undefined, { nodeSelector: { pool: 'new' } }))).toBe('pc-i440fx-10.0')
})

test('a refusal names the node without a feature and the node that has it', async () => {
  expect(await refusalOf(vm('newest', 'pc-q35-10.0'))).toContain(
    'spec.domain.os.type.machine: Unsupported value: "pc-q35-10.0": node old does not have machine type pc-q35-10.0; node new has it',
  )
  expect(await refusalOf(vm('newest', 'pc-q35-10.0', { nodeSelector: { pool: 'new' } }))).toBe('created')
  expect(await refusalOf(vm('none', 'pc-q35-11.0'))).toContain('nodes new, old do not have machine type pc-q35-11.0')
})

test('a stored VM does not change', async () => {
  const before = await kubectl(['get', 'vm', 'before', '-o', 'jsonpath={.spec}'])
  await kubectl(['label', 'vm', 'before', 'a=b'])
  const applied = vm('before')
  await kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], applied)
  expect(await kubectl(['get', 'vm', 'before', '-o', 'jsonpath={.spec}'])).toBe(before)
})

test('a feature that a node loses no longer counts, nor does a node that is deleted', async () => {
  await kubectl(['label', 'node', 'old', 'pool=other', '--overwrite'])
  find('new', emulatedCapabilities)
  await until(async () => (await columns('new')).includes('false'), undefined, { deadlineMs: 120_000 })
  await until(
    async () =>
      (await attempt([
        api.kubectl,
        '--kubeconfig',
        api.kubeconfig,
        'get',
        'nodeprofile',
        '-l',
        'pool=other',
        '-o',
        'name',
      ])) === 'nodeprofile.virtset.io/old\n',
  )
  const kvm = vm('kvm', undefined, { nodeSelector: { pool: 'new' } })
  const refusal = await refusalOf({ ...kvm, spec: { ...kvm.spec, domain: { ...kvm.spec.domain, type: 'kvm' } } })
  expect(refusal).toContain('node new does not have KVM')
  // In a cluster, garbage collection deletes it.
  await kubectl(['delete', 'nodeprofile', 'old'])
  await until(() => known().length === 1)
  expect(await completedFor(vm('later'))).toBe('pc-i440fx-10.0')
})

test('a node that publishes an empty profile does not affect VMs for other nodes', async () => {
  const [machineType] = bundledCapabilities.machines
  const nothing = {
    ...bundledCapabilities,
    emulator: '/usr/bin/qemu-kvm',
    machines: machineType ? [{ ...machineType, name: 'none', maxCpus: 1 }] : [],
    devices: [],
    accelerators: {},
    firmware: [],
  }
  const pool = { pool: 'shared' }
  for (const name of ['honest-1', 'honest-2', 'liar']) {
    const metadata = { name, labels: { ...pool, 'kubernetes.io/hostname': name } }
    await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'Node', metadata })
    find(name, name === 'liar' ? nothing : bundledCapabilities)
    await publish(name)
  }
  const counted = () => webhooks.caches.capabilities().providedFor({ domain: {}, nodeSelector: pool })
  const namesOf = (groups: readonly NodeGroup[]) => groups.flatMap(({ nodes }) => nodes)
  await until(() => namesOf([...counted().groups, ...counted().outliers]).length === 3)
  expect([namesOf(counted().groups), namesOf(counted().outliers)]).toEqual([['honest-1', 'honest-2'], ['liar']])
  expect(await completedFor(vm('shared', undefined, { nodeSelector: pool }))).toBe('pc-i440fx-10.0')
  expect(await refusalOf(vm('new', 'pc-q35-10.0', { nodeSelector: pool }))).toBe('created')
  const selecting = { nodeSelector: { 'kubernetes.io/hostname': 'liar' } }
  expect(await refusalOf(vm('there', 'pc-q35-10.0', selecting))).toContain('node liar does not have machine type')
})

test('a profile has limits', async () => {
  const devices = Array.from({ length: 5000 }, (_, index) => `device-${index}`)
  const long = { ...bundledCapabilities, emulator: `/usr/${'a'.repeat(2000)}`, devices }
  const profile = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'NodeProfile',
    metadata: { name: 'long' },
    spec: { libvirtVersion: '11.3.0', kvm: true, taints: [], capabilities: long },
  }
  const refusal = await refusalOf(profile)
  expect(refusal).toContain('spec.capabilities.devices: Too many')
  expect(refusal).toContain('spec.capabilities.emulator: Too long')
})

test('the emulator of a profile is QEMU in the launcher image', async () => {
  const evil = { ...bundledCapabilities, emulator: '/usr/bin/perl' }
  const profile = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'NodeProfile',
    metadata: { name: 'evil' },
    spec: { libvirtVersion: '11.3.0', kvm: true, taints: [], capabilities: evil },
  }
  expect(await refusalOf(profile)).toContain('spec.capabilities.emulator: Invalid value')
})

test('a handler cannot publish the profile of another node', async () => {
  find('third', bundledCapabilities)
  const { lines } = await publish('third', 'other')
  await until(() => lines.some((line) => line.includes('only the profile of its own node')))
  expect(await kubectl(['get', 'nodeprofile', 'third', '--ignore-not-found'])).toBe('')
})
