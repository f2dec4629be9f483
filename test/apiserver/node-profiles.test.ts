import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Capabilities } from '../../api/capabilities.ts'
import { capabilitySetName, type NodeCapabilitySet } from '../../api/node-capability-set.ts'
import type { SessionEndpoint } from '../../api/session-endpoint.ts'
import { attempt, run } from '../../cluster/command.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { startCapabilitySetController } from '../../controller/capability-set-controller.ts'
import type { NodeGroup } from '../../completion/outliers.ts'
import { watchInventory } from '../../inventory/watched.ts'
import { publishProfile, type ProfilePublisher } from '../../handler/profile.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { nodeCapabilitySets, nodeProfiles } from '../../runtime/resource.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { fakeClock } from '../fake-clock.ts'
import { emulatedCapabilities, nodeProfile, olderCapabilities } from '../node-profile.ts'
import { until } from '../until.ts'
import { accountOf, kubectlAs } from './accounts.ts'
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

/** A client with the token of an account of virtset. */
async function clientOf(account: string, ...bound: string[]): Promise<KubeClient> {
  const token = (await kubectl(['create', 'token', '-n', 'virtset-system', account, ...bound])).trim()
  const kube = createKubeClient({
    access: {
      server: api.server,
      prove: () =>
        Promise.resolve({ tls: { ca: api.certificateAuthority }, headers: { authorization: `Bearer ${token}` } }),
    },
    userAgent: account,
  })
  stops.push(() => kube.close())
  return kube
}

/** A client like the handler's on this node: its token is bound to its pod and so to the node. */
async function handlerOf(node: string): Promise<KubeClient> {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `handler-${node}`, namespace: 'virtset-system' },
    spec: { nodeName: node, serviceAccountName: 'virtset-handler', containers: [{ name: 'c', image: 'i' }] },
  }
  await kubectl(['create', '-f', '-'], pod)
  return clientOf('virtset-handler', '--bound-object-kind', 'Pod', '--bound-object-name', `handler-${node}`)
}

const find = (node: string, capabilities: Capabilities) =>
  written.set(node, Buffer.from(JSON.stringify({ libvirtVersion: '11.3.0', capabilities })))

