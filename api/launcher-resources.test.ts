import { expect, it } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { launcherResources } from './launcher-resources.ts'

const small: Domain = { memory: { unit: 'MiB', value: 64 } }
const emulated = `${(64 + 90 + 64) * 2 ** 20 + 2 * 2 ** 20 + 2 ** 14 + 2 ** 17 + (32 + 4) * 2 ** 20}`
const withKvm = `${(64 + 90 + 64) * 2 ** 20 + 2 * 2 ** 20 + 2 ** 14 + 3 * 2 ** 17}`

it.each<[string, Domain, ReturnType<typeof launcherResources>]>([
  ['emulated', { type: 'qemu' }, { requests: { cpu: '100m', memory: emulated }, limits: { memory: emulated } }],
  [
    'with KVM',
    { type: 'kvm' },
    {
      requests: { cpu: '100m', memory: withKvm, 'devices.virtset.io/kvm': '1' },
      limits: { memory: withKvm, 'devices.virtset.io/kvm': '1' },
    },
  ],
])('the pod of a VM %s requests what it may use, and limits its memory', (_, over, resources) => {
  expect(launcherResources({ ...small, ...over })).toEqual(resources)
})

it('requests a tenth of a CPU for each virtual CPU', () => {
  expect(launcherResources({ ...small, vcpu: { value: 4 } }).requests['cpu']).toBe('400m')
})
