import { describe, expect, test } from 'vitest'
import type { Resources } from '../api/launcher-resources.ts'
import { budgetWarnings } from './budget.ts'
import type { LimitRange, ResourceQuota } from './budget.ts'

/** 1 GiB, two virtual CPUs, with KVM. */
const pod: Resources = {
  requests: { cpu: '200m', memory: `${1200 * 1024 * 1024}`, 'devices.virtset.io/kvm': '1' },
  limits: { memory: `${1200 * 1024 * 1024}`, 'devices.virtset.io/kvm': '1' },
}

const range = (...limits: NonNullable<NonNullable<LimitRange['spec']>['limits']>): LimitRange => ({
  metadata: { name: 'r' },
  spec: { limits },
})
const quota = (hard: Record<string, string>, used: Record<string, string> = {}, more = {}): ResourceQuota => ({
  metadata: { name: 'q' },
  spec: { hard, ...more },
  status: { hard, used },
})

const warned = (ranges: readonly LimitRange[], quotas: readonly ResourceQuota[], priority?: string) =>
  budgetWarnings({ ranges, quotas }, () => pod, priority)

test('where a namespace allows everything the pod is not even looked at', () => {
  const ask = () => {
    throw new Error('asked')
  }
  expect(budgetWarnings({ ranges: [], quotas: [] }, ask, undefined)).toEqual([])
})

describe('a LimitRange', () => {
  test.each<[string, LimitRange, string[]]>([
    ['about volumes says nothing', range({ type: 'PersistentVolumeClaim', max: { storage: '1Gi' } }), []],
    ['that the pod fits', range({ type: 'Container', min: { cpu: '100m' }, default: { memory: '2Gi' } }), []],
    [
      'whose default limit is below the request',
      range({ type: 'Container', default: { cpu: '100m' } }),
      ["a LimitRange limits cpu to 100m by default, less than the 200m that the VM's pod requests"],
    ],
    ['whose default limit is for pods without one', range({ type: 'Container', default: { memory: '512Mi' } }), []],
    [
      'that wants more',
      range({ type: 'Container', min: { cpu: '1', memory: '1Gi' } }),
      [`LimitRange "r" would refuse the VM's pod: it requests 200m, less than 1, of cpu`],
    ],
    [
      'that wants less',
      range({ type: 'Pod', max: { memory: '1Gi' } }),
      [`LimitRange "r" would refuse the VM's pod: it requests 1200Mi, more than 1Gi, of memory`],
    ],
    [
      'of pods with a maximum wants a limit, which no default gives',
      range({ type: 'Pod', max: { cpu: '4' } }),
      [`LimitRange "r" would refuse the VM's pod: it has no limit of cpu`],
    ],
    [
      'of containers with a maximum is a default, too',
      range({ type: 'Container', max: { cpu: '4' }, default: { cpu: '4' } }),
      [],
    ],
    [
      'with a default above the maximum of another',
      range({ type: 'Container', default: { cpu: '4' } }, { type: 'Pod', max: { cpu: '2' } }),
      [`LimitRange "r" would refuse the VM's pod: its limit is 4, more than 2, of cpu`],
    ],
    [
      'whose ratio the default breaks',
      range({ type: 'Container', default: { cpu: '4' }, maxLimitRequestRatio: { cpu: '2' } }),
      [`LimitRange "r" would refuse the VM's pod: its limit is more than 2 times its request of cpu`],
    ],
    ['whose ratio the memory keeps', range({ type: 'Container', maxLimitRequestRatio: { memory: '1' } }), []],
  ])('%s', (_, given, expected) => expect(warned([given], [])).toEqual(expected))
})

describe('a ResourceQuota', () => {
  test.each<[string, ResourceQuota, string[]]>([
    ['with room', quota({ 'requests.memory': '4Gi', cpu: '1', pods: '9' }, { 'requests.memory': '2Gi' }), []],
    [
      'without room for the memory',
      quota({ 'requests.memory': '4Gi' }, { 'requests.memory': '3Gi' }),
      [`ResourceQuota "q": 1024Mi of 4Gi requests.memory are left, the VM's pod needs 1200Mi`],
    ],
    [
      'that is used up',
      quota({ cpu: '1' }, { cpu: '1500m' }),
      [`ResourceQuota "q": 0 of 1 cpu are left, the VM's pod needs 200m`],
    ],
    ['of pods', quota({ pods: '3' }, { pods: '3' }), [`ResourceQuota "q": 0 of 3 pods are left, the VM's pod needs 1`]],
    [
      'of devices',
      quota({ 'requests.devices.virtset.io/kvm': '0' }),
      [`ResourceQuota "q": 0 of 0 requests.devices.virtset.io/kvm are left, the VM's pod needs 1`],
    ],
    [
      'that counts limits of the CPU',
      quota({ 'limits.cpu': '4' }),
      [`ResourceQuota "q" counts limits.cpu, and the VM's pod has no limit of it`],
    ],
    ['that counts limits of memory', quota({ 'limits.memory': '4Gi' }), []],
    [
      'without room for the limit of memory',
      quota({ 'limits.memory': '1Gi' }),
      [`ResourceQuota "q": 1024Mi of 1Gi limits.memory are left, the VM's pod needs 1200Mi`],
    ],
    ['of what a pod is not', quota({ 'count/secrets': '0', 'requests.storage': '0', services: '0' }), []],
    ['that counts only what has a deadline', quota({ pods: '0' }, {}, { scopes: ['Terminating'] }), []],
    [
      'that counts what has requests',
      quota({ pods: '0' }, {}, { scopes: ['NotBestEffort', 'NotTerminating'] }),
      [`ResourceQuota "q": 0 of 0 pods are left, the VM's pod needs 1`],
    ],
  ])('%s', (_, given, expected) => expect(warned([], [given])).toEqual(expected))

  const full = [`ResourceQuota "q": 0 of 0 pods are left, the VM's pod needs 1`]
  test.each<[string, string[], string | undefined, string[]]>([
    ['In', ['high'], 'high', full],
    ['In', ['high'], undefined, []],
    ['NotIn', ['high'], 'high', []],
    ['NotIn', ['high'], undefined, full],
    ['Exists', [], 'low', full],
    ['Exists', [], undefined, []],
    ['DoesNotExist', [], undefined, full],
    ['DoesNotExist', [], 'low', []],
  ])('of the priority %s %j for a VM with %s', (operator, values, priority, expected) => {
    const matchExpressions = [{ scopeName: 'PriorityClass', operator, values }]
    expect(warned([], [quota({ pods: '0' }, {}, { scopeSelector: { matchExpressions } })], priority)).toEqual(expected)
  })
})

test('every line is short enough to be printed whole', () => {
  const tight = quota(
    Object.fromEntries(
      ['requests.memory', 'limits.memory', 'requests.devices.virtset.io/kvm', 'pods'].map((key) => [key, '0']),
    ),
  )
  const narrow = range(
    { type: 'Container', default: { cpu: '100m' }, maxLimitRequestRatio: { memory: '0.5' } },
    { type: 'Pod', min: { memory: '512Gi' } },
  )
  const lines = warned([narrow], [tight])
  expect(lines.length).toBe(7)
  expect(lines.filter((line) => line.length >= 120)).toEqual([])
})