async function publish(
  node: string,
  as = node,
  kube?: KubeClient,
  sessionEndpoint?: SessionEndpoint,
): Promise<ProfilePublisher & { readonly lines: string[] }> {
  const lines: string[] = []
  const publisher = publishProfile({
    kube: kube ?? (await handlerOf(as)),
    nodeName: node,
    read: () => Promise.resolve(written.get(node)),
    ...(sessionEndpoint && { sessionEndpoint }),
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
  const manifests = ['handler/rbac.yaml', 'handler/policy.yaml', 'controller/rbac.yaml']
  await kubectl(['apply', ...manifests.flatMap((name) => ['-f', `manifests/${name}`])])
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
  // In a cluster, garbage collection deletes the profile. With its Node, the handler would publish it again in time.
  await kubectl(['delete', 'node', 'old'])
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

describe('the session endpoint', () => {
  const node = 'sessions'
  const portOf = (port: number): SessionEndpoint => ({ address: `10.0.0.1:${port}`, certificateSha256: `AA:${port}` })
  const read = async () =>
    JSON.parse(await kubectl(['get', 'nodeprofile', node, '--show-managed-fields', '-o', 'json']))

  test('is published by a handler whose file is missing, and removed by a later one without sessions', async () => {
    await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'Node', metadata: { name: node } })
    const kube = await handlerOf(node)
    const runHandler = async (endpoint: SessionEndpoint | undefined) => {
      const publisher = await publish(node, node, kube, endpoint)
      await until(async () => {
        const found = await kubectl(['get', 'nodeprofile', node, '--ignore-not-found', '-o', 'json'])
        return found !== '' && isDeepStrictEqual(JSON.parse(found).spec.sessionEndpoint, endpoint)
      })
      await publisher.stop()
      return read()
    }
    find(node, bundledCapabilities)
    const first = await runHandler(portOf(1))
    await kubectl(['label', 'nodeprofile', node, 'rack=a'])
    const { sessionEndpoint: _first, ...kept } = first.spec
    written.delete(node)
    for (const endpoint of [portOf(2), undefined, portOf(3)]) {
      const { metadata, spec } = await runHandler(endpoint)
      const { sessionEndpoint: _now, ...others } = spec
      expect(others).toEqual(kept)
      expect(metadata).toMatchObject({ uid: first.metadata.uid, labels: { rack: 'a' } })
    }
    find(node, bundledCapabilities)
    const { metadata, spec } = await runHandler(undefined)
    expect(spec).toEqual(kept)
    expect(metadata.labels).toEqual({ rack: 'a' })
    expect(
      metadata.managedFields.map((one: { manager: string; operation: string }) => [one.manager, one.operation]),
    ).toEqual([
      ['virtset-handler', 'Apply'],
      ['kubectl-label', 'Update'],
    ])
  })

  test('is never left by half, whoever has changed the other half', async () => {
    const apply = (sessionEndpoint?: SessionEndpoint) => {
      const { metadata, spec, ...rest } = nodeProfile(node)
      const body = { ...rest, metadata, spec: { ...spec, sessionEndpoint } }
      return webhooks.kube.patch(
        nodeProfiles,
        { name: node },
        { type: 'apply', body, fieldManager: 'virtset-handler', force: true },
      )
    }
    await apply(portOf(1))
    const { address } = portOf(2)
    await kubectl([
      'patch',
      'nodeprofile',
      node,
      '--type=merge',
      '-p',
      JSON.stringify({ spec: { sessionEndpoint: { address } } }),
    ])
    expect((await apply()).spec.sessionEndpoint).toEqual({ ...portOf(1), address })
    expect((await apply(portOf(3))).spec.sessionEndpoint).toEqual(portOf(3))
    await kubectl(['delete', 'nodeprofile', node])
  })
})

describe('a set of capabilities', () => {
  const older = olderCapabilities('10.0')
  const name = capabilitySetName(older)
  const pool = { pool: 'equal' }
  const selecting = { nodeSelector: pool }
  const nodes = ['equal-1', 'equal-2']
  const clock = fakeClock()
  const log = createLogger({ process: 'controller', level: 'silent' })
  const publishers: ProfilePublisher[] = []
  let controllerKube: KubeClient
  let handlers: readonly KubeClient[]

  const setOf = (capabilities: Capabilities, named = capabilitySetName(capabilities)): NodeCapabilitySet => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'NodeCapabilitySet',
    metadata: { name: named },
    spec: { capabilities },
  })
  // The nodes of other tests have a set of their own.
  const exists = async () => (await kubectl(['get', 'nodecapabilityset', name, '--ignore-not-found'])) !== ''
  const specs = async (): Promise<{ capabilities?: object; capabilitySetName?: string }[]> =>
    JSON.parse(await kubectl(['get', 'nodeprofiles', '-l', 'pool=equal', '-o', 'json'])).items.map(
      ({ spec }: { spec: object }) => spec,
    )
  /** As after a restart of the handlers: otherwise, they read the set after ten minutes. */
  const restart = async () => {
    for (const publisher of publishers.splice(0)) await publisher.stop()
    for (const [index, node] of nodes.entries()) publishers.push(await publish(node, node, handlers[index]))
  }
  const counted = () =>
    webhooks.caches
      .capabilities()
      .providedFor({ domain: {}, ...selecting })
      .groups.flatMap((group) => group.nodes)

  beforeAll(async () => {
    for (const node of nodes) {
      const metadata = { name: node, labels: { ...pool, 'kubernetes.io/hostname': node } }
      await kubectl(['create', '-f', '-'], { apiVersion: 'v1', kind: 'Node', metadata })
      find(node, older)
    }
    handlers = await Promise.all(nodes.map((node) => handlerOf(node)))
    controllerKube = await clientOf('virtset-controller')
    const inventory = watchInventory({ kube: controllerKube, log, clock: systemClock, findWithMac: () => undefined })
    const context = { kube: controllerKube, log, clock, events: { record: () => {} }, isLeader: () => true }
    const controller = startCapabilitySetController({ ...context, inventory, isSharing: true })
    stops.unshift(async () => {
      await controller.stop()
      await inventory.stop()
    })
    await controller.lead()
  })

  test('is created by the controller for equal nodes, and named by their profiles', async () => {
    await restart()
    await until(() => counted().length === 2)
    expect((await specs()).every((spec) => spec.capabilities !== undefined)).toBe(true)
    await until(exists, () => clock.advance(60_000), { deadlineMs: 60_000 })
    const columns = (await kubectl(['get', 'nodecap', name, '--no-headers'])).trim().split(/\s+/)
    expect(columns.slice(0, 3)).toEqual([name, '9.2.0', 'pc-i440fx-9.2'])
    await restart()
    await until(async () => (await specs()).every((spec) => spec.capabilitySetName === name))
    expect((await specs()).filter((spec) => spec.capabilities !== undefined)).toEqual([])
  })

  test('completes VMs like the profiles that had its capabilities', async () => {
    await until(() => counted().length === 2)
    expect(counted()).toEqual(nodes)
    expect(await completedFor(vm('sharing', undefined, selecting))).toBe('pc-i440fx-9.2')
    expect(await refusalOf(vm('sharing-newest', 'pc-q35-10.0', selecting))).toContain(
      'nodes equal-1, equal-2 do not have machine type pc-q35-10.0',
    )
  })

  test('can only be read by handlers, and by its name', async () => {
    const [kube] = handlers
    if (kube === undefined) throw new Error('no handler')
    expect((await kube.get(nodeCapabilitySets, { name })).spec.capabilities).toEqual(older)
    const retire = { type: 'merge', body: { spec: { retired: true } } } as const
    for (const refused of [
      () => kube.list(nodeCapabilitySets),
      () => kube.create(nodeCapabilitySets, setOf(emulatedCapabilities)),
      () => kube.patch(nodeCapabilitySets, { name }, retire),
      () => kube.delete(nodeCapabilitySets, { name }),
    ])
      await expect(refused()).rejects.toMatchObject({ status: { code: 403 } })
    expect(await exists()).toBe(true)
    // Nor with more permissions: the policy for handlers allows none of this.
    const create = [...kubectlAs(accountOf('handler')), 'create', '-f', '-']
    await expect(kubectl(create, setOf(emulatedCapabilities))).rejects.toThrow('a handler can write only')
  })

  test('cannot be changed, except that the controller retires it', async () => {
    const patch = (body: object) => controllerKube.patch(nodeCapabilitySets, { name }, { type: 'merge', body })
    await expect(patch({ spec: { capabilities: { version: '9.3.0' } } })).rejects.toThrow('cannot be changed')
    expect((await patch({ spec: { retired: true } })).spec.retired).toBe(true)
    await restart()
    await until(async () => (await specs()).every((spec) => spec.capabilitySetName === undefined))
    expect((await specs()).map((spec) => spec.capabilities)).toEqual([older, older])
    expect((await patch({ spec: { retired: false } })).spec.retired).toBe(false)
    await restart()
    await until(async () => (await specs()).every((spec) => spec.capabilitySetName === name))
  })

  test('does not count under another name than that of its content', async () => {
    const { spec } = nodeProfile('liar')
    const { capabilities: _inSet, ...own } = spec
    const metadata = { name: 'liar', labels: { pool: 'misnamed' } }
    await kubectl(['create', '-f', '-'], setOf(bundledCapabilities, 'misnamed'))
    const profile = { apiVersion: 'virtset.io/v1alpha1', kind: 'NodeProfile', metadata }
    await kubectl(['delete', 'nodeprofile', 'liar'])
    await kubectl(['create', '-f', '-'], { ...profile, spec: { ...own, capabilitySetName: 'misnamed' } })
    const place = { domain: {}, nodeSelector: { pool: 'misnamed' } }
    const known = () => webhooks.caches.capabilities().census().nodes
    const before = known()
    await kubectl(['create', '-f', '-'], {
      ...profile,
      metadata: { name: 'honest', labels: metadata.labels },
      spec: { ...own, capabilitySetName: name },
    })
    await until(() => known() === before + 1)
    expect(
      webhooks.caches
        .capabilities()
        .providedFor(place)
        .groups.flatMap((group) => group.nodes),
    ).toEqual(['honest'])
    await kubectl(['delete', 'nodeprofile', 'liar', 'honest'])
    await kubectl(['delete', 'nodecap', 'misnamed'])
  })

  test.each([
    ['both', { capabilities: older, capabilitySetName: name }],
    ['neither', {}],
  ])('a profile cannot have %s of capabilities and set', async (_, more) => {
    const spec = { libvirtVersion: '11.3.0', kvm: true, taints: [], ...more }
    const profile = { apiVersion: 'virtset.io/v1alpha1', kind: 'NodeProfile', metadata: { name: 'odd' }, spec }
    expect(await refusalOf(profile)).toContain('must validate one and only one schema (oneOf)')
  })

  test('makes the list of profiles much smaller', async () => {
    const listed = async () =>
      (await kubectl(['get', '--raw', '/apis/virtset.io/v1alpha1/nodeprofiles?labelSelector=of'])).length
    const publishAll = async (shares: boolean) => {
      for (let index = 0; index < 25; index++) {
        const node = `of-${index}`
        const { metadata, spec, ...rest } = nodeProfile(node, older, { labels: { of: 'many', ...pool } })
        const { capabilities: _inSet, ...own } = spec
        const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: node, uid: crypto.randomUUID() }]
        const body = {
          ...rest,
          metadata: { ...metadata, ownerReferences },
          spec: shares ? { ...own, capabilitySetName: name } : spec,
        }
        const apply = { type: 'apply', body, fieldManager: 'virtset-handler', force: true } as const
        await webhooks.kube.patch(nodeProfiles, { name: node }, apply)
      }
      return listed()
    }
    const [whole, sharing] = [await publishAll(false), await publishAll(true)]
    // 1.21 MB and 24 KB.
    expect([whole > 1_000_000, sharing < 37_500]).toEqual([true, true])
    await kubectl(['delete', 'nodeprofiles', '-l', 'of'])
  })

  test('is deleted by the controller when no profile has named it for an hour', async () => {
    for (const publisher of publishers.splice(0)) await publisher.stop()
    await kubectl(['delete', 'nodeprofiles', '-l', 'pool=equal'])
    await until(
      async () => !(await exists()),
      () => clock.advance(60_000),
    )
  })
})
