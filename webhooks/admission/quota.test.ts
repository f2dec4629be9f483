import { describe, expect, test } from 'vitest'
import type { Resources } from '../../api/launcher-resources.ts'
import { parserOf } from '../../runtime/partial-json.ts'
import { limitRanges, quotaWarnings, resourceQuotas, slimQuota, slimRange } from './quota.ts'
import type { KubeObject, Persisted, Resource } from '../../runtime/resource.ts'
import type { LimitRange, ResourceQuota } from './quota.ts'

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

const stored = <T extends KubeObject>(object: T): Persisted<T> => ({
  ...object,
  metadata: { name: '', uid: 'u', resourceVersion: '1', ...object.metadata },
})

/** The warnings are those of the cached objects, too. */
const warned = (ranges: readonly LimitRange[], quotas: readonly ResourceQuota[], priority?: string) => {
  const warnings = quotaWarnings({ ranges, quotas }, () => pod, priority)
  const cached = { ranges: ranges.map(stored).map(slimRange), quotas: quotas.map(stored).map(slimQuota) }
  expect(quotaWarnings(cached, () => pod, priority)).toEqual(warnings)
  return warnings
}

test('cached quotas and ranges are small, whatever users wrote', () => {
  const text = 'x'.repeat(200_000)
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`requests.example.org/r${index}`, '1']))
  const metadata = { name: 'a', annotations: { text }, labels: { text } }
  const items = Array.from({ length: 1000 }, () => ({ type: 'Container', max: many }))
  const sizes = [
    slimQuota(
      stored({ ...quota(many, many, { scopes: Array.from({ length: 10_000 }, () => 'BestEffort') }), metadata }),
    ),
    slimRange(stored({ ...range(...items), metadata })),
  ].map((one) => JSON.stringify(one).length)
  expect(sizes.filter((size) => size > 64 * 1024)).toEqual([])
})

test('a namespace without ranges and quotas does not compute the resources of the pod', () => {
  const resources = () => {
    throw new Error('computed')
  }
  expect(quotaWarnings({ ranges: [], quotas: [] }, resources, undefined)).toEqual([])
})

test('at most 32 warnings are given', () => {
  const ranges = Array.from({ length: 40 }, () => range({ type: 'Container', min: { cpu: '1' } }))
  expect(quotaWarnings({ ranges, quotas: [] }, () => pod, undefined)).toHaveLength(32)
})

describe('a LimitRange', () => {
  test.each<[string, LimitRange, string[]]>([
    ['for volumes does not apply', range({ type: 'PersistentVolumeClaim', max: { storage: '1Gi' } }), []],
    ['for resources with names of members of every object', range({ type: 'Pod', min: { constructor: '1' } }), []],
    ['that the pod fits', range({ type: 'Container', min: { cpu: '100m' }, default: { memory: '2Gi' } }), []],
    [
      'whose default limit is below the request',
      range({ type: 'Container', default: { cpu: '100m' } }),
      ["a LimitRange sets a default cpu limit of 100m, less than the 200m that the VM's pod requests"],
    ],
    ['whose default limit is for pods without one', range({ type: 'Container', default: { memory: '512Mi' } }), []],
    [
      'with a higher minimum',
      range({ type: 'Container', min: { cpu: '1', memory: '1Gi' } }),
      [`LimitRange "r" would reject the VM's pod: it requests 200m cpu, less than the minimum of 1`],
    ],
    [
      'with a lower maximum',
      range({ type: 'Pod', max: { memory: '1Gi' } }),
      [`LimitRange "r" would reject the VM's pod: it requests 1200Mi memory, more than the maximum of 1Gi`],
    ],
    [
      'of pods with a maximum requires a limit, for which there is no default',
      range({ type: 'Pod', max: { cpu: '4' } }),
      [`LimitRange "r" would reject the VM's pod: it has no cpu limit`],
    ],
    [
      'of containers with a maximum and a default',
      range({ type: 'Container', max: { cpu: '4' }, default: { cpu: '4' } }),
      [],
    ],
    [
      'with a default above the maximum of another',
      range({ type: 'Container', default: { cpu: '4' } }, { type: 'Pod', max: { cpu: '2' } }),
      [`LimitRange "r" would reject the VM's pod: its cpu limit of 4 is more than the maximum of 2`],
    ],
    [
      'whose ratio the default exceeds',
      range({ type: 'Container', default: { cpu: '4' }, maxLimitRequestRatio: { cpu: '2' } }),
      [`LimitRange "r" would reject the VM's pod: its cpu limit is more than 2 times its request`],
    ],
    [
      'whose ratio requires a limit',
      range({ type: 'Container', maxLimitRequestRatio: { cpu: '2' } }),
      [`LimitRange "r" would reject the VM's pod: it has no cpu limit`],
    ],
    ['whose minimum the pod just reaches', range({ type: 'Pod', min: { cpu: '200m' } }), []],
    ['whose maximum the pod just reaches', range({ type: 'Pod', max: { memory: '1200Mi' } }), []],
    [
      'of a resource that the pod does not request',
      range({
        type: 'Pod',
        min: { 'ephemeral-storage': '1Gi' },
        max: { 'ephemeral-storage': '1Gi' },
        maxLimitRequestRatio: { 'ephemeral-storage': '1' },
      }),
      [],
    ],
    ['whose ratio the memory satisfies', range({ type: 'Container', maxLimitRequestRatio: { memory: '1' } }), []],
  ])('%s', (_, given, expected) => expect(warned([given], [])).toEqual(expected))
})

