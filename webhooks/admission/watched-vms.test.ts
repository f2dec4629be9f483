import { expect, test } from 'vitest'
import { createStore } from '../../runtime/store.ts'
import { claimKey } from './claim-use.ts'
import { claimUserIn, pack, vmIndexers, type CachedVm } from './watched-vms.ts'

test('the cache has only the identity of a VM and its MAC addresses in canonical form', () => {
  const cached = pack({
    metadata: { name: 'vm', namespace: 'shop', labels: { app: 'web' }, uid: 'u', resourceVersion: '1' },
    spec: {
      domain: {
        type: 'kvm',
        devices: { interfaces: [{ type: 'user', mac: { address: '52:54:0:AA:BB:1' } }, { type: 'user' }] },
      },
    },
  })
  expect(cached).toEqual({
    metadata: { name: 'vm', namespace: 'shop', uid: 'u', resourceVersion: '1' },
    macs: ['52:54:00:aa:bb:01'],
  })
})

test('the cache has the MAC addresses of the first 16 interfaces only', () => {
  const addresses = Array.from({ length: 256 }, (_, index) => `52:54:00:00:00:${index.toString(16).padStart(2, '0')}`)
  const interfaces = addresses.map((address) => ({ type: 'user' as const, mac: { address } }))
  const metadata = { name: 'vm', namespace: 'shop', uid: 'u', resourceVersion: '1' }
  expect(pack({ metadata, spec: { domain: { devices: { interfaces } } } }).macs).toEqual(addresses.slice(0, 16))
})

test('the cache has the claims that a VM uses until it has ended', () => {
  const vm = {
    metadata: { name: 'vm', namespace: 'shop', uid: 'u', resourceVersion: '1' },
    spec: {
      domain: { devices: { disks: [{ type: 'volume' as const, source: { volume: 'v' }, target: { dev: 'vda' } }] } },
      volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }],
    },
  }
  expect(pack(vm).claimKeys).toEqual([claimKey('shop', { claim: 'c', isWriter: true, isShared: false })])
  expect(pack({ ...vm, status: { phase: 'Failed' } }).claimKeys).toBeUndefined()
})

test('the cache has the identity of a cluster-scoped object without spec', () => {
  const metadata = { name: 'vm', uid: 'u', resourceVersion: '1' }
  expect(Object.keys(pack({ metadata }).metadata)).toEqual(Object.keys(metadata))
  expect(pack({ metadata }).macs).toEqual([])
})

test('the user of a claim is found by its use, and is another VM', () => {
  const store = createStore<CachedVm, 'mac' | 'claim'>(vmIndexers)
  const use = { claim: 'c', isWriter: true, isShared: false }
  const put = (namespace: string, name: string, claims = [use]) =>
    store.put({
      metadata: { name, namespace, uid: `${namespace}/${name}`, resourceVersion: '1' },
      claimKeys: claims.map((one) => claimKey(namespace, one)),
    })
  put('shop', 'reader', [{ ...use, isWriter: false }])
  put('shop', 'elsewhere', [{ ...use, claim: 'd' }])
  put('other', 'writer')
  expect(claimUserIn(store, 'shop', use, 'vm')).toBeUndefined()
  put('shop', 'vm')
  expect([claimUserIn(store, 'shop', use, 'vm'), claimUserIn(store, 'shop', use, undefined)]).toEqual([undefined, 'vm'])
  put('shop', 'vm2')
  expect(claimUserIn(store, 'shop', use, 'vm')).toBe('vm2')
})
