import { describe, expect, test } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { cpuLabelsOf, isCpuLabel, requiredCpuLabels } from './cpu-label.ts'

describe('the labels of a node', () => {
  test('are the models that run with all of their features, by both names, and the features of its CPU', () => {
    const cpuModels = [
      { name: 'EPYC', canonical: 'EPYC-v1', blockers: ['svm'] },
      { name: 'pentium3', canonical: 'pentium3-v1', blockers: [] },
      { name: 'n270', blockers: [] },
    ]
    const labels = cpuLabelsOf({ cpuModels, cpuFeatures: ['sse2', 'sse4.1'] })
    expect(Object.keys(labels)).toEqual([
      'cpu-feature.virtset.io/sse2',
      'cpu-feature.virtset.io/sse4.1',
      'cpu-model.virtset.io/n270',
      'cpu-model.virtset.io/pentium3',
      'cpu-model.virtset.io/pentium3-v1',
    ])
    expect([new Set(Object.values(labels)), Object.keys(labels).every(isCpuLabel)]).toEqual([new Set(['true']), true])
  })

  test('are none without KVM', () => {
    expect(cpuLabelsOf(undefined)).toEqual({})
  })
})

const named = { mode: 'custom', check: 'partial', model: { value: 'EPYC' } } as const

test.each<[string, Domain, string[]]>([
  ['of its model', { type: 'kvm', cpu: named }, ['cpu-model.virtset.io/EPYC']],
  ['not of a model that libvirt does not check', { type: 'kvm', cpu: { ...named, check: 'none' } }, []],
  ['none for an emulated CPU', { type: 'qemu', cpu: named }, []],
  ['none without a CPU', { type: 'kvm' }, []],
  ["none for the node's own CPU", { type: 'kvm', cpu: { mode: 'host-model' } }, []],
  [
    'of the features that it requires, also in addition to those of the node',
    {
      type: 'kvm',
      cpu: { mode: 'host-model', features: [{ name: 'aes' }, { name: 'avx', policy: 'require' }, { name: 'a b' }] },
    },
    ['cpu-feature.virtset.io/aes', 'cpu-feature.virtset.io/avx'],
  ],
  [
    'not of a model without some of its features',
    {
      type: 'kvm',
      cpu: {
        ...named,
        features: [
          { name: 'svm', policy: 'disable' },
          { name: 'aes', policy: 'require' },
          { name: 'vmx', policy: 'forbid' },
        ],
      },
    },
    ['cpu-feature.virtset.io/aes'],
  ],
])('a VM requires labels: %s', (_, domain, labels) => {
  expect(Object.keys(requiredCpuLabels(domain))).toEqual(labels)
})
