import { expect, test } from 'vitest'
import { parseGuestMetrics } from './guest-metrics.ts'

const metrics = {
  kind: 'VirtualMachineMetrics',
  apiVersion: 'subresources.virtset.io/v1alpha1',
  time: '2026-11-25T20:15:04.117Z',
  cpu: { usageSeconds: 41.7, count: 2 },
  memory: { totalBytes: 1000, residentBytes: 1200 },
  disks: [{ target: 'vda', readBytes: 1, writtenBytes: 2, reads: 3, writes: 4 }],
  network: [{ name: 'eth0', receivedBytes: 5, sentBytes: 6 }],
} as const

test('metrics are accepted with and without what the balloon driver reports', () => {
  const ballooned = { ...metrics, memory: { ...metrics.memory, usedBytes: 700 } }
  for (const one of [metrics, ballooned]) expect(parseGuestMetrics(structuredClone(one))).toEqual(one)
})

test('fields that are not known are left out', () => {
  const more = { '\u001b[2J': 1 }
  const disks = [{ ...metrics.disks[0], ...more }]
  expect(parseGuestMetrics({ ...metrics, kind: '\u009b2J', disks, ...more })).toEqual(metrics)
})

test.each(['r\u00e9seau0', '\u009b2J', 'a b', '', 'x'.repeat(65)])('a device with the name %j is left out', (name) => {
  const disks = [{ ...metrics.disks[0], target: name }, ...metrics.disks]
  const network = [...metrics.network, { ...metrics.network[0], name }]
  expect(parseGuestMetrics({ ...metrics, disks, network })).toEqual(metrics)
})

test.each<[string, unknown]>([
  ['nothing', undefined],
  ['a text', 'metrics'],
  ['an empty object', {}],
  ['no CPU', { ...metrics, cpu: null }],
  ['a counter that is not a number', { ...metrics, cpu: { usageSeconds: {}, count: 1 } }],
  ['a counter that is infinite', { ...metrics, cpu: { usageSeconds: Infinity, count: 1 } }],
  ['memory in use that is not a number', { ...metrics, memory: { ...metrics.memory, usedBytes: {} } }],
  ['disks that are not an array', { ...metrics, disks: { length: 1 } }],
  ['a disk that is null', { ...metrics, disks: [null] }],
  ['a device without counters', { ...metrics, network: [{ name: 'eth0' }] }],
  ['a time with an escape sequence', { ...metrics, time: '\u009b2J' }],
  ['a device without a name', { ...metrics, network: [{ ...metrics.network[0], name: undefined }] }],
])('%s are no metrics', (_, value) => {
  expect(() => parseGuestMetrics(value)).toThrow('The VM’s launcher did not send metrics.')
})
