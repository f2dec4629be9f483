import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { prepare, testRule, testSilent } from '../../test/rule-table.ts'
import { iothreadIds } from './cputune.ts'
import { checkRules } from './rules.ts'

type Cputune = NonNullable<Domain['cputune']>

const cputune = (cputune: Cputune, more: Domain = {}): Domain => ({
  vcpu: { value: 2 },
  iothreads: 1,
  cputune,
  ...more,
})

test.each<[Domain, readonly number[]]>([
  [{}, []],
  [{ iothreads: 2 }, [1, 2]],
  [{ iothreads: 3, iothreadids: { iothreads: [{ id: 2 }, { id: 7 }] } }, [2, 7, 1]],
  [{ iothreadids: { iothreads: [{ id: 5 }] } }, [5]],
])('the ids of the I/O threads of %j', (domain, ids) => {
  expect([...iothreadIds(domain)]).toEqual(ids)
})

testRule('cputune-limits', [
  {
    refused: cputune({ period: 999, globalPeriod: 999, emulatorPeriod: 999, iothreadPeriod: 999 }),
    causes: [
      'spec.domain.cputune.period: Invalid value: 999: must be between 1000 and 1000000 microseconds',
      'spec.domain.cputune.globalPeriod: Invalid value: 999: must be between 1000 and 1000000 microseconds',
      'spec.domain.cputune.emulatorPeriod: Invalid value: 999: must be between 1000 and 1000000 microseconds',
      'spec.domain.cputune.iothreadPeriod: Invalid value: 999: must be between 1000 and 1000000 microseconds',
    ],
    accepted: cputune({ period: 1000, globalPeriod: 1000, emulatorPeriod: 1000, iothreadPeriod: 1000 }),
  },
  {
    refused: cputune({ period: 1_000_001 }),
    causes: ['spec.domain.cputune.period: Invalid value: 1000001: must be between 1000 and 1000000 microseconds'],
    accepted: cputune({ period: 1_000_000 }),
  },
  {
    refused: cputune({ globalPeriod: 0 }),
    causes: ['spec.domain.cputune.globalPeriod: Invalid value: 0: must be between 1000 and 1000000 microseconds'],
    accepted: cputune({ globalPeriod: 1000 }),
  },
  {
    refused: cputune({ quota: 999, globalQuota: 999, emulatorQuota: 999, iothreadQuota: 999 }),
    causes: [
      'spec.domain.cputune.quota: Invalid value: 999: must be between 1000 and 17592186044415 microseconds, or negative for no limit',
      'spec.domain.cputune.globalQuota: Invalid value: 999: must be between 1000 and 17592186044415 microseconds, or negative for no limit',
      'spec.domain.cputune.emulatorQuota: Invalid value: 999: must be between 1000 and 17592186044415 microseconds, or negative for no limit',
      'spec.domain.cputune.iothreadQuota: Invalid value: 999: must be between 1000 and 17592186044415 microseconds, or negative for no limit',
    ],
    accepted: cputune({ quota: 1000, globalQuota: 1000, emulatorQuota: 1000, iothreadQuota: 1000 }),
  },
  {
    refused: cputune({ quota: 17_592_186_044_416 }),
    causes: [
      'spec.domain.cputune.quota: Invalid value: 17592186044416: must be between 1000 and 17592186044415 microseconds, or negative for no limit',
    ],
    accepted: cputune({ quota: 17_592_186_044_415, globalQuota: -1, emulatorQuota: 0 }),
  },
])

