import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { vcpuCount, vcpuPlacement } from './vcpu.ts'

test.each<[string, Domain, Domain]>([
  ['one is the default', {}, { vcpu: { value: 1, placement: 'static' } }],
  [
    'but not if another setting of them is there',
    { vcpu: { current: 1 } },
    { vcpu: { current: 1, placement: 'static' } },
  ],
  [
    'they follow memory placed by numad',
    { vcpu: { value: 2 }, numatune: { memory: { placement: 'auto' } } },
    { vcpu: { value: 2, placement: 'auto' } },
  ],
  [
    'but not if CPUs are set',
    { vcpu: { value: 2, cpuset: '0' }, numatune: { memory: { placement: 'auto' } } },
    { vcpu: { value: 2, cpuset: '0', placement: 'static' } },
  ],
  [
    'or a thread is pinned',
    { vcpu: { value: 2 }, numatune: { memory: { placement: 'auto' } }, cputune: { emulatorpin: { cpuset: '1' } } },
    { vcpu: { value: 2, placement: 'static' } },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([vcpuCount, vcpuPlacement], domain)).toEqual({ ...domain, ...expected })
})
