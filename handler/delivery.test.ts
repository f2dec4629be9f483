import { expect, test } from 'vitest'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createDelivery } from './delivery.ts'

const collection = '/apis/virtset.io/v1alpha1/virtualmachines'
const versionAfter = (version: string) => String(BigInt(version) + 1n)

test('a write is delivered once the cache has its version, a newer one, or the object no more; or after ten seconds', async () => {
  const api = await startFakeApiServer()
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  const log = createLogger({ process: 'test', level: 'silent' })
  const vm = (name: string) =>
    api.put(collection, {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name, namespace: 'default', uid: name },
      spec: { domain: {} },
    })
  for (const name of ['vm', 'gone', 'lost']) vm(name)
  const vms = startReflector({ kube, resource: virtualMachines, log })
  await vms.synced()
  const clock = fakeClock()
  const whenDelivered = createDelivery(vms, clock)
  const delivered: string[] = []
  const wait = (name: string, versionOf: (cached: string) => string) => {
    const cached = vms.store.get(`default/${name}`)!
    const metadata = { ...cached.metadata, resourceVersion: versionOf(cached.metadata.resourceVersion) }
    whenDelivered({ ...cached, metadata }, () => delivered.push(name))
  }
  wait('vm', (cached) => cached)
  expect(delivered).toEqual(['vm'])
  for (const name of ['gone', 'lost']) wait(name, (cached) => String(BigInt(cached) + 1000n))
  wait('vm', versionAfter)
  vm('vm')
  await until(() => delivered.length === 2)
  api.remove(collection, 'default', 'gone')
  await until(() => delivered.length === 3)
  await clock.advance(9999)
  expect(delivered).toEqual(['vm', 'vm', 'gone'])
  await clock.advance(1)
  expect(delivered).toEqual(['vm', 'vm', 'gone', 'lost'])
  await vms.stop()
  await kube.close()
  await api.close()
})
