import { afterEach, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../runtime/clock.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { startFakeApiServer } from '../../test/fake-apiserver.ts'
import { until } from '../../test/until.ts'
import { startCaches } from './caches.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

test('VMs, quotas and limit ranges follow the API server, and the webhooks are ready once they are cached', async () => {
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
  /** A pending preset is never given up. */
  const clock: Clock = { ...systemClock, after: (ms, call) => (ms === 300 ? () => {} : systemClock.after(ms, call)) }
  const caches = startCaches(kube, createLogger({ process: 'test', level: 'silent' }), clock)
  expect(caches.unready()).toEqual(
    expect.arrayContaining(
      ['virtualmachines', 'virtualmachinepresets', 'limitranges', 'resourcequotas'].map(
        (kind) => `the cache of ${kind} has not synced yet`,
      ),
    ),
  )
  closing.push(() => caches.stop())
  await until(() => caches.unready().length === 0)
  const isTaken = () => caches.isMacTaken('52:54:00:00:00:0a', { namespace: 'shop', name: 'new' })
  const quota = () => {
    const { ranges, quotas } = caches.quota('shop')
    return [...ranges, ...quotas].map(({ metadata: { name } }) => name)
  }
  expect([isTaken(), quota(), caches.quota('other')]).toEqual([true, ['q'], { ranges: [], quotas: [] }])
  api.put('/apis/virtset.io/v1alpha1/virtualmachines', vm('a', '52:54:00:00:00:0B'))
  api.put('/api/v1/limitranges', { metadata: { name: 'r', namespace: 'shop' } })
  await until(() => !isTaken() && quota().length === 2)
  caches.pendingPresets.expect('shop/p', 0)
  expect(caches.pendingPresets.wait('shop')).toBeInstanceOf(Promise)
  api.put('/apis/virtset.io/v1alpha1/virtualmachinepresets', {
    metadata: { name: 'p', namespace: 'shop' },
    spec: { selector: {} },
  })
  await until(() => caches.pendingPresets.wait('shop') === undefined)
})

test('a preset that was admitted counts until it is stored, also when one of its name is changed or deleted', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const caches = startCaches(kube, createLogger({ process: 'test', level: 'silent' }), systemClock)
  closing.push(() => caches.stop())
  await until(() => caches.unready().length === 0)
  const path = '/apis/virtset.io/v1alpha1/virtualmachinepresets'
  const { candidates, pendingPresets } = caches
  const sizeOf = (name: string) => candidates.get(`shop/${name}`)?.size
  const put = (name: string, value: string) => {
    const spec = { selector: { matchLabels: { a: 'b' } }, mode: 'Audit', metadata: { annotations: { value } } }
    api.put(path, {
      kind: 'VirtualMachinePreset',
      metadata: { name, namespace: 'shop', generation: value.length },
      spec,
    })
  }
  put('p', 'x')
  await until(() => sizeOf('p') !== undefined)
  // Its creation lasts.
  pendingPresets.expect('shop/p', 20_000)
  put('p', 'x'.repeat(2000))
  await until(() => (sizeOf('p') ?? 0) > 2000)
  api.remove(path, 'shop', 'p')
  await until(() => sizeOf('p') === undefined)
  expect(pendingPresets.sizes('shop')).toEqual(new Map([['shop/p', 20_000]]))
  put('p', 'x'.repeat(20_000))
  await until(() => sizeOf('p') !== undefined)
  expect(pendingPresets.sizes('shop')).toEqual(new Map())
})

test('of a namespace, sixteen quotas and ranges have their limits cached, until one of them is gone', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  const metadata = (index: number) => ({ name: `l${String(index).padStart(2, '0')}`, namespace: 'shop' })
  for (let index = 0; index < 20; index++) {
    api.put('/api/v1/resourcequotas', { metadata: metadata(index), spec: { hard: { pods: '1' } } })
    api.put('/api/v1/limitranges', { metadata: metadata(index), spec: { limits: [] } })
  }
  api.put('/api/v1/resourcequotas', { metadata: { name: 'q', namespace: 'other' } })
  const caches = startCaches(kube, createLogger({ process: 'test', level: 'silent' }), systemClock)
  closing.push(() => caches.stop())
  await until(() => caches.unready().length === 0)
  const names = (of: 'quotas' | 'ranges') => caches.quota('shop')[of].map((one) => one.metadata.name)
  const first = Array.from({ length: 16 }, (_, index) => metadata(index).name)
  expect([names('quotas'), names('ranges'), caches.quota('other').quotas.length]).toEqual([first, first, 1])
  api.remove('/api/v1/resourcequotas', 'shop', 'l03')
  await until(() => names('quotas').length === 15)
  api.put('/api/v1/resourcequotas', { metadata: metadata(18), spec: { hard: { pods: '2' } } })
  await until(() => names('quotas').includes('l18'))
  expect([names('quotas').length, names('ranges').length]).toEqual([16, 16])
})

test('a namespace that the watch has not reported is read with its labels', async () => {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  /** The watch reports no namespace; a read of one has a field selector. */
  const deaf: typeof kube = {
    ...kube,
    list: async (of, options) => {
      const list = await kube.list(of, options)
      return of.plural === 'namespaces' && options?.fieldSelector === undefined ? { ...list, items: [] } : list
    },
    watch: (of, options) =>
      kube.watch(of, of.plural === 'namespaces' ? { ...options, fieldSelector: 'metadata.name=x' } : options),
  }
  api.put('/api/v1/namespaces', { metadata: { name: 'shop', labels: { team: 'a' } } })
  const caches = startCaches(deaf, createLogger({ process: 'test', level: 'silent' }), systemClock)
  closing.push(() => caches.stop())
  await until(() => caches.unready().length === 0)
  await caches.newNamespaces.wait('shop')
  expect(caches.namespace('shop')).toEqual({ name: 'shop', labels: { team: 'a' } })
})
