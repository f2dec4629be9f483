import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { currentMemory, currentMemoryUnit, memory, memoryUnit } from './memory.ts'
import { hotplugCell, numaCellId, numaCpus, numaDistance } from './numa.ts'
import { numatuneMemory, numatuneMode } from './numatune.ts'

const rules = [memoryUnit, currentMemoryUnit, memory, currentMemory]
const cells = (...list: object[]): Domain => ({ cpu: { numa: { cells: list } } })

describe('memory', () => {
  test.each<[string, Domain, Domain]>([
    [
      'in MiB remains in MiB; the balloon is in KiB',
      { memory: { unit: 'MiB', value: 512 } },
      { memory: { unit: 'MiB', value: 512 }, currentMemory: { unit: 'KiB', value: 524288 } },
    ],
    [
      'as a bare number is in KiB',
      { memory: { value: '1000' } },
      { memory: { unit: 'KiB', value: '1000' }, currentMemory: { unit: 'KiB', value: 1000 } },
    ],
    [
      'of the balloon remains',
      { memory: { unit: 'KiB', value: 1000 }, currentMemory: { value: 500 } },
      { memory: { unit: 'KiB', value: 1000 }, currentMemory: { unit: 'KiB', value: 500 } },
    ],
    [
      'is the sum of the cells and the devices',
      {
        ...cells({ memory: 1, unit: 'MiB' }, { memory: 1024 }),
        devices: { memories: [{ target: { size: { unit: 'MiB', value: 2 } } }] },
      },
      {
        ...cells({ memory: 1, unit: 'MiB' }, { memory: 1024 }),
        devices: { memories: [{ target: { size: { unit: 'MiB', value: 2 } } }] },
        memory: { unit: 'KiB', value: 4096 },
        currentMemory: { unit: 'KiB', value: 4096 },
      },
    ],
    ['is not added if there is none', {}, {}],
  ])('%s', (_, domain, expected) => expect(applied(rules, domain)).toEqual(expected))
})

describe('a VM with maxMemory', () => {
  const domain: Domain = {
    memory: { unit: 'KiB', value: 1_000_000 },
    maxMemory: { slots: 2, unit: 'GiB', value: 4 },
    vcpu: { value: 4 },
    devices: {
      memories: [
        { model: 'dimm', target: { size: { unit: 'KiB', value: 100_000 } } },
        { model: 'virtio-pmem', target: { size: { unit: 'KiB', value: 200_000 } } },
      ],
    },
  }

  test('gets a node with the other memory, which its modules are on', () => {
    expect(applied([hotplugCell], domain)).toEqual({
      ...domain,
      cpu: { numa: { cells: [{ id: 0, cpus: '0-3', memory: 700_000, unit: 'KiB' }] } },
      devices: {
        memories: [
          { model: 'dimm', target: { size: { unit: 'KiB', value: 100_000 }, node: 0 } },
          { model: 'virtio-pmem', target: { size: { unit: 'KiB', value: 200_000 } } },
        ],
      },
    })
  })

  test.each<[string, Domain, boolean]>([
    ['is stored', domain, false],
    ['has nodes', { ...domain, ...cells({ memory: 1_000_000 }) }, true],
    ['has less memory than its devices', { ...domain, memory: { unit: 'KiB', value: 5 } }, true],
    ['has no maxMemory', { memory: { unit: 'KiB', value: 5 } }, true],
  ])('gets no node if it %s', (_, given, isNew) => expect(applied([hotplugCell], given, { isNew })).toEqual(given))
})

describe('NUMA nodes', () => {
  test('are numbered, and their memory is in KiB', () => {
    expect(applied([numaCellId], cells({ memory: 1 }, { id: 5, unit: 'MiB', memory: 1 }, {}))).toEqual(
      cells({ id: 0, unit: 'KiB', memory: 1 }, { id: 5, unit: 'MiB', memory: 1 }, { id: 2 }),
    )
  })

  test('the first gets the CPUs that no other lists, unless it lists some', () => {
    const vcpu = { value: 4 }
    expect(applied([numaCpus], { vcpu, ...cells({}, { cpus: '2' }) }).cpu).toEqual(
      cells({ cpus: '0-1,3' }, { cpus: '2' }).cpu,
    )
    expect(applied([numaCpus], { vcpu, ...cells({ cpus: '0' }, {}) }).cpu).toEqual(cells({ cpus: '0' }, {}).cpu)
    expect(applied([numaCpus], { vcpu, ...cells({}, { cpus: '0-3' }) }).cpu).toEqual(cells({}, { cpus: '0-3' }).cpu)
  })

  test('are the same in both directions if only one is set; if none is, none is added', () => {
    const near = { siblings: [{ id: 1, value: 30 }] }
    const [first, second, third] =
      applied([numaDistance], cells({ id: 0, distances: near }, { id: 1 }, { id: 2 })).cpu?.numa?.cells ?? []
    expect(first?.distances?.siblings).toEqual([
      { id: 1, value: 30 },
      { id: 0, value: 10 },
    ])
    expect(second?.distances?.siblings).toEqual([
      { id: 0, value: 30 },
      { id: 1, value: 10 },
    ])
    expect(third).toEqual({ id: 2 })
    expect(applied([numaDistance], cells({ id: 0 }, { id: 1 }))).toEqual(cells({ id: 0 }, { id: 1 }))
  })
})

describe('the placement of memory', () => {
  test.each<[string, Domain, Domain['numatune']]>([
    [
      'follows virtual CPUs placed by numad',
      { vcpu: { placement: 'auto' } },
      { memory: { mode: 'strict', placement: 'auto' } },
    ],
    [
      'does not change if it is set',
      { vcpu: { placement: 'auto' }, numatune: { memory: { nodeset: '0' } } },
      { memory: { mode: 'strict', nodeset: '0' } },
    ],
    [
      'is strict unless another mode is set',
      { numatune: { memory: { mode: 'preferred', nodeset: '0' } } },
      { memory: { mode: 'preferred', nodeset: '0' } },
    ],
    ['is not added without a setting', {}, undefined],
  ])('%s', (_, domain, expected) => expect(applied([numatuneMemory, numatuneMode], domain).numatune).toEqual(expected))
})