describe('a ResourceQuota', () => {
  test.each<[string, ResourceQuota, string[]]>([
    ['with room', quota({ 'requests.memory': '4Gi', cpu: '1', pods: '9' }, { 'requests.memory': '2Gi' }), []],
    [
      'of a resource with the name of a member of every object',
      quota({ 'requests.constructor': '1' }, { 'requests.constructor': '2' }),
      [],
    ],
    [
      'without room for the memory',
      quota({ 'requests.memory': '4Gi' }, { 'requests.memory': '3Gi' }),
      [`ResourceQuota "q": the VM's pod needs 1200Mi requests.memory; 1024Mi of 4Gi are left`],
    ],
    [
      'that is used up',
      quota({ cpu: '1' }, { cpu: '1500m' }),
      [`ResourceQuota "q": the VM's pod needs 200m cpu; 0 of 1 are left`],
    ],
    ['of pods', quota({ pods: '3' }, { pods: '3' }), [`ResourceQuota "q": the VM's pod needs 1 pods; 0 of 3 are left`]],
    [
      'of devices',
      quota({ 'requests.devices.virtset.io/kvm': '0' }),
      [`ResourceQuota "q": the VM's pod needs 1 requests.devices.virtset.io/kvm; 0 of 0 are left`],
    ],
    [
      'that counts limits of the CPU',
      quota({ 'limits.cpu': '4' }),
      [`ResourceQuota "q" counts limits.cpu, but the VM's pod has no such limit`],
    ],
    ['that counts limits of memory', quota({ 'limits.memory': '4Gi' }), []],
    [
      'without room for the limit of memory',
      quota({ 'limits.memory': '1Gi' }),
      [`ResourceQuota "q": the VM's pod needs 1200Mi limits.memory; 1024Mi of 1Gi are left`],
    ],
    [
      'of resources that a pod does not use',
      quota({ 'count/secrets': '0', 'requests.storage': '0', services: '0' }),
      [],
    ],
    ['that just has room', quota({ 'requests.memory': '1200Mi', 'limits.memory': '1200Mi' }), []],
    [
      'of memory without prefix',
      quota({ memory: '1Gi' }),
      [`ResourceQuota "q": the VM's pod needs 1200Mi memory; 1024Mi of 1Gi are left`],
    ],
    [
      'of the number of pods as objects',
      quota({ 'count/pods': '0' }),
      [`ResourceQuota "q": the VM's pod needs 1 count/pods; 0 of 0 are left`],
    ],
    ['of a device without prefix', quota({ 'devices.virtset.io/kvm': '0' }), []],
    ['that counts only pods with a deadline', quota({ pods: '0' }, {}, { scopes: ['Terminating'] }), []],
    [
      'that counts pods with requests',
      quota({ pods: '0' }, {}, { scopes: ['NotBestEffort', 'NotTerminating'] }),
      [`ResourceQuota "q": the VM's pod needs 1 pods; 0 of 0 are left`],
    ],
  ])('%s', (_, given, expected) => expect(warned([], [given])).toEqual(expected))

  const full = [`ResourceQuota "q": the VM's pod needs 1 pods; 0 of 0 are left`]
  test.each<[string, string[], string | undefined, string[]]>([
    ['In', ['high'], 'high', full],
    ['In', ['high'], 'low', []],
    ['In', ['high'], undefined, []],
    ['NotIn', ['high'], 'high', []],
    ['NotIn', ['high'], 'low', full],
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

test('every warning is short enough to be printed in full', () => {
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

test.each([
  [
    'quota',
    resourceQuotas.read,
    slimQuota,
    {
      spec: {
        hard: { pods: '1' },
        scopes: ['NotTerminating'],
        scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In', values: ['high'] }] },
      },
      status: { hard: { pods: '1' }, used: { pods: '0' } },
    },
  ],
  ['range', limitRanges.read, slimRange, { spec: { limits: [{ type: 'Container', max: { cpu: '1' } }] } }],
])('a %s is read without what others add to its metadata, and with all that is cached', (_, read, slim, rest) => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_each, index) => [`l${index}`, 'theirs']))
  const metadata = { namespace: 'n', name: 'q', uid: 'u', resourceVersion: '1' }
  const whole = { metadata: { ...metadata, labels: many, annotations: many, finalizers: ['theirs'] }, ...rest }
  const parsed = parserOf(read)(Buffer.from(JSON.stringify(whole)))
  expect(parsed).toEqual({ metadata, ...rest })
  expect(slim(parsed as typeof whole)).toEqual(slim(whole))
})

describe('one with thousands of names', () => {
  const named = (prefix: string) =>
    Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`${prefix}example.org/r${index}`, '1']))
  const metadata = { namespace: 'n', name: 'q', uid: 'u', resourceVersion: '1' }
  const parsed = <T extends KubeObject>(of: Resource<T>, object: object): Persisted<T> => {
    const read = parserOf(of.read)(Buffer.from(JSON.stringify({ metadata, ...object })))
    if (!of.accepts(read)) throw new Error('it has no identity')
    expect(JSON.stringify(read).length).toBeLessThan(4096)
    return read
  }

  test('a quota: only the usual ones are read', () => {
    const counts = { pods: '0', 'requests.memory': '1Gi', 'limits.cpu': '1' }
    const scopes = Array.from({ length: 1000 }, () => 'NotTerminating')
    const hard = { ...named('requests.'), ...counts }
    const slim = slimQuota(parsed(resourceQuotas, { spec: { hard, scopes }, status: { hard, used: hard } }))
    expect([slim.spec?.hard, slim.status]).toEqual([counts, { hard: counts, used: counts }])
    expect(quotaWarnings({ ranges: [], quotas: [slim] }, () => pod, undefined)).toHaveLength(3)
  })

  test('a range: only the usual ones are read', () => {
    const max = { ...named(''), memory: '1Gi' }
    const limits = [
      { type: 'Container', max, min: named(''), default: named(''), defaultRequest: named('') },
      ...Array.from({ length: 1000 }, () => ({ type: 'Other', max: { storage: '1' } })),
    ]
    const slim = slimRange(parsed(limitRanges, { spec: { limits } }))
    expect(slim.spec).toEqual({ limits: [{ type: 'Container', max: { memory: '1Gi' }, min: {}, default: {} }] })
    expect(quotaWarnings({ ranges: [slim], quotas: [] }, () => pod, undefined)).toHaveLength(1)
  })
})