testRule('cputune-threads', [
  {
    refused: cputune({
      emulatorsched: { scheduler: 'batch', priority: 1 },
      vcpuscheds: [{ vcpus: '0', scheduler: 'idle', priority: 1 }],
    }),
    causes: [
      'spec.domain.cputune.emulatorsched.priority: Forbidden: must not be set for scheduler batch, only for fifo and rr',
      'spec.domain.cputune.vcpuscheds[0].priority: Forbidden: must not be set for scheduler idle, only for fifo and rr',
    ],
    accepted: cputune({ emulatorsched: { scheduler: 'batch' }, vcpuscheds: [{ vcpus: '0', scheduler: 'idle' }] }),
  },
  {
    refused: cputune({ emulatorsched: { scheduler: 'fifo' } }),
    causes: ['spec.domain.cputune.emulatorsched.priority: Required value: must be set for scheduler fifo'],
    accepted: cputune({ emulatorsched: { scheduler: 'fifo', priority: 1 } }),
  },
  {
    refused: cputune({ emulatorsched: { scheduler: 'rr' } }),
    causes: ['spec.domain.cputune.emulatorsched.priority: Required value: must be set for scheduler rr'],
    accepted: cputune({ emulatorsched: { scheduler: 'batch' } }),
  },
  {
    refused: cputune({ vcpupins: [{ cpuset: '0' }] }),
    causes: ['spec.domain.cputune.vcpupins[0].vcpu: Required value: must be set'],
    accepted: cputune({ vcpupins: [{ vcpu: 0, cpuset: '0' }] }),
  },
  {
    refused: cputune({
      vcpupins: [
        { vcpu: 0, cpuset: '0' },
        { vcpu: 0, cpuset: '1' },
      ],
    }),
    causes: ['spec.domain.cputune.vcpupins[1].vcpu: Duplicate value: 0: is listed more than once'],
    accepted: cputune({
      vcpupins: [
        { vcpu: 0, cpuset: '0' },
        { vcpu: 1, cpuset: '1' },
      ],
    }),
  },
  {
    refused: cputune({ iothreadpins: [{ cpuset: '0' }] }),
    causes: ['spec.domain.cputune.iothreadpins[0].iothread: Required value: must be set'],
    accepted: cputune({ iothreadpins: [{ iothread: 1, cpuset: '0' }] }),
  },
  {
    refused: cputune({ iothreadpins: [{ iothread: 2, cpuset: '0' }] }),
    causes: [
      'spec.domain.cputune.iothreadpins[0].iothread: Invalid value: 2: no such I/O thread in iothreads and iothreadids',
    ],
    accepted: cputune({ iothreadpins: [{ iothread: 2, cpuset: '0' }] }, { iothreads: 2 }),
  },
  {
    refused: cputune({
      iothreadpins: [
        { iothread: 1, cpuset: '0' },
        { iothread: 1, cpuset: '1' },
      ],
    }),
    causes: ['spec.domain.cputune.iothreadpins[1].iothread: Duplicate value: 1: is listed more than once'],
    accepted: cputune({ iothreadpins: [{ iothread: 1, cpuset: '0' }] }),
  },
  {
    refused: cputune({ vcpuscheds: [{ vcpus: '0-2', scheduler: 'batch' }] }),
    causes: ['spec.domain.cputune.vcpuscheds[0].vcpus: Invalid value: "0-2": has 2: the VM has CPUs 0 to 1'],
    accepted: cputune({ vcpuscheds: [{ vcpus: '0-1', scheduler: 'batch' }] }),
  },
  {
    refused: cputune({ vcpuscheds: [{ vcpus: '1', scheduler: 'batch' }] }, { vcpu: {} }),
    causes: ['spec.domain.cputune.vcpuscheds[0].vcpus: Invalid value: "1": has 1: the VM has CPUs 0 to 0'],
    accepted: cputune({ vcpuscheds: [{ vcpus: '0', scheduler: 'batch' }] }, { vcpu: { value: 1 } }),
  },
  {
    refused: cputune({
      vcpuscheds: [
        { vcpus: '0-1', scheduler: 'batch' },
        { vcpus: '1', scheduler: 'idle' },
      ],
    }),
    causes: [
      'spec.domain.cputune.vcpuscheds[1].vcpus: Duplicate value: "1": has 1, which another entry already schedules',
    ],
    accepted: cputune({
      vcpuscheds: [
        { vcpus: '0', scheduler: 'batch' },
        { vcpus: '1', scheduler: 'idle' },
      ],
    }),
  },
  {
    refused: cputune({ vcpuscheds: [{ vcpus: '0', scheduler: 'fifo' }] }),
    causes: ['spec.domain.cputune.vcpuscheds[0].priority: Required value: must be set for scheduler fifo'],
    accepted: cputune({ vcpuscheds: [{ vcpus: '0', scheduler: 'fifo', priority: 1 }] }),
  },
  {
    refused: cputune({ iothreadscheds: [{ iothreads: '2', scheduler: 'batch' }] }),
    causes: [
      'spec.domain.cputune.iothreadscheds[0].iothreads: Invalid value: "2": has 2: no such I/O thread in iothreads and iothreadids',
    ],
    accepted: cputune({ iothreadscheds: [{ iothreads: '1', scheduler: 'batch' }] }),
  },
  {
    refused: cputune({
      iothreadscheds: [
        { iothreads: '1', scheduler: 'rr' },
        { iothreads: '1', scheduler: 'batch' },
      ],
    }),
    causes: [
      'spec.domain.cputune.iothreadscheds[0].priority: Required value: must be set for scheduler rr',
      'spec.domain.cputune.iothreadscheds[1].iothreads: Duplicate value: "1": has 1, which another entry already schedules',
    ],
    accepted: cputune({ iothreadscheds: [{ iothreads: '1', scheduler: 'rr', priority: 1 }] }),
  },
])

