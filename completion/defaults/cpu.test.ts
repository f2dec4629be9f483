import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, q35 } from '../../test/applied.ts'
import { cpuCheck, cpuMatch, cpuMigratable, cpuModel, cpuTopology } from './cpu.ts'
import { iothreadCount, iothreadIds } from './iothread.ts'
import { seclabelModel, seclabelRelabel } from './seclabel.ts'
import { vcpuCount, vcpuPlacement } from './vcpu.ts'

describe('the CPU', () => {
  const rules = [cpuModel, cpuMatch, cpuCheck, cpuMigratable, cpuTopology]
  const standard = { mode: 'custom', match: 'exact', check: 'none', model: { fallback: 'forbid', value: 'qemu64' } }

  test.each<[string, Domain, object]>([
    ['is that of the machine', {}, standard],
    [
      'is that of the machine, with the given NUMA nodes',
      { cpu: { numa: { cells: [] } } },
      { ...standard, numa: { cells: [] } },
    ],
    [
      'with a named model is matched, and checked under KVM',
      { type: 'kvm', cpu: { model: { value: 'EPYC' } } },
      { mode: 'custom', match: 'exact', check: 'partial', model: { fallback: 'allow', value: 'EPYC' } },
    ],
    [
      'with a named model is not checked under emulation',
      { type: 'qemu', cpu: { model: { value: 'EPYC' } } },
      { mode: 'custom', match: 'exact', check: 'none', model: { fallback: 'allow', value: 'EPYC' } },
    ],
    [
      'in mode host-passthrough is migratable',
      { cpu: { mode: 'host-passthrough' } },
      { mode: 'host-passthrough', check: 'none', migratable: true },
    ],
    [
      'in mode host-model is checked partially',
      { cpu: { mode: 'host-model' } },
      { mode: 'host-model', check: 'partial' },
    ],
    ['in mode maximum is not checked', { cpu: { mode: 'maximum' } }, { mode: 'maximum', check: 'none' }],
    [
      'has one die and one cluster',
      { cpu: { mode: 'maximum', topology: { sockets: 1, cores: 2, threads: 1 } } },
      { mode: 'maximum', check: 'none', topology: { sockets: 1, dies: 1, clusters: 1, cores: 2, threads: 1 } },
    ],
  ])('%s', (_, domain, expected) => expect(applied(rules, { os: q35, ...domain }).cpu).toEqual(expected))
})

test('virtual CPUs: one, placed by `cpuset`, or by numad with the memory', () => {
  const rules = [vcpuCount, vcpuPlacement]
  expect(applied(rules, {}).vcpu).toEqual({ value: 1, placement: 'static' })
  expect(applied(rules, { vcpu: { value: 4 }, numatune: { memory: { placement: 'auto' } } }).vcpu).toEqual({
    value: 4,
    placement: 'auto',
  })
  expect(applied(rules, { vcpu: { value: 4, cpuset: '0' }, numatune: { memory: { placement: 'auto' } } }).vcpu).toEqual(
    { value: 4, cpuset: '0', placement: 'static' },
  )
})

test.each<[string, Domain, Domain]>([
  [
    'the number of I/O threads is that of the listed ones',
    { iothreadids: { iothreads: [{ id: 3 }] } },
    { iothreads: 1, iothreadids: { iothreads: [{ id: 3 }] } },
  ],
  [
    'those that are not listed get the lowest IDs',
    { iothreads: 3, iothreadids: { iothreads: [{ id: 2 }] } },
    { iothreads: 3, iothreadids: { iothreads: [{ id: 2 }, { id: 1 }, { id: 3 }] } },
  ],
  ['none is listed if none was', { iothreads: 3 }, { iothreads: 3 }],
])('%s', (_, domain, expected) => expect(applied([iothreadCount, iothreadIds], domain)).toEqual(expected))

test.each<[string, object, object]>([
  ['a dynamic label relabels resources', { type: 'dynamic', model: 'dac' }, { relabel: true }],
  ['a static label does not', { type: 'static', model: 'dac', label: 'a:b' }, { relabel: false }],
  ['a label for no module labels nothing', { type: 'none' }, { model: 'none' }],
  ['existing values remain', { type: 'static', model: 'selinux', relabel: true }, {}],
])('%s', (_, label, more) => {
  expect(applied([seclabelModel, seclabelRelabel], { seclabels: [label] }).seclabels).toEqual([{ ...label, ...more }])
})
