import { expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { bundledCapabilities as capabilities } from './capabilities.ts'
import { complete, ungrantedReach, type CompleteOptions } from './complete.ts'

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))

const features = (count: number) => times(count, (index) => ({ name: `feature${index}`, policy: 'require' }))

/** 128 NUMA nodes, each with its distance to every other: 50,000 values. */
const cells = times(128, (id) => ({
  id,
  cpus: String(id),
  memory: 8,
  unit: 'MiB',
  distances: { siblings: times(128, (other) => ({ id: other, value: other === id ? 10 : 20 })) },
}))

const numa = { cpu: { numa: { cells } }, vcpu: { value: 128 } }

const pinned = { cputune: { vcpupins: times(4096, (vcpu) => ({ vcpu, cpuset: '0' })) } }

const preset = (name: string, spec: object, priority = 0) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'ClusterVirtualMachinePreset',
  metadata: { name },
  spec: { selector: {}, priority, ...spec },
})

function optionsWith(presets: readonly object[]): CompleteOptions {
  const compiled = presets.flatMap((one) => {
    const outcome = compilePreset(one)
    return 'preset' in outcome ? [outcome.preset] : []
  })
  expect(compiled).toHaveLength(presets.length)
  return {
    presets: createCandidates(compiled),
    namespace: { name: 'default', labels: {} },
    capabilities,
    entropy: { uid: 'request' },
  }
}

function completed(domain: object, presets: readonly object[] = []) {
  const vm = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'default' },
    spec: { domain: { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, ...domain } },
  }
  return complete(vm as VirtualMachine, optionsWith(presets))
}

test('a VM with 128 NUMA nodes is not too much', () => {
  const outcome = completed(numa)
  expect(outcome.outcome === 'refused' ? outcome.causes : []).toEqual([])
})

test('a VM that was completed once is not too much to complete or check again', () => {
  const once = completed({ ...numa, vcpus: { vcpus: times(128, (id) => ({ id, enabled: true })) } })
  const again = once.outcome === 'completed' && complete(once.vm, optionsWith([]))
  expect(again).toMatchObject({
    outcome: 'completed',
    vm: { spec: once.outcome === 'completed' && once.vm.spec },
  })
  expect(once.outcome === 'completed' && ungrantedReach(once.vm, optionsWith([]))).toEqual([])
})

test('a VM that reaches nothing of the host is checked again without its presets, as large as it can be', () => {
  const once = completed(numa)
  const unread = (): never => {
    throw new Error('the VM is drafted')
  }
  const presets = { ...createCandidates([]), select: unread, forUser: unread }
  expect(once.outcome === 'completed' && ungrantedReach(once.vm, { ...optionsWith([]), presets })).toEqual([])
})

test('a VM that is too much work is refused with its size', () => {
  const outcome = completed({ ...numa, ...pinned, iothreadids: { iothreads: times(1024, (id) => ({ id: id + 1 })) } })
  expect(outcome).toEqual({
    outcome: 'refused',
    audit: [],
    participants: [],
    warnings: [],
    causes: [
      {
        rule: 'too-much-work',
        field: 'spec',
        reason: 'FieldValueTooMany',
        message: 'takes more than 200,000 steps to complete: it has 64,402 values',
        suggestion: 'shorten its lists',
      },
    ],
  })
})

test('if its presets are too much, the largest are named', () => {
  const many = times(80, (index) => preset(`p${index}`, { domain: { cpu: { features: features(1000) } } }, index))
  const outcome = completed({}, [...many, preset('large', { domain: { cpu: { features: features(1024) } } }, -1)])
  expect(outcome.outcome === 'refused' && outcome.causes).toMatchObject([
    {
      rule: 'too-much-work',
      message:
        'takes more than 200,000 steps to complete: it has 9 values, and the presets that select it have 243,477 ("large" 3,077, "p0" 3,005, "p1" 3,005)',
      suggestion: 'shorten the lists of these presets',
    },
  ])
})

test('lists that presets make too long are refused before rules check them', () => {
  const interfaces = (index: number) =>
    times(250, (at) => ({ type: 'user', alias: { name: `ua-${index}-${at}` }, model: { type: 'virtio' } }))
  const many = times(20, (index) => preset(`p${index}`, { domain: { devices: { interfaces: interfaces(index) } } }))
  const before = process.cpuUsage().user
  const outcome = completed({}, many)
  expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, field }) => [rule, field])).toEqual([
    ['list-length', 'spec.domain.devices.interfaces'],
  ])
  // Most of the time is spent compiling the presets.
  expect((process.cpuUsage().user - before) / 1000).toBeLessThan(5000)
})

test('presets in mode Warn or Audit never keep a VM from being completed: those that are too much are not tried', () => {
  const domain = { cpu: { features: features(700) } }
  const many = times(80, (index) => preset(`p${index}`, { domain, mode: 'Audit' }, index))
  const outcome = completed({}, many)
  expect(outcome.outcome).toBe('completed')
  expect(outcome.audit).toHaveLength(16)
  expect(outcome.warnings).toContain(
    '64 presets in mode Warn or Audit match but were not tried because there are too many: "p63", "p62", "p61" and 61 more',
  )
})
