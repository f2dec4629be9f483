import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, i440fx, q35 } from '../../test/applied.ts'
import { interruptRemapping, largeIommu, splitIoapic } from './iommu.ts'

test.each<[string, Domain, Domain]>([
  ['a small machine has none', { os: q35, vcpu: { value: 255 } }, {}],
  [
    'a large one remaps interrupts, with QEMU’s I/O APIC',
    { os: q35, vcpu: { value: 256 } },
    {
      devices: { iommu: { model: 'intel', driver: { intremap: true, eim: true } } },
      features: { ioapic: { driver: 'qemu' } },
    },
  ],
  ['an i440fx has none', { os: i440fx, vcpu: { value: 256 } }, {}],
  [
    'an existing I/O APIC remains',
    { devices: { iommu: { driver: { intremap: 'on' } } }, features: { ioapic: { driver: 'kvm' } } } as object,
    {},
  ],
])('%s', (_, domain, expected) => {
  expect(applied([largeIommu, interruptRemapping, splitIoapic], domain)).toEqual({ ...domain, ...expected })
})
