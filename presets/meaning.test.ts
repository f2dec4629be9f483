import { describe, expect, test } from 'vitest'
import { virtualMachineStructure } from './structure.ts'
import type { Structure } from './structure.ts'

/** The meaning of a value at a path of a VM. */
function meaningAt(path: string, value: unknown): string {
  let at: Structure | undefined = virtualMachineStructure()
  for (const key of path.split('.')) {
    if (at?.kind === 'list') at = at.item
    at = at?.kind === 'object' ? at.field(key) : undefined
  }
  if (at?.kind !== 'leaf') throw new Error(`no leaf: ${path}`)
  return at.meaning(value)
}

describe('have equal meanings', () => {
  test.each<[string, unknown, unknown]>([
    ['spec.domain.memory', { unit: 'GiB', value: 1 }, { unit: 'MiB', value: '1024' }],
    ['spec.domain.memory', { value: 1024 }, { unit: 'K', value: 1024 }],
    ['spec.domain.devices.controllers.address.slot', '0x10', 16],
    ['spec.domain.devices.controllers.address.slot', '0x0A', '10'],
    ['spec.domain.clock.timers.present', 'yes', true],
    ['spec.domain.features.apic.eoi', 'off', false],
    ['spec.domain.devices.interfaces.mac.address', '52:54:0:AA:BB:C', '52:54:00:aa:bb:0c'],
    ['spec.domain.uuid', '8D2B0B4C-6C6F-4C3C-9F5A-3A1F0C2B7E11', '8d2b0b4c6c6f4c3c9f5a3a1f0c2b7e11'],
    ['spec.domain.vcpu.cpuset', '0,1,2,5', '5,0-2'],
    ['spec.volumes.emptyDisk.capacity', '1Gi', '1024Mi'],
    ['spec.volumes.emptyDisk.capacity', '1.5G', '1500M'],
    ['spec.tolerations', { key: 'a', operator: 'Exists' }, { operator: 'Exists', key: 'a' }],
  ])('%s: %j and %j', (path, left, right) => {
    const isList = path === 'spec.tolerations'
    const meaning = (value: unknown) => (isList ? itemMeaning(value) : meaningAt(path, value))
    expect(meaning(left)).toBe(meaning(right))
  })

  test.each<[string, unknown, unknown]>([
    ['spec.domain.memory', { unit: 'GiB', value: 1 }, { unit: 'GB', value: 1 }],
    ['spec.domain.memory', { unit: 'GiB', value: 1 }, { value: 1 }],
    ['spec.domain.devices.controllers.address.slot', '10', '0x10'],
    ['spec.domain.title', '16', '0x10'],
    ['spec.domain.title', 'yes', 'true'],
    ['spec.domain.title', '', ' '],
    ['spec.volumes.emptyDisk.capacity', '1G', '1Gi'],
    ['spec.priorityClassName', 'A', 'a'],
  ])('but not %s: %j and %j', (path, left, right) => {
    expect(meaningAt(path, left)).not.toBe(meaningAt(path, right))
  })
})

function itemMeaning(value: unknown): string {
  const spec = virtualMachineStructure().field('spec')
  const list = spec?.kind === 'object' ? spec.field('tolerations') : undefined
  if (list?.kind !== 'list' || list.item.kind !== 'leaf') throw new Error('tolerations are compared whole')
  return list.item.meaning(value)
}
