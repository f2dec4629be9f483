import { afterEach, expect, test } from 'vitest'
import type { Capabilities } from '../api/capabilities.ts'
import { capabilitySetName } from '../api/node-capability-set.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { nodeProfile } from '../test/node-profile.ts'
import { until } from '../test/until.ts'
import { watchInventory } from './watched.ts'

const log = createLogger({ process: 'test', level: 'silent' })
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

test('presets and namespaces follow the API server; a broken preset is quarantined until it is fixed', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const preset = (name: string, spec: object) => ({
    kind: 'VirtualMachinePreset',
    metadata: { name, namespace: 'shop' },
    spec,
  })
  api.put('/api/v1/namespaces', { metadata: { name: 'shop', labels: { team: 'a' } } })
  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', preset('one', { selector: {} }))
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  expect([inventory.namespace('shop'), inventory.namespace('new')]).toEqual([
    { name: 'shop', labels: { team: 'a' } },
    { name: 'new', labels: { 'kubernetes.io/metadata.name': 'new' } },
  ])
  const selected = () =>
    inventory.candidates
      .select({}, inventory.namespace('shop'))
      .map(({ id }) => id)
      .toSorted()
  expect(selected()).toEqual(['shop/one'])

  api.put('/apis/virtset.io/v1alpha1/clustervirtualmachinepresets', {
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: 'site' },
    spec: { selector: {} },
  })
  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', preset('one', { selector: 7 }))
  await until(() => inventory.quarantined.has('shop/one') && inventory.candidates.get('site') !== undefined)
  expect(selected()).toEqual(['site'])

  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', preset('one', { selector: {} }))
  await until(() => !inventory.quarantined.has('shop/one'))
  expect(selected()).toEqual(['shop/one', 'site'])
})

test('what was quarantined because of other presets of its namespace applies once these are smaller', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const put = (name: string, bytes: number) =>
    api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', {
      kind: 'VirtualMachinePreset',
      metadata: { name, namespace: 'shop' },
      spec: { selector: {}, metadata: { annotations: { a: 'x'.repeat(bytes) } } },
    })
  const names = Array.from({ length: 35 }, (_, index) => `p${10 + index}`)
  for (const name of names) put(name, 60_000)
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  expect([...inventory.quarantined.keys()]).toEqual(['shop/p44'])
  const changed: string[] = []
  inventory.onPresetChange((id) => changed.push(id))
  changed.length = 0
  put('p10', 1000)
  await until(() => inventory.quarantined.size === 0)
  expect([inventory.candidates.get('shop/p44')?.name, changed.toSorted()]).toEqual(['p44', ['shop/p10', 'shop/p44']])
})

test('compiles a preset again when its spec changes, not when its status does', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const put = (generation: number, matched: number) =>
    api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', {
      kind: 'VirtualMachinePreset',
      metadata: { name: 'one', namespace: 'shop', generation },
      spec: { selector: {}, priority: generation },
      status: { matched },
    })
  put(1, 0)
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const compiled = inventory.candidates.get('shop/one')
  put(1, 1)
  await until(() => inventory.preset('shop/one')?.status?.matched === 1)
  expect(inventory.candidates.get('shop/one')).toBe(compiled)
  put(2, 1)
  await until(() => inventory.candidates.get('shop/one') !== compiled)
})

test('caches only the metadata of presets that is used', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const written = {
    name: 'one',
    namespace: 'shop',
    labels: { a: 'b' },
    annotations: { large: 'x'.repeat(1000) },
    finalizers: ['example.org/x'],
    ownerReferences: [],
  }
  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', {
    kind: 'VirtualMachinePreset',
    metadata: written,
    spec: { selector: {} },
  })
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const keys = Object.keys(inventory.preset('shop/one')?.metadata ?? {})
  expect(keys.filter((key) => Object.hasOwn(written, key)).toSorted()).toEqual(['name', 'namespace'])
  expect(inventory.candidates.get('shop/one')?.name).toBe('one')
})

test('capabilities follow the profiles that nodes publish, and are combined once', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const publish = (node: string, more: object = {}) => {
    const { kind, spec } = nodeProfile(node)
    api.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: node }, spec: { ...spec, ...more } })
  }
  publish('one')
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const nodes = () => inventory.capabilities().providedFor({ domain: {} }).groups
  expect(nodes()).toEqual([{ nodes: ['one'], capabilities: bundledCapabilities }])
  expect(inventory.capabilities()).toBe(inventory.capabilities())
  publish('two')
  await until(() => nodes()[0]?.nodes.length === 2)
  expect(nodes()).toEqual([{ nodes: ['one', 'two'], capabilities: bundledCapabilities }])

  // Each change that counts makes the controller check all VMs that wait.
  let changes = 0
  inventory.onChange(() => changes++)
  for (let index = 0; index < 50; index++) publish('hostile', { libvirtVersion: `11.3.${index}` })
  publish('three')
  await until(() => nodes()[0]?.nodes.includes('three'))
  expect(nodes()[0]?.nodes).toEqual(['hostile', 'one', 'three', 'two'])
  expect(changes).toBe(11)
})

