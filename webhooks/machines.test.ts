import { expect, test } from 'vitest'
import { pack } from './machines.ts'

test('the cache keeps the identity of a VM and its MAC addresses in one spelling, and nothing else', () => {
  const kept = pack({
    metadata: { name: 'vm', namespace: 'shop', labels: { app: 'web' }, uid: 'u', resourceVersion: '1' },
    spec: {
      domain: {
        type: 'kvm',
        devices: { interfaces: [{ type: 'user', mac: { address: '52:54:0:AA:BB:1' } }, { type: 'user' }] },
      },
    },
  })
  expect(kept).toEqual({
    metadata: { name: 'vm', namespace: 'shop', uid: 'u', resourceVersion: '1' },
    macs: ['52:54:00:aa:bb:01'],
  })
})
