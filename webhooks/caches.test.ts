import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { until } from '../test/until.ts'
import { startCaches } from './caches.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
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
  const isTaken = () => caches.isMacTaken('52:54:00:00:00:0a', { namespace: 'shop', name: 'new' })
  const budget = () => {
    const { ranges, quotas } = caches.budget('shop')
    return [...ranges, ...quotas].map(({ metadata: { name } }) => name)
  }
  expect([isTaken(), budget(), caches.budget('other')]).toEqual([true, ['q'], { ranges: [], quotas: [] }])
  api.put('/apis/virtset.io/v1alpha1/virtualmachines', vm('a', '52:54:00:00:00:0B'))
  api.put('/api/v1/limitranges', { metadata: { name: 'r', namespace: 'shop' } })
  await until(() => !isTaken() && budget().length === 2)
})
