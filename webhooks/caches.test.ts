import { afterEach, expect, test } from 'vitest'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { nodeProfile } from '../test/node-profile.ts'
import { until } from '../test/until.ts'
import { startCaches } from './caches.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

test('presets and namespaces follow the API server; a broken preset is set apart until it is mended', async () => {
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
  const caches = startCaches(kube, createLogger({ process: 'test', level: 'silent' }), systemClock)
  closing.push(() => caches.stop())
  await until(() => caches.unready().length === 0)
  expect([caches.namespace('shop'), caches.namespace('new')]).toEqual([
    { name: 'shop', labels: { team: 'a' } },
    { name: 'new', labels: { 'kubernetes.io/metadata.name': 'new' } },
  ])
  const selected = () =>
    caches.candidates
      .select({}, caches.namespace('shop'))
      .map(({ id }) => id)
      .toSorted()
  expect(selected()).toEqual(['shop/one'])

  api.put('/apis/virtset.io/v1alpha1/clustervirtualmachinepresets', {
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: 'site' },
    spec: { selector: {} },
  })
  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', preset('one', { selector: 7 }))
  await until(() => caches.quarantined.has('shop/one') && caches.candidates.get('site') !== undefined)
  expect(selected()).toEqual(['site'])

  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', preset('one', { selector: {} }))
  await until(() => !caches.quarantined.has('shop/one'))
  expect(selected()).toEqual(['shop/one', 'site'])
})

test('VMs, quotas and limits follow the API server, and nothing is answered before they are known', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const vm = (name: string, address: string) => ({
    metadata: { name, namespace: 'shop' },
    spec: { domain: { devices: { interfaces: [{ type: 'user', mac: { address } }] } } },
  })
  api.put('/apis/virtset.io/v1alpha1/virtualmachines', vm('a', '52:54:00:00:00:0A'))
  api.put('/api/v1/resourcequotas', { metadata: { name: 'q', namespace: 'shop' } })
  const caches = startCaches(kube, createLogger({ process: 'test', level: 'silent' }), systemClock)
  closing.push(() => caches.stop())
  expect(caches.unready()).toEqual(
    expect.arrayContaining(
      ['virtualmachines', 'limitranges', 'resourcequotas'].map((kind) => `the cache of ${kind} is not filled yet`),
    ),
  )
  await until(() => caches.unready().length === 0)
  const holders = () => caches.machines.withMac('52:54:00:00:00:0a').map(({ metadata: { name } }) => name)
  const budget = () => {
    const { ranges, quotas } = caches.budget('shop')
    return [...ranges, ...quotas].map(({ metadata: { name } }) => name)
  }
  expect([holders(), budget(), caches.budget('other')]).toEqual([['a'], ['q'], { ranges: [], quotas: [] }])
  api.put('/apis/virtset.io/v1alpha1/virtualmachines', vm('a', '52:54:00:00:00:0B'))
  api.put('/api/v1/limitranges', { metadata: { name: 'r', namespace: 'shop' } })
  await until(() => holders().length === 0 && budget().length === 2)
})

test('what nodes can do follows what they publish, and is put together once', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const publish = (node: string) => {
    const { kind, spec } = nodeProfile(node)
    api.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: node }, spec })
  }
  publish('one')
  const caches = startCaches(kube, createLogger({ process: 'test', level: 'silent' }), systemClock)
  closing.push(() => caches.stop())
  await until(() => caches.unready().length === 0)
  const nodes = () => caches.capabilities().providedFor({ domain: {} }).groups
  expect(nodes()).toEqual([{ nodes: ['one'], capabilities: bundledCapabilities }])
  expect(caches.capabilities()).toBe(caches.capabilities())
  publish('two')
  await until(() => nodes()[0]?.nodes.length === 2)
  expect(nodes()).toEqual([{ nodes: ['one', 'two'], capabilities: bundledCapabilities }])
})