test.each([
  ['a profile before the set that it names', ['two', 'set']],
  ['a set before the profile that names it', ['set', 'two']],
])('a profile that names a set counts once both are known: %s', async (_, order) => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const name = capabilitySetName(bundledCapabilities)
  const sets = '/apis/virtset.io/v1alpha1/nodecapabilitysets'
  const publish = (node: string, capabilitySetName: string) => {
    const { kind, spec } = nodeProfile(node)
    const { capabilities: _own, ...rest } = spec
    const sharing = { ...rest, capabilitySetName }
    api.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: node }, spec: sharing })
  }
  const putSet = (named: string, more = {}) => {
    const spec = { capabilities: structuredClone(bundledCapabilities), ...more }
    api.put(sets, { kind: 'NodeCapabilitySet', metadata: { name: named }, spec })
  }
  const { kind, spec } = nodeProfile('one')
  api.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: 'one' }, spec })
  // Of another name than that of its content.
  putSet('other')
  publish('lost', 'other')
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const nodes = () => inventory.capabilities().providedFor({ domain: {} }).groups
  const alone = [{ nodes: ['one'], capabilities: bundledCapabilities }]
  expect(nodes()).toEqual(alone)
  for (const what of order) {
    expect(nodes()).toEqual(alone)
    if (what === 'set') putSet(name)
    else publish('two', name)
    await until(() => (what === 'set' ? inventory.capabilitySets().length : inventory.profiles().length - 1) === 2)
  }
  await until(() => nodes()[0]?.nodes.length === 2)
  expect(nodes()).toEqual([{ nodes: ['one', 'two'], capabilities: bundledCapabilities }])

  // Neither a set that is retired nor a profile that names it with its own content changes a VM.
  let changes = 0
  inventory.onChange(() => changes++)
  putSet(name, { retired: true })
  publish('one', name)
  publish('three', name)
  await until(() => nodes()[0]?.nodes.length === 3)
  expect(changes).toBe(1)

  // Without the set, their nodes count like nodes without a profile.
  api.remove(sets, undefined, name)
  await until(() => nodes().length === 0)
  expect(changes).toBe(2)
  expect(inventory.capabilities().census().nodes).toBe(0)
})

test('a stored profile that is invalid is ignored, whatever its size', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const publish = (node: string, capabilities: Capabilities) => {
    const { kind, spec } = nodeProfile(node, capabilities)
    api.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: node }, spec })
  }
  const { machines } = bundledCapabilities
  publish('honest', bundledCapabilities)
  publish('lying', { ...bundledCapabilities, machines: Array.from({ length: 8 }, () => machines).flat() })
  const [machine, ...others] = machines
  if (machine === undefined) throw new Error('no machine type')
  publish('wordy', { ...bundledCapabilities, machines: [{ ...machine, name: 'x'.repeat(65) }, ...others] })
  publish('ambiguous', { ...bundledCapabilities, machines: [{ ...machine, alias: 'q35' }, ...others] })
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const { groups, capabilities } = inventory.capabilities().providedFor({ domain: {} })
  expect(groups.map(({ nodes }) => nodes)).toEqual([['honest']])
  expect(capabilities).toEqual(bundledCapabilities)
})

test('a profile that is being deleted does not count, whatever finalizer keeps it', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const sessionEndpoint = { address: '10.0.0.1:8444', certificateSha256: 'AA' }
  const publish = (more: object = {}) => {
    const { kind, spec } = nodeProfile('one')
    const metadata = { name: 'one', finalizers: ['example.org/x'], ...more }
    api.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata, spec: { ...spec, sessionEndpoint } })
  }
  publish()
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const counted = () => [
    inventory.capabilities().census().nodes,
    inventory.profiles().length,
    inventory.sessionEndpoint('one'),
  ]
  expect(counted()).toEqual([1, 1, sessionEndpoint])
  publish({ deletionTimestamp: '2026-01-01T00:00:00Z' })
  await until(() => inventory.capabilities().census().nodes === 0)
  expect(counted()).toEqual([0, 0, undefined])
})

test('reports which namespace a change concerns, and no change that completion does not read', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const inventory = watchInventory({ kube, log, clock: systemClock, findWithMac: () => undefined })
  closing.push(() => inventory.stop())
  await inventory.synced()
  const reported: (string | undefined)[] = []
  inventory.onChange((namespace) => reported.push(namespace))
  const label = (labels: Record<string, string>, annotations: Record<string, string> = {}) =>
    api.put('/api/v1/namespaces', { metadata: { name: 'shop', uid: 'n', labels, annotations } })
  label({ a: '1' })
  label({ a: '1' }, { note: 'x' })
  label({ a: '2' })
  await until(() => inventory.namespace('shop').labels['a'] === '2')
  expect(reported).toEqual(['shop', 'shop'])
  const spec = { selector: {} }
  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', { metadata: { name: 'one', namespace: 'shop' }, spec })
  api.put('/apis/virtset.io/v1alpha1/clustervirtualmachinepresets', { metadata: { name: 'two' }, spec })
  await until(() => inventory.presets().length === 2)
  expect(new Set(reported.slice(2))).toEqual(new Set(['shop', undefined]))
})
