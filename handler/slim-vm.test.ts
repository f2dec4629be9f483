import { expect, test } from 'vitest'
import { parserOf } from '../runtime/partial-json.ts'
import { countValues } from './domain-size.ts'
import { cachedVms, digestOf, slimVm } from './slim-vm.ts'

const vm = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', uid: 'vm-1', resourceVersion: '7' },
  spec: { domain: { title: 'x' } },
} as const

const read = (stored: object): unknown => parserOf(cachedVms.read)(Buffer.from(JSON.stringify(stored)))

function slim(stored: object) {
  const found = read(stored)
  if (!cachedVms.accepts(found)) throw new Error('it is no object')
  return slimVm(found)
}

test('of a large VM, no more is read than is cached', () => {
  const text = 'x'.repeat(250_000)
  const labels = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`label-${index}`, '']))
  const annotations = { text, 'virtset.io/grace-period-seconds': '7' }
  const one = { mac: { address: '52:54:00:00:00:01' }, target: { dev: 'tap1' } }
  const devices = { disks: [{ serial: text }], interfaces: [{ ...one, model: { type: 'virtio' } }] }
  const large = {
    ...vm,
    metadata: { ...vm.metadata, labels, annotations, finalizers: [text], managedFields: [{ manager: text }] },
    spec: { domain: { type: 'kvm', description: text, devices }, volumes: [{ name: text }], readinessProbe: { text } },
    status: { phase: 'Running' },
  }
  expect(read(large)).toEqual({
    ...vm,
    metadata: { ...vm.metadata, annotations: { 'virtset.io/grace-period-seconds': '7' } },
    spec: {
      domain: { type: 'kvm', devices: { interfaces: [one] } },
      readinessProbe: {},
      '#': { bytes: JSON.stringify(large.spec).length, values: countValues(large.spec) },
    },
    status: { phase: 'Running' },
    '#': { bytes: JSON.stringify(large).length, values: countValues(large) },
  })
})

test('a cached VM has neither the live domain nor annotations that are not read', () => {
  const annotations = { 'virtset.io/completed-by': '…', 'virtset.io/grace-period-seconds': '7' }
  const domain = { devices: { disks: [] } }
  expect(slim({ ...vm, metadata: { ...vm.metadata, annotations }, status: { phase: 'Running', domain } })).toEqual({
    ...vm,
    metadata: { ...vm.metadata, annotations: { 'virtset.io/grace-period-seconds': '7' } },
    status: { phase: 'Running', domain: digestOf(domain) },
  })
})

test('a cached VM has only the metadata that is read', () => {
  const read = { ...vm.metadata, namespace: 'default', generation: 2, deletionTimestamp: '2030-01-01T00:00:00Z' }
  const text = 'x'.repeat(100_000)
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: text, uid: text }
  const large = { labels: { text }, finalizers: [text], ownerReferences: [owner], generateName: text }
  expect(slim({ ...vm, metadata: { ...read, ...large } }).metadata).toEqual(read)
})

test('a cached VM has no large spec, except for its type and grace period', () => {
  const spec = { domain: { type: 'kvm', description: 'x'.repeat(20_000) }, terminationGracePeriodSeconds: 7 } as const
  const cached = { ...vm, spec: { domain: { type: 'kvm' }, terminationGracePeriodSeconds: 7 }, isPartial: true }
  expect(slim({ ...vm, spec })).toEqual(cached)
  expect(slimVm(slim({ ...vm, spec }))).toEqual(cached)
})

test('of the interfaces in a large spec, a cached VM has what identifies them', () => {
  const card = { mac: { address: '52:54:00:00:00:01' }, target: { dev: 'tap1' } }
  const interfaces = [
    { type: 'ethernet' as const, model: { type: 'virtio' }, ...card },
    { target: { dev: 'x'.repeat(20_000) } },
    ...Array.from({ length: 1000 }, () => ({})),
  ]
  const cached = slim({ ...vm, spec: { domain: { devices: { interfaces } } } })
  expect(cached.spec.domain.devices?.interfaces).toEqual([card, ...Array.from({ length: 255 }, () => ({}))])
  expect(slimVm(cached)).toEqual(cached)
})

test('of a finished VM, only what concerns the end of its launcher is cached', () => {
  const text = '€'.repeat(4000)
  const condition = (type: string) =>
    ({ type, status: 'False', reason: 'R', message: '', lastTransitionTime: '' }) as const
  const large = { ...condition('Ready'), message: text }
  const finished = {
    ...vm,
    metadata: { ...vm.metadata, annotations: { 'virtset.io/grace-period-seconds': '7' } },
    spec: { domain: { description: text }, taps: [{ dev: text, plugin: text }] },
    status: {
      phase: 'Failed',
      podUID: 'pod-1',
      message: text,
      podIPs: [{ ip: text }],
      conditions: [large, condition('PodEnded')],
    },
  } as const
  const cached = slim(finished)
  expect(cached).toEqual({
    ...vm,
    spec: { domain: {}, taps: [{ dev: '', plugin: '' }] },
    status: { phase: 'Failed', podUID: 'pod-1', conditions: [condition('PodEnded')] },
    isPartial: true,
  })
  expect(slimVm(cached)).toEqual(cached)
  const { taps: _taps, ...spec } = finished.spec
  const status = { phase: 'Succeeded' } as const
  expect(slim({ ...vm, spec, status })).toEqual({ ...vm, spec: { domain: {} }, status, isPartial: true })
})

test.each<[string, object]>([
  ['metadata', { metadata: { ...vm.metadata, labels: { text: 'x'.repeat(140_000) } } }],
  ['spec', { spec: { domain: { description: 'x'.repeat(140_000) } } }],
  ['values of its spec', { spec: { domain: { title: Array.from({ length: 4000 }, () => 0) } } }],
  ['live domain', { status: { domain: { title: 'x'.repeat(140_000) } } }],
])('a cached VM has the weight of a whole with a large part: %s', (_, part) => {
  const cached = slim({ ...vm, ...part })
  expect(cached.weight).toBeGreaterThan(128 * 1024)
  expect(cached.weight).toBeLessThan(142_000)
  expect(slimVm(cached).weight).toBe(cached.weight)
})

test('a cached VM without them is unchanged', () => {
  expect(slim(vm)).toEqual(vm)
})

test('the digest of a domain depends on its values and the order of its lists, not on the order of its keys', () => {
  const digests = [
    { a: [1, { b: 2, c: 3 }], d: null },
    { d: null, a: [1, { c: 3, b: 2 }] },
    { d: null, a: [{ c: 3, b: 2 }, 1] },
    { d: null, a: [1, { c: 3, b: '2' }] },
  ].map((domain) => digestOf(domain).digest)
  expect(digests.map((digest) => digests.indexOf(digest))).toEqual([0, 0, 2, 3])
})