type Caches = NonNullable<NonNullable<Cputune['cachetunes']>[number]['caches']>

const share = (type: 'both' | 'code' | 'data', id = 0, level = 3): Caches[number] => ({
  id,
  level,
  type,
  size: 1,
  unit: 'MiB',
})

const caches = (vcpus: string, ...caches: Caches): NonNullable<Cputune['cachetunes']>[number] => ({ vcpus, caches })

const bandwidth = (vcpus: string, ...ids: number[]): NonNullable<Cputune['memorytunes']>[number] => ({
  vcpus,
  nodes: ids.map((id) => ({ id, bandwidth: 50 })),
})

testRule('cputune-shares', [
  {
    refused: cputune({ memorytunes: [bandwidth('0', 0)] }, { type: 'qemu' }),
    causes: ['spec.domain.cputune.memorytunes: Forbidden: requires KVM; type: kvm'],
    accepted: cputune({ memorytunes: [bandwidth('0', 0)] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0')] }),
    causes: ['spec.domain.cputune.cachetunes[0].caches: Required value: must be set, or monitors'],
    accepted: cputune({ cachetunes: [{ vcpus: '0', monitors: [{ level: 3, vcpus: '0' }] }] }),
  },
  {
    refused: cputune({ memorytunes: [{ vcpus: '0' }] }),
    causes: ['spec.domain.cputune.memorytunes[0].nodes: Required value: must be set, or monitors'],
    accepted: cputune({ memorytunes: [{ vcpus: '0', monitors: [{ vcpus: '0' }] }] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0-1', share('both'))], memorytunes: [bandwidth('1', 0)] }),
    causes: [
      'spec.domain.cputune.memorytunes[0].vcpus: Invalid value: "1": has some CPUs in common with cachetunes[0]; both must have the same CPUs, or none in common; e.g. 0-1',
    ],
    accepted: cputune({ cachetunes: [caches('0-1', share('both'))], memorytunes: [bandwidth('0,1', 0)] }),
  },
  {
    refused: cputune({ cachetunes: [caches('1', share('both'))], memorytunes: [bandwidth('0-1', 0)] }),
    causes: [
      'spec.domain.cputune.memorytunes[0].vcpus: Invalid value: "0-1": has some CPUs in common with cachetunes[0]; both must have the same CPUs, or none in common; e.g. 1',
    ],
    accepted: cputune({ cachetunes: [caches('1', share('both'))], memorytunes: [bandwidth('0', 0)] }),
  },
  // Names one of the shares: with hundreds of large sets, to name each would take a second.
  {
    refused: cputune({
      cachetunes: [caches('0', share('both')), caches('1', share('both'))],
      memorytunes: [bandwidth('0-1', 0)],
    }),
    causes: [
      'spec.domain.cputune.memorytunes[0].vcpus: Invalid value: "0-1": has some CPUs in common with cachetunes[0]; both must have the same CPUs, or none in common; e.g. 0',
    ],
    accepted: cputune({
      cachetunes: [caches('0', share('both')), caches('1', share('both'))],
      memorytunes: [bandwidth('1', 0)],
    }),
  },
  {
    refused: cputune({ cachetunes: [caches('0-1', share('both')), caches('1-2', share('both'))] }),
    causes: [
      'spec.domain.cputune.cachetunes[1].vcpus: Duplicate value: "1-2": has CPU 1, which another entry already has',
    ],
    accepted: cputune({ cachetunes: [caches('0,2', share('both')), caches('1-2', share('both'))] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0', share('both'))] }, { type: 'qemu' }),
    causes: ['spec.domain.cputune.cachetunes: Forbidden: requires KVM; type: kvm'],
    accepted: cputune({ cachetunes: [caches('0', share('both'))] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0-1', share('both')), caches('1', share('both'))] }),
    causes: [
      'spec.domain.cputune.cachetunes[1].vcpus: Duplicate value: "1": has CPU 1, which another entry already has',
    ],
    accepted: cputune({ cachetunes: [caches('0', share('both')), caches('1', share('both'))] }),
  },
  {
    refused: cputune({ memorytunes: [bandwidth('0-1', 0), bandwidth('1', 0)] }),
    causes: [
      'spec.domain.cputune.memorytunes[1].vcpus: Duplicate value: "1": has CPU 1, which another entry already has',
    ],
    accepted: cputune({ memorytunes: [bandwidth('0', 0), bandwidth('1', 0)] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0', share('code'), share('code'))] }),
    causes: ['spec.domain.cputune.cachetunes[0].caches[1].id: Duplicate value: 0: is already shared at level 3'],
    accepted: cputune({ cachetunes: [caches('0', share('code'), share('data'))] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0', share('both'), share('data'))] }),
    causes: ['spec.domain.cputune.cachetunes[0].caches[1].id: Duplicate value: 0: is already shared at level 3'],
    accepted: cputune({ cachetunes: [caches('0', share('both'), share('data', 1))] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0', share('data'), share('both'))] }),
    causes: ['spec.domain.cputune.cachetunes[0].caches[1].id: Duplicate value: 0: is already shared at level 3'],
    accepted: cputune({ cachetunes: [caches('0', share('data'), share('both', 0, 2))] }),
  },
  {
    refused: cputune({ cachetunes: [caches('0', share('code'), share('data'), share('code'))] }),
    causes: ['spec.domain.cputune.cachetunes[0].caches[2].id: Duplicate value: 0: is already shared at level 3'],
    accepted: cputune({ cachetunes: [caches('0', share('code'), share('data'))] }),
  },
  {
    refused: cputune({ memorytunes: [bandwidth('0', 0, 0)] }),
    causes: ['spec.domain.cputune.memorytunes[0].nodes[1].id: Duplicate value: 0: is listed more than once'],
    accepted: cputune({ memorytunes: [bandwidth('0', 0, 1)] }),
  },
])

const monitored = (vcpus: string, ...monitors: string[]): NonNullable<Cputune['cachetunes']>[number] => ({
  vcpus,
  monitors: monitors.map((one) => ({ level: 3, vcpus: one })),
})
const sized = (vcpus: string, ...monitors: string[]): NonNullable<Cputune['cachetunes']>[number] => ({
  ...monitored(vcpus, ...monitors),
  caches: [share('both')],
})
const metered = (vcpus: string, ...monitors: string[]): NonNullable<Cputune['memorytunes']>[number] => ({
  vcpus,
  monitors: monitors.map((one) => ({ vcpus: one })),
})
const four = { vcpu: { value: 4 } }

testRule('cputune-monitors', [
  {
    refused: cputune({ cachetunes: [monitored('0-2', '0-1', '1-2')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[1].vcpus: Duplicate value: "1-2": has CPU 1, which another monitor already has',
    ],
    accepted: cputune({ cachetunes: [monitored('0-2', '0-1', '2')] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-1', '0', '0')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[1].vcpus: Duplicate value: "0": another monitor already has these CPUs',
    ],
    accepted: cputune({ cachetunes: [monitored('0-1', '0', '1')] }, four),
  },
  {
    refused: cputune({ cachetunes: [sized('0-1', '0-1', '0,1')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[1].vcpus: Duplicate value: "0-1": another monitor already has these CPUs',
    ],
    accepted: cputune({ cachetunes: [sized('0-1', '0-1', '0', '1')] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-1', '0', '0-1')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[1].vcpus: Duplicate value: "0-1": has CPU 0, which another monitor already has',
    ],
    accepted: cputune({ cachetunes: [sized('0-1', '0', '0-1')] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-1', '0-1', '0')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[1].vcpus: Duplicate value: "0": has CPU 0, which another monitor already has',
    ],
    accepted: cputune({ cachetunes: [sized('0-1', '0-1', '0')] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-1', '1-2')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[0].vcpus: Invalid value: "1-2": has CPU 2, which the share does not have: it has 0-1',
    ],
    accepted: cputune({ cachetunes: [monitored('0-1', '1')] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-5', '4-5')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[0].vcpus: Invalid value: "4-5": has none of the CPUs of the VM, 0 to 3',
    ],
    accepted: cputune({ cachetunes: [monitored('0-5', '3-5')] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-1', '1')] }, { vcpu: {} }),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[0].vcpus: Invalid value: "1": has none of the CPUs of the VM, 0 to 0',
    ],
    accepted: cputune({ cachetunes: [monitored('0-1', '0')] }, { vcpu: { value: 1 } }),
  },
  {
    refused: cputune({ memorytunes: [metered('0-2', '0-1', '1-2')] }, four),
    causes: [
      'spec.domain.cputune.memorytunes[0].monitors[1].vcpus: Duplicate value: "1-2": has CPU 1, which another monitor already has',
    ],
    accepted: cputune({ memorytunes: [metered('0-2', '0-1', '2')] }, four),
  },
  {
    refused: cputune({ memorytunes: [metered('0-1', '0-1', '0')] }, four),
    causes: [
      'spec.domain.cputune.memorytunes[0].monitors[1].vcpus: Duplicate value: "0": has CPU 0, which another monitor already has',
    ],
    accepted: cputune({ memorytunes: [{ ...metered('0-1', '0-1', '0'), ...bandwidth('0-1', 0) }] }, four),
  },
  {
    refused: cputune({ cachetunes: [monitored('0-2', '0-1')], memorytunes: [metered('0-2', '1')] }, four),
    causes: [
      'spec.domain.cputune.memorytunes[0].monitors[0].vcpus: Duplicate value: "1": has CPU 1, which another monitor already has',
    ],
    accepted: cputune({ cachetunes: [monitored('0-2', '0-1')], memorytunes: [metered('0-2', '0-1')] }, four),
  },
])

testSilent('cputune-monitors', [
  cputune({}),
  cputune({ cachetunes: [{ vcpus: '0', monitors: [{ level: 3 }] }] }),
  cputune({ cachetunes: [sized('0-1', '0')], memorytunes: [metered('0-1', '0-1')] }),
])

testRule('cputune-monitors', [
  {
    refused: cputune({ cachetunes: [sized('0-2', '0-1', '1-2')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[0].monitors[1].vcpus: Duplicate value: "1-2": has CPU 1, which another monitor already has',
    ],
    accepted: cputune({ cachetunes: [sized('0-2', '0-1', '2')] }, four),
  },
  {
    refused: cputune({ cachetunes: [sized('0-1'), monitored('2-3', '2-3', '2')] }, four),
    causes: [
      'spec.domain.cputune.cachetunes[1].monitors[1].vcpus: Duplicate value: "2": has CPU 2, which another monitor already has',
    ],
    accepted: cputune({ cachetunes: [sized('0-1'), sized('2-3', '2-3', '2')] }, four),
  },
])

testSilent('cputune-shares', [cputune({ cachetunes: [sized('0')] })], { base: {} })

// Set by set and CPU by CPU, the comparisons of each would take minutes to hours.
const all = '0-4095'
const oddOnes = Array.from({ length: 2048 }, (_, at) => 2 * at + 1).join(',')
test.each<[string, Cputune, { readonly [rule: string]: number }]>([
  [
    '256 monitors of 4096 CPUs each',
    { cachetunes: [sized(all, ...Array.from({ length: 256 }, (_, at) => `${at}-4095`))] },
    { 'cputune-monitors': 254 },
  ],
  [
    '256 shares with 100 monitors of 4096 CPUs each',
    { cachetunes: Array.from({ length: 256 }, () => monitored(all, ...Array.from({ length: 100 }, () => all))) },
    // Those of the shares, too.
    { 'cputune-shares': 255 },
  ],
  [
    '200 shares of caches and 200 of bandwidth with half of the CPUs each',
    {
      cachetunes: Array.from({ length: 200 }, () => caches(oddOnes, share('both'))),
      memorytunes: Array.from({ length: 200 }, (_, at) => bandwidth(String(2 * at), 0)),
    },
    { 'cputune-shares': 199 },
  ],
  [
    '4096 schedules of 4096 CPUs each',
    { vcpuscheds: Array.from({ length: 4096 }, () => ({ vcpus: all, scheduler: 'batch' as const })) },
    { 'cputune-threads': 255 },
  ],
])('%s are compared at once', (_, cputune, counts) => {
  const { causes } = checkRules(...prepare({ vcpu: { value: 4096 }, cputune }))
  for (const [rule, count] of Object.entries(counts)) {
    expect(causes.filter((cause) => cause.rule === rule)).toHaveLength(count)
  }
})
